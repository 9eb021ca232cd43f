"""The documentation site: ``python -m sphinx docs site``."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

project = "buttress"
author = "The buttress developers"
copyright = author

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "docstrings",  # the six from here on are in docs/_ext
    "files_of_the_root",
    "measured",
    "lean_pages",
    "markdown_beside_pages",
    "links_within_the_site",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "figures", "gallery/*.ipynb", "gallery/**/GALLERY_HEADER.rst"]
nitpicky = False

# Markdown, as the pages on the forge read it
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
# members are listed by their full names, as a reader types them
suppress_warnings = ["autosummary.import_cycle"]

# one page a public class or function
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# examples
sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"[\\/][a-z]\w*\.py$",
    "plot_gallery": True,
    "abort_on_example_error": True,
    "backreferences_dir": "reference/uses",
    "doc_module": ("buttress",),
    "reference_url": {"buttress": None},
    "inspect_global_variables": True,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 10,
    "download_all_examples": False,
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "buttress"
html_static_path = ["_static"]
html_css_files = ["buttress.css"]
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # for summaries a search loads the page of every result: megabytes
html_theme_options = {
    "logo": {"text": "buttress"},
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 6,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "changelog": [], "gallery/index": []}

"""For machines: the Markdown of every page beside it, and ``llms.txt``, which lists them."""

import importlib
import inspect
import json
from pathlib import Path

import files_of_the_root
import measured
from sphinx.application import Sphinx

HEAD = """# buttress

> Robust kernel machines for scikit-learn users: exact fits with certificates, wrong labels and corrupt targets found,
> attacks and certified radii, novelty with p-values, and linear machines over joins that are never materialised.

Each page of this site has its Markdown beside it: the same address, with `.md` for `.html`.
"""
PARTS = {"start": "Start", "how-to": "How to", "gallery": "Examples", "reference": "Reference"}


def markdown_of_object(name: str) -> str:
    """Return signature and docstring of a public object, as text."""
    parts = name.split(".")
    found: object = importlib.import_module(parts[0])
    for part in parts[1:]:
        found = getattr(found, part)
    try:
        signature = str(inspect.signature(found))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        signature = ""
    methods = [
        f"## {method}\n\n    {method}{inspect.signature(value)}\n\n{inspect.getdoc(value) or ''}\n"
        for method, value in inspect.getmembers(found, inspect.isfunction)
        if inspect.isclass(found) and not method.startswith("_") and value.__module__.startswith("buttress")
    ]
    return "\n".join([f"# {name}\n\n    {parts[-1]}{signature}\n", inspect.getdoc(found) or "", "", *methods])


def markdown_of_notebook(path: Path) -> str:
    """Return the text and the code of an example."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if "%matplotlib inline" not in "".join(cell["source"])]
    kinds = [cell["cell_type"] for cell in cells if "%matplotlib inline" not in "".join(cell["source"])]
    return "\n\n".join(text if kind == "markdown" else f"```python\n{text}\n```" for text, kind in zip(texts, kinds))


def markdown(app: Sphinx, docname: str) -> str | None:
    """Return the Markdown of a page, None for one that has none (lists of examples)."""
    source = Path(app.env.doc2path(docname))
    notebook = source.with_suffix(".ipynb")
    if source.suffix == ".md":
        sources = [source.read_text(encoding="utf-8")]
        files_of_the_root.read(app, docname, sources)
        return measured.shown(sources[0])
    if docname.startswith("reference/generated/"):
        return markdown_of_object(docname.rpartition("/")[2])
    return markdown_of_notebook(notebook) if notebook.exists() else None


def part(docname: str) -> str:
    """Return the heading of llms.txt under which a page stands."""
    return PARTS.get(docname.split("/")[0], "Pages") if "/" in docname else "Pages"


def write(app: Sphinx, error: Exception | None) -> None:
    """Write the Markdown of all pages, and the list of them."""
    if error is not None or app.builder.format != "html":
        return
    lines: dict[str, list[str]] = {}
    for docname in sorted(app.env.found_docs):
        text = markdown(app, docname)
        if text is None:
            continue
        target = Path(app.outdir) / f"{docname}.md"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        title = app.env.titles[docname].astext()
        lines.setdefault(part(docname), []).append(f"- [{title}]({docname}.md)")
    sections = [f"\n## {name}\n\n" + "\n".join(pages) + "\n" for name, pages in lines.items()]
    (Path(app.outdir) / "llms.txt").write_text(HEAD + "".join(sections), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}

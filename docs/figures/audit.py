"""Take the picture of README and of the home page: the first screen of an audit's page, in a headless Chromium.

    python docs/figures/audit.py
"""

import shutil
import subprocess
import tempfile
from pathlib import Path

IMAGE = Path(__file__).parents[1] / "images" / "audit.png"
SIZE = "1200,1000"  # pixels


def main():
    """Audit README's table and photograph the page."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(path for path in map(shutil.which, names) if path)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["buttress", "audit", "breast_cancer", "--output", folder], check=True)
        subprocess.run([browser, "--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={SIZE}",
                        f"--screenshot={IMAGE}", (Path(folder) / "audit.html").as_uri()], check=True)


if __name__ == "__main__":
    main()

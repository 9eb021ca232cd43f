"""The tests of another package, with our classes in place of scikit-learn's that it uses.

    python -m benchmarks.other_suites FOLDER LogisticRegression=SVC ... -- tests/test_a.py ...

``FOLDER`` is a package with its tests inside, such as ``mapie`` of MAPIE's source archive; what it needs must be
installed. In a copy of it each class of scikit-learn that is named is imported from here, in the package and in its
tests alike, and pytest runs the files named, with theirs and with ours. Counted are the tests that pass with theirs.
"""

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

IGNORED = shutil.ignore_patterns("__pycache__", ".git")


def swapped(source, swaps):
    """Return Python text in which the classes named are ours, and how many imports that were."""
    lines = source.splitlines()
    found = 0
    for node in reversed(list(ast.walk(ast.parse(source)))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
            for name in node.names:
                if name.name in swaps:
                    ours = f"from buttress import {swaps[name.name]} as {name.asname or name.name}  # noqa"
                    lines[node.end_lineno - 1] += f"\n{' ' * node.col_offset}{ours}"
                    found += 1
    return "\n".join(lines) + "\n", found


def outcomes(package, swaps, files):
    """Run the files in a copy of the package and return test -> "" for passed, else the error."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / package.name
        shutil.copytree(package, copy, ignore=IGNORED)
        imports = 0
        for file in copy.rglob("*.py"):
            text, found = swapped(file.read_text(encoding="utf-8"), swaps)
            imports += found
            file.write_text(text, encoding="utf-8")
        if swaps and not imports:
            sys.exit(f"{package} imports none of {', '.join(swaps)} from sklearn.")
        (Path(folder) / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        report = Path(folder) / "report.xml"
        path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}",
                        *(f"{package.name}/{file}" for file in files)], cwd=folder, check=False,
                       stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"})
        found = {}
        for case in ElementTree.parse(report).iter("testcase"):
            error = [part.get("message", "") for part in case if part.tag in ("failure", "error", "skipped")]
            found[f"{case.get('classname')}::{case.get('name')}"] = (error or [""])[0]
        return found


def main():
    if "--" not in sys.argv:
        sys.exit(str(__doc__))
    split = sys.argv.index("--")
    package, swaps, files = sys.argv[1], dict(part.split("=") for part in sys.argv[2:split]), sys.argv[split + 1:]
    theirs, ours = (outcomes(Path(package).resolve(), swap, files) for swap in ({}, swaps))
    asked = [test for test in theirs if not theirs[test]]
    passed = Counter(test.split("::")[0] for test in asked if not ours.get(test, "not run"))
    for test in asked:
        if ours.get(test, "not run"):
            print(f"{test}: {(ours.get(test, 'not run') or '?').splitlines()[-1][:200]}")
    print("\n| tests of | classes swapped | pass with theirs | of these pass with ours |\n| --- | --- | --- | --- |")
    names = ", ".join(f"`{theirs}` by `{ours}`" for theirs, ours in swaps.items())
    for name, many in Counter(test.split("::")[0] for test in asked).items():
        print(f"| `{name}` | {names} | {many} | {passed[name]} |")


if __name__ == "__main__":
    main()

"""The tests of other packages, with our classes in place of those of scikit-learn that they use.

    python -m benchmarks.other_suites FOLDER        prints what fails and the table of docs/drop-in.md

``FOLDER`` holds the sources of the packages, each unpacked: archives from ``pip download --no-deps --no-binary :all:``
of mapie and imbalanced-learn, and the repositories of cleanlab and pyod. The packages must be installed, for what they
need; the tests run in copies, in which classes of scikit-learn are imported from here, in the package and in its tests.
Counted are tests that pass with theirs. A package that ``FOLDER`` lacks is left out.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree


@dataclass(frozen=True)
class Suite:
    """Test files of a package, and which classes of ours stand for which of scikit-learn's."""

    package: str
    swaps: dict[str, str]
    files: tuple[str, ...]


SUITES = [
    Suite("imbalanced-learn", {"SVC": "SVC", "SVR": "SVR"},
          ("imblearn/over_sampling/_smote/tests/test_svm_smote.py", "imblearn/ensemble/tests/test_bagging.py",
           "imblearn/tests/test_pipeline.py")),
    Suite("PyOD", {"OneClassSVM": "OneClassSVM"}, ("pyod/test/test_ocsvm.py",)),
    Suite("MAPIE", {"LogisticRegression": "SVC", "LinearRegression": "LinearSVR"},
          ("mapie/tests/test_common.py", "mapie/tests/test_calibration.py",
           "mapie/tests/test_conformity_scores_bounds.py", "mapie/tests/test_quantile_regression.py",
           "mapie/tests/test_utils.py", "mapie/tests/risk_control/test_binary_classification_control.py")),
    Suite("cleanlab", {"LogisticRegression": "SVC", "LinearRegression": "LinearSVR"},
          ("tests/test_classification.py", "tests/test_regression.py")),
]

ONLY_THEIRS = r'solver="lbfgs"(, )?'  # of LogisticRegression


def swapped(source, swaps):
    """Return Python text in which the classes named are ours, and how many imports that were."""
    lines = re.sub(ONLY_THEIRS, "", source).splitlines()
    found = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
            for name in node.names:
                if name.name in swaps:
                    ours = f"from buttress import {swaps[name.name]} as {name.asname or name.name}  # noqa"
                    lines[node.end_lineno - 1] += f"\n{' ' * node.col_offset}{ours}"
                    found += 1
    return "\n".join(lines) + "\n", found


def outcomes(root, swaps, files):
    """Run the files in a copy of the package and return test -> "" for passed, else the error."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(root, copy, ignore=shutil.ignore_patterns("doc", "docs", "examples", ".git"))
        imports = 0
        for file in copy.rglob("*.py"):
            text, found = swapped(file.read_text(encoding="utf-8"), swaps)
            imports += found
            if found:
                file.write_text(text, encoding="utf-8")
        if swaps and not imports:
            sys.exit(f"{root} imports none of {', '.join(swaps)} from sklearn.")
        (copy / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        report = copy / "report.xml"
        path = os.pathsep.join([str(copy), *filter(None, [os.environ.get("PYTHONPATH")])])
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *files],
                       cwd=copy, check=False, stdout=subprocess.DEVNULL,
                       env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"})
        found = {}
        for case in ElementTree.parse(report).iter("testcase"):
            error = [part.get("message") or "?" for part in case if part.tag in ("failure", "error", "skipped")]
            found[f"{case.get('classname')}::{case.get('name')}"] = (error or [""])[0]
        return found


def main():
    if len(sys.argv) != 2:
        sys.exit(str(__doc__))
    rows = []
    for suite in SUITES:
        roots = [root for root in Path(sys.argv[1]).iterdir() if (root / suite.files[0]).exists()]
        for root in roots[:1]:
            theirs, ours = (outcomes(root, swaps, suite.files) for swaps in ({}, suite.swaps))
            asked = [test for test, error in theirs.items() if not error]
            lost = [test for test in asked if ours.get(test, "not run")]
            for test in lost:
                print(f"{suite.package}: {test}: {ours.get(test, 'not run').splitlines()[-1][:150]}", file=sys.stderr)
            names = ", ".join(f"`{name}` by `{other}`" for name, other in suite.swaps.items())
            rows.append((suite.package, names, len(asked), len(asked) - len(lost)))
    print("| tests of | swapped | pass with theirs | of these pass with ours |\n| --- | --- | --- | --- |")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()

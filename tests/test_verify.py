"""The verifier: what it proves is true, it needs nothing of this package, and it rejects what was altered."""

import ast
import shutil
import subprocess
import sys
import warnings
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fuzz import structures
from sklearn import svm as libsvm
from verify_cases import altered, held, models, rows, written

from buttress import SVC, SVR, LinearSVC, NotConvergedWarning, save, verify
from buttress.relational import Join, RelationalLinearSVC, Table
from buttress.verify import Real
from buttress.verify.command import read_columns
from buttress.verify.kernels import Gaussians, kernel
from buttress.verify.machines import same_label

RUN = "import runpy, sys; sys.modules['buttress'] = None; runpy.run_module('verify', run_name='__main__')"
FOLDER = Path(verify.__file__).parent


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return written(tmp_path_factory.mktemp("models") / "model.buttress")


@pytest.mark.parametrize("number", range(len(models())), ids=[str(model) for model, *_ in models()])
def test_what_a_fit_claims_is_proven(number, cases):
    claims = verify.prove(*cases[number])
    assert [claim for claim in claims if not claim[3]] == []


@pytest.mark.parametrize("model", [SVC(C=100.0, max_iter=30), SVC(kernel="linear", max_iter=3), SVR(max_iter=10)])
def test_what_a_fit_that_was_cut_off_claims_is_proven_too(model, tmp_path):
    X, y, numbers, _ = rows()
    y = numbers if isinstance(model, SVR) else y > 0.5
    rng = np.random.default_rng(0)
    X = X + rng.normal(size=X.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        save(model.fit(X, y), tmp_path / "model")
    assert not model.converged_
    assert held(verify.read_model(tmp_path / "model"), X, y, None)


def test_it_needs_numpy_and_the_standard_library_only():
    for file in FOLDER.glob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        names = {alias.name.split(".")[0] for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module.split(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
        assert names <= {"numpy", *sys.stdlib_module_names}
        assert all(node.level <= 1 for node in nodes if isinstance(node, ast.ImportFrom))


def test_its_files_are_short():
    lengths = {file.name: len(file.read_text().splitlines()) for file in FOLDER.glob("*.py")}
    assert lengths.pop("core.py") <= 250
    assert max(lengths.values()) <= 300


def test_errors_hold_the_exact_numbers():
    rng = np.random.default_rng(0)
    for size in (1, 7, 300):
        a, b = rng.normal(size=(2, size)) * 10.0 ** rng.integers(-6, 6, (2, size))
        exact = sum((Fraction(x) * Fraction(y) for x, y in zip(a, b, strict=True)), Fraction(0))
        found = Real(a) @ b * 3.1 + 0.7
        exact = exact * Fraction(3.1) + Fraction(0.7)
        assert Fraction(float(found.low)) <= exact <= Fraction(float(found.high))
        assert found.high - found.low <= 1e-12 * (np.abs(a) @ np.abs(b) + 1)


@pytest.mark.parametrize("name", ["RBF", "Laplacian", "Cauchy"])
def test_kernel_values_hold_those_of_more_digits(name):
    X = rows()[0]
    found = kernel({"class": name, "gamma": 0.7}, X, X[:9])
    wide = X.astype(np.longdouble)
    r2 = ((wide[:, None] - wide[None, :9]) ** 2).sum(axis=2)
    exact = {"RBF": np.exp(-np.longdouble(0.7) * r2), "Laplacian": np.exp(-np.longdouble(0.7) * np.sqrt(r2)),
             "Cauchy": 1 / (1 + np.longdouble(0.7) * r2)}[name]
    assert ((found.low <= exact) & (exact <= found.high)).all()


def test_the_optimum_of_libsvm_lies_between_the_proven_bounds(cases):
    model, X, y, _ = cases[0]
    peer = libsvm.SVC(tol=1e-10, gamma=model["expansion_"]["kernel"]["gamma"]).fit(X, y)
    K = np.exp(-peer.gamma * ((peer.support_vectors_[:, None] - peer.support_vectors_) ** 2).sum(axis=2))
    dual = np.abs(peer.dual_coef_).sum() - peer.dual_coef_[0] @ K @ peer.dual_coef_[0] / 2
    found = {name: proven for name, _, proven, _ in verify.prove(model, X, y)}
    assert found["dual objective 0"] <= dual + 1e-8
    assert found["primal objective 0"] >= dual - 1e-8


def test_altered_models_are_rejected(cases):
    reject(cases, 60)


@pytest.mark.slow
def test_a_thousand_altered_models_are_rejected(cases):
    reject(cases, 1_000)


def reject(cases, count):
    rng = np.random.default_rng(1)
    accepted = []
    for _ in range(count):
        model, X, y, weight = cases[rng.integers(len(cases))]
        changed, kind = altered(model, rng)
        if held(changed, X, y, weight):
            accepted.append((model["class"], kind))
    assert accepted == []


def test_no_forgery_of_what_surrounds_the_numbers_is_proven_for_the_honest_problem(tmp_path):
    wrong, made = structures.accepted(tmp_path, 60)
    assert wrong == []
    assert len(made) > 15


@pytest.mark.slow
def test_no_forgery_of_a_thousand_is(tmp_path):
    assert structures.accepted(tmp_path, 1_000, seed=1)[0] == []


def test_multipliers_of_rows_without_weight_prove_nothing(tmp_path):
    X, y, _, weight = rows()
    y, weight = (y > 0).astype(int), weight * (np.arange(len(y)) % 5 > 0)
    save(LinearSVC(loss="squared_hinge").fit(X, y, sample_weight=weight), tmp_path / "model")
    model = verify.read_model(tmp_path / "model")
    assert held(model, X, y, weight)
    forged = np.array(model["dual_coef_"])
    forged[0, weight == 0] = np.where(y > 0, 1.0, -1.0)[weight == 0]
    claimed = model["primal_objective_"] * 1.001  # beyond the optimum
    assert not held({**model, "dual_coef_": forged, "dual_objective_": claimed}, X, y, weight)


def test_other_rows_than_those_of_the_fit_are_noticed(cases):
    for number in (0, 6, 8, 11, 14):
        model, X, y, weight = cases[number]
        assert not held(model, X[::-1].copy(), y, weight)


@pytest.fixture(scope="module")
def join(tmp_path_factory):
    """A folder with two tables and a model over their join."""
    folder = tmp_path_factory.mktemp("join")
    rng = np.random.default_rng(0)
    loan = pd.DataFrame({"who": rng.integers(0, 15, 40), "sum": rng.normal(size=40)})
    loan["bad"] = np.where(loan["sum"] + rng.normal(size=40) > 0.3, "yes", "no")
    job = rng.choice(["a", "b"], 20)
    person = pd.DataFrame({"id": rng.integers(0, 15, 20), "age": rng.normal(size=20), "job": job})
    loan.to_csv(folder / "loan.csv", index=False)
    person.to_csv(folder / "person.csv", index=False)
    tables = [Table("loan", loan, features=["sum"], label="bad"), Table("person", person, features=["age", "job"])]
    model = RelationalLinearSVC(alpha=0.01, random_state=0).fit(Join(tables, on=[("loan.who", "person.id")]))
    save(model, folder / "model")
    return folder


def test_the_interval_of_a_join_is_proven_and_a_narrower_one_is_not(join):
    model = verify.read_model(join / "model")
    tables = {name: read_columns(join / f"{name}.csv") for name in ("loan", "person")}
    asked = (tables, [["loan.who", "person.id"]], "bad")
    assert all(holds for *_, holds in verify.relational(model, *asked))
    low, high = model["objective_interval_"]
    for changed in ({"objective_interval_": [high * 1.001, high * 1.002]}, {"objective_interval_": [low, low * 0.999]},
                    {"coef_": model["coef_"] * 1.1}, {"intercept_": model["intercept_"] + 0.1}, {"n_join_rows_": 5}):
        assert not all(holds for *_, holds in verify.relational({**model, **changed}, *asked))


def test_the_command_says_what_is_proven_and_of_which_problem(join, tmp_path, capsys):
    X, y, _, _ = rows()
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    frame.to_csv(tmp_path / "data.csv", index=False)
    frame[:2].drop(columns="y").to_csv(tmp_path / "rows.csv", index=False)
    save(SVC().fit(X, y), tmp_path / "model")
    call = [str(tmp_path / "model"), str(tmp_path / "data.csv"), "--radii", str(tmp_path / "rows.csv")]
    assert verify.main(call) == 3
    said = capsys.readouterr().out
    assert "proven: l2 radius of row 1" in said
    assert verify.main([*call, "--norm", "linf"]) == 3
    assert "proven: linf radius of row 1" in capsys.readouterr().out
    assert "proven for the problem that the file states; none was given (--problem)" in said
    stated = next(line.removeprefix("problem: ") for line in said.splitlines() if line.startswith("problem: "))
    assert verify.main([*call, "--problem", stated]) == 0
    (tmp_path / "problem.json").write_text(stated.replace('"C": 1.0', '"C": 2'))
    assert verify.main([*call, "--problem", str(tmp_path / "problem.json")]) == 3
    assert "differ or lack: C" in capsys.readouterr().out
    frame["a"] += frame["b"]
    frame.to_csv(tmp_path / "data.csv", index=False)
    assert verify.main([*call, "--problem", stated]) == 1
    assert "NOT PROVEN" in capsys.readouterr().out
    assert verify.main([str(tmp_path / "data.csv"), str(tmp_path / "data.csv")]) == 2


def test_a_copy_of_the_folder_runs_without_this_package(join, tmp_path):
    shutil.copytree(FOLDER, tmp_path / "verify")
    tables = ["--table", f"loan={join / 'loan.csv'}", "--table", f"person={join / 'person.csv'}"]
    done = subprocess.run([sys.executable, "-S", "-c", RUN, str(join / "model"), *tables, "--on",
                           "loan.who=person.id", "--target", "bad"], capture_output=True, text=True,
                          cwd=tmp_path, env={"PYTHONPATH": str(Path(np.__file__).parents[1])})
    assert done.returncode == 3, done.stdout + done.stderr
    assert "upper end of the interval" in done.stdout


def gaussian_sums(gamma, X, Z, coef):
    """sum_j c_j exp(-gamma |x - z_j|^2) by numbers of 60 digits."""
    with localcontext(Context(prec=60)):
        squares = [[sum((Decimal(float(a)) - Decimal(float(b))) ** 2 for a, b in zip(x, z, strict=True)) for z in Z]
                   for x in X]
        return [sum(Decimal(float(c)) * (-Decimal(gamma) * t).exp() for c, t in zip(coef, row, strict=True))
                for row in squares]


def apart(v, real):
    with localcontext(Context(prec=60)):
        return float(abs(Decimal(float(v)) - real))


@pytest.mark.parametrize("seed", range(40))
def test_sums_of_gaussians_in_one_product_hold_those_of_more_digits(seed):
    rng = np.random.default_rng(seed)
    n, m, d = 4, int(rng.integers(1, 9)), int(rng.integers(1, 5))
    spread, offset = 10.0 ** rng.uniform(-3, 1), 10.0 ** rng.uniform(-2, 4)
    X, Z = (offset + spread * rng.normal(size=(rows, d)) for rows in (n, m))
    gamma, coef = float(10.0 ** rng.uniform(-2, 1) / spread**2), rng.normal(size=(m, 2)) * 10.0 ** rng.uniform(-3, 12)
    centre = np.median(X, axis=0)
    found = Gaussians(gamma, Z - centre, coef).sums(X - centre)
    if found is None:
        pytest.skip("differences are sharper")
    for column in range(2):
        exact = gaussian_sums(gamma, X, Z, coef[:, column])
        errors = [apart(v, real) for v, real in zip(found.v[:, column], exact, strict=True)]
        assert (np.array(errors) <= found.e[:, column]).all()


@pytest.mark.parametrize(("d", "k"), [(2, 1), (40, 1), (1, 500)])
def test_sums_over_several_stacks_of_rows_and_centres_hold_those_of_more_digits(d, k):
    """Stacks are of 128, 64 and 8 rows and centres, the last of them not full."""
    rng = np.random.default_rng(0)
    X, Z, coef = rng.normal(size=(150, d)), rng.normal(size=(601, d)), rng.normal(size=(601, k))
    found = Gaussians(0.3, Z, coef).sums(X)
    assert found.v.shape == found.e.shape == (150, k)
    for i in (0, 127, 149):
        error = apart(found.v[i, -1], gaussian_sums(0.3, X[i : i + 1], Z, coef[:, -1])[0])
        assert error <= found.e[i, -1] < 1e-9


def test_the_rounding_of_products_is_what_holds_sums_far_from_the_middle():
    """One centre near a row, both as far out as is taken: products of lengths that cancel are nearly all the error."""
    rng = np.random.default_rng(0)
    lost, rest = [], []
    for _ in range(200):
        x = rng.normal(size=(1, 2))
        x *= 13.0 / np.linalg.norm(x)
        z = x + 0.3 * rng.normal(size=(1, 2))
        found = Gaussians(1.0, z, np.ones((1, 1))).sums(x)
        error = apart(found.v[0, 0], gaussian_sums(1.0, x, z, [1.0])[0])
        assert error <= found.e[0, 0]
        lost.append(error)
        rest.append(found.v[0, 0] * 20 * 2.0**-53)  # what would be left without it
    assert np.mean(np.array(lost) > np.array(rest)) > 0.5


def test_far_rows_are_left_to_differences_and_other_kernels_to_tiles():
    rows, part = np.array([[0.0], [1e5]]), {"class": "RBF", "gamma": 1.0}
    near = Gaussians.of(part, rows, rows, np.ones((2, 1)))
    assert near.sums(rows) is None
    assert near.sums(np.full((1, 1), np.nan)) is None
    for other in ({"class": "Laplacian", "gamma": 1.0}, {"class": "Linear", "coef0": 0.0}):
        assert Gaussians.of(other, rows, rows, np.ones((2, 1))) is None
    assert Gaussians.of(part, rows, rows.astype(np.longdouble), np.ones((2, 1))) is None


def test_data_with_gaps_cannot_be_checked(tmp_path, capsys):
    X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 1])
    save(SVC().fit(X, y), tmp_path / "model")
    (tmp_path / "rows.csv").write_text("x,y\n0,0\nnan,1\n2,1\n")
    assert verify.main([str(tmp_path / "model"), str(tmp_path / "rows.csv")]) == 2
    assert "X must be finite. Got nan in row 1, column 0. Fill it in or drop the row" in capsys.readouterr().err
    (tmp_path / "rows.csv").write_text("x,y\n0,0\nlow,1\n2,1\n")
    assert verify.main([str(tmp_path / "model"), str(tmp_path / "rows.csv")]) == 2
    assert "column 'x' of the data holds texts: leave it out, or name the --target" in capsys.readouterr().err


def test_labels_are_the_same_as_text_and_as_numbers_and_whole_ones_to_the_last_digit():
    assert len({same_label(label) for label in (1, "1", 1.0, "1.0")}) == 1
    assert same_label(2**53) != same_label(str(2**53 + 1))
    assert same_label(2**53 + 1) == same_label(str(2**53 + 1))
    assert same_label("a") == "a"
    assert same_label("nan") == same_label("nan")  # a class may be called so

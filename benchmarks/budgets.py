"""Hostile fits within max_time: how many exceed it, and how many state a certificate that a recount contradicts.

    python benchmarks/budgets.py [--fits 40] [--seconds 180] [--seed 0] [--only NAME]

Each fit draws its data and its C: C from 1e-6 to 1e9, columns scaled from 1e-8 to 1e8, rows repeated, classes nearly
separable, one class rare. max_time is 0.3 or 1 second. A fit exceeds it if its seconds, with one thread, are more
than 1 s or a tenth above it: of CPU seconds and wall seconds the fewer count, because on a shared machine wall seconds
also hold what others do. What is compiled at the first use is compiled before.

Recounted with scikit-learn's kernels and sums of its own, from the coefficients that the model shows: both objectives
of SVC, SVR and SVDD, and that their dual points are feasible. Of LinearSVC, which shows no dual point, the primal
objective, and that the dual one is no higher than the primal objective at any of a few other hyperplanes; so also of
AdversarialLinearSVC against a ball, and of the interval of RelationalLinearSVC over the rows of the join. The claims of
MultiKernelSVDD are proved by buttress.verify. Machines of three classes are not recounted.
"""

import argparse
import os
import signal
import tempfile

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
import warnings
from collections import Counter

import numpy as np
import pandas as pd
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.svm import LinearSVC as Liblinear

import buttress as bt
from buttress import verify
from buttress.relational import Join, Table

ALLOWED = 1.0  # seconds over max_time, or a tenth of it
ROUNDING = 1e-6  # relative to the sum of the absolute terms: what rounding may change in a recount
LIMITS = (0.3, 1.0)
MIXTURE_ROWS = 200  # most rows of a mixture whose claims are proved, seven kernels and their errors taking long
OTHERS = 50  # rows of the second table of a join


def hostile(rng):
    """Return X (n, d), labels (n,) of two or three classes, targets (n,), and what is hostile about them."""
    n, d = rng.choice([200, 1000, 3000], p=[0.4, 0.4, 0.2]), rng.choice([3, 10, 30])
    X = rng.normal(size=(n, d))
    score = X @ rng.normal(size=d) / np.sqrt(d)
    traits = [name for name in ("scales", "duplicates", "separable", "imbalanced", "heavy tails") if rng.rand() < 0.4]
    y = (score > (2.0 if "imbalanced" in traits else 0.0)).astype(int)
    noise = 0.0 if "separable" in traits else 0.15
    y = np.where(rng.rand(n) < noise, 1 - y, y)
    y[:2] = [0, 1]
    if rng.rand() < 0.2:
        y[(score < np.quantile(score, 0.3)) & (np.arange(n) > 1)] = 2
    if "heavy tails" in traits:
        X = X * rng.standard_cauchy(size=(n, 1))
    if "duplicates" in traits:
        X[n // 2 :] = X[rng.randint(0, 5, n - n // 2)]
    if "scales" in traits:
        X = X * 10 ** rng.uniform(-8, 8, d)
    target = score + rng.standard_t(1.5, size=n) * 10 ** rng.uniform(-3, 3)
    return X, y, target, traits


def machines(rng):
    """Return estimators by name, with a C drawn for each fit."""
    C = float(10 ** rng.uniform(-6, 9))
    alpha = float(10 ** rng.uniform(-9, 6))
    kernel = str(rng.choice(["rbf", "linear", "poly"]))
    small = {"n_landmarks": 100, "random_state": 0}
    rkhs = {"eps": 1e-3}
    return {
        "SVC": bt.SVC(C=C, kernel=kernel),
        "SVC ovr, tol 1e-9": bt.SVC(C=C, kernel=kernel, multi_class="ovr", tol=1e-9),
        "SVC C=inf": bt.SVC(C=np.inf),
        "SVC C=loo": bt.SVC(C="loo", gamma="loo"),
        "SVC, no cache": bt.SVC(C=C, cache_size=0.01),
        "SVR": bt.SVR(C=C, kernel=kernel, epsilon=float(10 ** rng.uniform(-6, 1))),
        "SVDD": bt.SVDD(nu=float(rng.uniform(0.01, 0.9)), kernel=kernel),
        "MultiKernelSVDD": bt.MultiKernelSVDD(nu=float(rng.uniform(0.05, 0.9))),
        "LinearSVC": bt.LinearSVC(C=C, loss=str(rng.choice(["hinge", "squared_hinge"]))),
        "LinearSVC dual": bt.LinearSVC(C=C, solver="dual", max_iter=None),
        "StochasticLinearSVC": bt.StochasticLinearSVC(C=C, max_iter=None, random_state=0),
        "AdversarialSVC": bt.AdversarialSVC(C=C, eps=1e-3, **small),
        "CertifiedSVC": bt.CertifiedSVC(C=C, eps=1e-3, **small),
        "AdvSVM": bt.AdvSVM(C=C, **rkhs),
        "StochasticAdvSVM": bt.StochasticAdvSVM(C=C, n_features=256, n_passes=20, random_state=0, **rkhs),
        "StochasticAdvSVM, kernel": bt.StochasticAdvSVM(C=C, n_features=None, n_passes=20, random_state=0, **rkhs),
        "AdversarialLinearSVC": bt.AdversarialLinearSVC(C=C, eps=1e-3),
        "FreeRangeSVC": bt.FreeRangeSVC(C=C, C_f=0.01),
        "KernelClassifier": bt.KernelClassifier(alpha=alpha),
        "KernelRegressor": bt.KernelRegressor(alpha=alpha),
        "RobustKernelClassifier": bt.RobustKernelClassifier(random_state=0),
        "RobustKernelRegressor": bt.RobustKernelRegressor(random_state=0),
        "RobustLinearRegressor": bt.RobustLinearRegressor(random_state=0),
        "CRR": bt.CRR(contamination=0.1, max_iter=None),
        "STIR": bt.STIR(max_iter=None),
        "TrimmedLikelihoodClassifier": bt.TrimmedLikelihoodClassifier(contamination=0.1, max_iter=None),
        "TrimmedLikelihoodRegressor": bt.TrimmedLikelihoodRegressor(contamination=0.1, max_iter=None),
        "RelationalLinearSVC": bt.RelationalLinearSVC(alpha=alpha, random_state=0),
    }


def gram(model, X, centers=None):
    """Return kernel values by scikit-learn, for kernels given by name."""
    kernel = model.kernel_ if hasattr(model, "kernel_") else model.expansion_.kernel
    own = {name: value for name, value in kernel.get_params().items() if name in ("gamma", "degree", "coef0")}
    name = {"RBF": "rbf", "Linear": "linear", "Polynomial": "polynomial"}[type(kernel).__name__]
    return pairwise_kernels(X, centers, metric=name, **({} if name == "linear" else own))


def stated(claimed, recounted, size):
    """Say whether a number agrees with its recount up to the rounding of terms of this size."""
    return abs(claimed - recounted) <= ROUNDING * max(size, 1e-300)


def proved_svm(model, X, y, regression):
    """Recount both objectives of a machine of two classes, or of a regressor."""
    K = gram(model, X)
    coef = np.zeros(len(X))
    coef[model.support_] = model.dual_coef_[0]
    f = K @ coef + model.intercept_[0]
    norm = float(coef @ K @ coef)
    limit = model.C * (1 + 1e-9)
    if regression:
        loss = np.maximum(0, np.abs(y - f) - model.epsilon)
        dual_terms = [coef * y, -model.epsilon * np.abs(coef)]
        inside = np.abs(coef).max() <= limit
    else:
        signs = np.where(y == model.classes_[1], 1.0, -1.0)
        loss = np.maximum(0, 1 - signs * f)
        dual_terms = [np.abs(coef)]
        inside = (signs * coef).min() >= -1e-9 * model.C and np.abs(coef).max() <= limit
    primal = 0.5 * norm + model.C * loss.sum()
    dual = float(sum(term.sum() for term in dual_terms)) - 0.5 * norm
    size = norm + primal + float(sum(np.abs(term).sum() for term in dual_terms)) + _rounded(K, coef, model.C)
    balanced = abs(coef.sum()) <= 1e-9 * max(np.abs(coef).sum(), 1e-300)
    room = ROUNDING * size  # both are bounds, which allow for rounding: of C = 5e8 by some thousandths
    return bool(inside and balanced and model.primal_objective_ >= primal - room
                and model.dual_objective_ <= dual + room)


def _rounded(K, coef, C):
    """Return the sizes that cancel in K coef, which a loss multiplies by C."""
    return C * float((np.abs(K) @ np.abs(coef)).sum()) * 1e-7


def proved_ball(model, X, y, regression):
    K = gram(model, X)
    a = np.zeros(len(X))
    a[model.support_] = model.dual_coef_[0]
    diagonal = np.diagonal(K)
    norm = float(a @ K @ a)
    d2 = diagonal - 2 * (K @ a) + norm
    total = model.nu * len(X)
    radius = np.sort(d2)[::-1][min(int(np.ceil(total * (1 - 1e-12))) - 1, len(X) - 1)]
    primal = radius + np.maximum(0, d2 - radius).sum() / total
    dual = float(diagonal @ a) - norm
    size = np.abs(diagonal).max() + norm
    feasible = abs(a.sum() - 1) <= 1e-9 and a.min() >= -1e-12 and a.max() <= (1 + 1e-9) / total
    return feasible and stated(model.primal_objective_, primal, size) and stated(model.dual_objective_, dual, size)


def proved_linear(model, X, y, regression):
    def primal(w, b):
        u = np.maximum(0, 1 - signs * (X @ w + b))
        return 0.5 * float(w @ w) + model.C * float((u**2 if model.loss == "squared_hinge" else u).sum())

    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    own = primal(model.coef_[0], model.intercept_[0])
    others = [own, primal(np.zeros(X.shape[1]), np.sign(signs.sum()))]
    with np.errstate(all="ignore"):
        found = Liblinear(C=model.C, loss=model.loss, max_iter=200, dual=model.loss == "hinge").fit(X, y)
        others.append(primal(found.coef_[0], found.intercept_[0]))
    size = own + model.C * 1e-9 * float((np.abs(X) @ np.abs(model.coef_[0])).sum())
    least = np.nanmin(others)
    return stated(model.primal_objective_, own, size) and model.dual_objective_ <= least + ROUNDING * size


def proved_mixture(model, X, y, regression):
    """Prove the claims of a mixture of up to 200 rows from its file, by code that shares nothing with its fit."""
    if len(X) > MIXTURE_ROWS:
        return None
    with tempfile.TemporaryDirectory() as folder:
        bt.save(model, f"{folder}/model")
        claims = verify.prove(verify.read_model(f"{folder}/model"), X)
    return all(holds for _, _, _, holds in claims)


def proved_robust(model, X, y, regression):
    """Recount the objective against a ball, and that no hyperplane tried is below what the gap allows."""
    signs = np.where(y == model.classes_[1], 1.0, -1.0)

    def primal(w, b):
        losses = np.maximum(0, 1 - signs * (X @ w + b) + model.eps * np.abs(w).sum())
        return 0.5 * float(w @ w) + model.C * float(losses.sum())

    own = primal(model.coef_[0], model.intercept_[0])
    with np.errstate(all="ignore"):
        found = Liblinear(C=model.C, loss="hinge", max_iter=200).fit(X, y)
    others = [primal(np.zeros(X.shape[1]), np.sign(signs.sum())), primal(found.coef_[0], found.intercept_[0])]
    size = own + model.C * 1e-9 * float((np.abs(X) @ np.abs(model.coef_[0])).sum())
    lower = model.primal_objective_ - model.dual_gap_
    return stated(model.primal_objective_, own, size) and lower <= np.nanmin(others) + ROUNDING * size


def proved_join(model, X, y, regression):
    """Recount the objective over the join, as one table of all columns, against both ends of the interval."""
    joined = np.column_stack([X[:, : len(X[0]) // 2], X[np.arange(len(X)) % OTHERS, len(X[0]) // 2 :]])
    scale = np.abs(joined).max(axis=0)
    rows = np.column_stack([joined / scale, np.ones(len(X))]) * np.where(y == model.classes_[1], 1.0, -1.0)[:, None]

    def primal(beta):
        return float(np.maximum(0, 1 - rows @ beta).mean() + model.alpha_ * beta @ beta)

    low, high = model.objective_interval_
    own = np.append(model.coef_[0] * scale, model.intercept_)
    others = [primal(own), 1.0]
    found = Liblinear(C=1 / (2 * model.alpha_ * len(X)), loss="hinge", fit_intercept=False, max_iter=200)
    signs = np.sign(rows[:, -1])
    others.append(primal(found.fit(rows * signs[:, None], signs).coef_[0]))
    return primal(own) <= high * (1 + ROUNDING) and low <= min(others) * (1 + ROUNDING)


def joined(X, y):
    """Return the rows as a join of two tables: half the columns stand in a table of a few rows."""
    half = X.shape[1] // 2
    near = {f"x{j}": X[:, j] for j in range(half)}
    far = {f"x{j}": X[:OTHERS, j] for j in range(half, X.shape[1])}
    rows = pd.DataFrame({**near, "other": np.arange(len(X)) % OTHERS, "y": y})
    others = pd.DataFrame({**far, "id": np.arange(OTHERS)})
    tables = [Table("rows", rows, features=list(near), label="y"), Table("others", others, features=list(far))]
    return Join(tables, on=[("rows.other", "others.id")])


PROOFS = {bt.SVC: proved_svm, bt.SVR: proved_svm, bt.SVDD: proved_ball, bt.LinearSVC: proved_linear,
          bt.MultiKernelSVDD: proved_mixture, bt.AdversarialLinearSVC: proved_robust,
          bt.RelationalLinearSVC: proved_join}


def proved(model, X, y, regression):
    """Say whether a recount agrees with what a model states; None where nothing is recounted."""
    proof = PROOFS.get(type(model))
    several = getattr(model, "classes_", [0, 1])
    if proof is None or len(several) > 2 or isinstance(model.get_params().get("C"), str) or np.isinf(
            model.get_params().get("C") or 1.0) or not np.isfinite(np.max(getattr(model, "dual_gap_", 0.0))):
        return None
    with np.errstate(all="ignore"):
        found = proof(model, X, y, regression)
    return None if found is None else bool(found)


def one(name, seed):
    """Fit one estimator to one hostile data set; return its CPU and wall seconds over max_time, and what came of it."""
    rng = np.random.RandomState(seed)
    X, y, target, traits = hostile(rng)
    limit = float(rng.choice(LIMITS))
    model = machines(rng)[name].set_params(max_time=limit)
    regression = "Regressor" in name or name in ("SVR", "CRR", "STIR")
    goal = target if regression else y
    if name == "RelationalLinearSVC":
        goal = np.minimum(y, 1)
    given = (joined(X, goal),) if name == "RelationalLinearSVC" else (X, goal)
    cpu, wall = time.process_time(), time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(*given)
        ending = "fitted"
    except (ValueError, TimeoutError) as error:
        ending = f"refused: {str(error)[:60]}"
    cpu, wall = time.process_time() - cpu - limit, time.perf_counter() - wall - limit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proof = proved(model, X, goal, regression) if ending == "fitted" else None
    return cpu, wall, max(ALLOWED, 0.1 * limit), ending, proof, (len(X), X.shape[1], *traits)


def count(name, fits, seconds, seed, stopped):
    """Fit one estimator up to this many times within these CPU seconds; print what broke a promise, return counts."""
    for warming in range(3):  # what is compiled or imported at the first use is no part of a fit
        one(name, 10**6 + warming)
    found = Counter(worst=-np.inf)
    began = time.process_time()
    for k in range(fits):
        if stopped or time.process_time() - began > seconds:
            break
        cpu, wall, allowed, ending, proof, what = one(name, seed + k)
        over = min(cpu, wall)
        found.update(fits=1, refused=ending != "fitted", over=over > allowed, recounted=proof is not None,
                     wrong=proof is False)
        found["worst"] = max(found["worst"], over)
        if over > allowed or proof is False:
            print(f"  {name}, seed {seed + k}, {what}: {cpu:.2f} s CPU and {wall:.2f} s over, {ending}, proof {proof}",
                  flush=True)
    return found


def line(name, n):
    return f"{name:28}{n['fits']:6}{n['refused']:9}{n['over']:6}{n['worst']:14.2f}{n['recounted']:11}{n['wrong']:7}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fits", type=int, default=40, help="most fits of each estimator")
    parser.add_argument("--seconds", type=float, default=180, help="CPU seconds after which no further fit begins")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="the estimator of this name, or those that have it in theirs")
    args = parser.parse_args()
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))  # what is counted so far is printed
    every = list(machines(np.random.RandomState(0)))
    names = [args.only] if args.only in every else [name for name in every if args.only in name]
    print(f"{'':28}{'fits':>6}{'refused':>9}{'over':>6}{'most over, s':>14}{'recounted':>11}{'wrong':>7}", flush=True)
    total = Counter(worst=-np.inf)
    for name in names:
        if not stopped:
            found = count(name, args.fits, args.seconds, args.seed, stopped)
            print(line(name, found), flush=True)
            most = max(total["worst"], found["worst"])
            total.update(found)
            total["worst"] = most
    print(line("all", total) + f"   {time.process_time() / 60:.1f} CPU minutes")


if __name__ == "__main__":
    main()

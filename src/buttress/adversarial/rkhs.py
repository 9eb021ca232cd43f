"""``defense="rkhs"``: the machine against a ball in feature space, exact or by stochastic gradients."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from buttress._arrays import Place, to_numpy
from buttress._callbacks import Report, showing
from buttress._checks import Array, FeatureNoiseWarning, NotConvergedWarning, warn_user
from buttress._rows import drawn_rows
from buttress.expansion import KernelExpansion
from buttress.features import (
    RandomExpansion,
    feature_radius,
    gradient_noise,
    input_radius,
    random_features,
    spectrum_of,
)
from buttress.kernels import Kernel
from buttress.solvers.gradient.doubly_stochastic import KernelBasis, RandomBasis, doubly_stochastic, step_sizes
from buttress.solvers.qp.rkhs_path import Natural, first_point, natural_path, path_search
from buttress.solvers.run import Outcome, Step, run

if TYPE_CHECKING:
    from buttress.adversarial.kernel import AdversarialSVC

NEAR_COLLAPSE = 1e-6  # radii closer than this share to the one at which f = 0 becomes optimal are refused too
MOST_SINGLE = 1e30  # largest entry whose phases float32 can hold
FIRST_STEP = 1.0  # the default of step_size for diminishing steps
CONSTANT_STEP = 0.1  # and for constant ones
GRADIENT_ROWS = 50  # rows on which the gradient of the features is compared with its noise
SHARPER = 10  # the tolerance of the path search is this many times that of each natural machine
JUDGED = 1000  # rows from which the radius at which f = 0 becomes optimal is estimated for a stochastic solver


def fit_rkhs(
    model: "AdversarialSVC", kernel: Kernel, X: Array, signs: Array, rng: np.random.RandomState,
    report: Report, clock: Callable[[], float | None],
) -> dict[str, Any]:
    """Return the attributes of a model fitted to labels ``signs`` (n, k) of -1 and 1, one machine a column."""
    spectrum_of(kernel, "defense='rkhs'")
    reach = np.sqrt(X.shape[1]) if model.norm == "linf" else 1.0
    radius = feature_radius(kernel, model.eps * reach)
    few = rng.permutation(len(X))[:JUDGED] if model.solver != "exact" and len(X) > JUDGED else slice(None)
    firsts = [first_point(kernel, X[few], y, fit_intercept=model.fit_intercept, left=clock) for y in signs[few].T
              if radius > 0 or model.solver == "exact"]
    if radius > 0:
        refuse_collapse(model.eps, kernel, radius, firsts, reach)
    made = (_fit_exact(model, kernel, X, signs, radius, firsts, report, clock) if model.solver == "exact" else
            _fit_stochastic(model, kernel, X, signs, radius, rng, report, clock))
    return {**made, "feature_radius_": radius}


def refuse_collapse(eps: float, kernel: Kernel, radius: float, firsts: list[Natural], reach: float) -> None:
    """Raise ValueError if f = 0 is optimal for every C; the message gives the largest eps that can be used."""
    most = min(first.norm / first.total for first in firsts)
    if radius >= most * (1 - NEAR_COLLAPSE):
        largest = input_radius(kernel, most) / reach
        raise ValueError(
            f"eps={eps:g} is too large for defense='rkhs' with {kernel!r}: its ball in feature space (radius "
            f"{radius:.4g}) covers the distance between the classes (at most {most:.4g}), so that f = 0 is optimal for "
            f"every C. Use eps < {largest:.4g}, a wider kernel, or defense='input', which has no such limit."
        )


def _fit_exact(
    model: "AdversarialSVC", kernel: Kernel, X: Array, signs: Array, radius: float, firsts: list[Natural],
    report: Report, clock: Callable[[], float | None],
) -> dict[str, Any]:
    """Return the attributes of the exact solution; C is the weight of the mean loss, so each row's loss has C/n."""
    outcomes: list[Outcome] = []
    for y, first in zip(signs.T, firsts, strict=True):
        solve = natural_path(kernel, X, y, fit_intercept=model.fit_intercept, tol=model.tol / SHARPER, left=clock)
        steps = path_search(solve, first, y, C=model.C / len(X), radius=radius, left=clock)
        last = first is firsts[-1]  # only then a step is a model
        known = [outcome.state for outcome in outcomes]
        shown = showing(report, partial(_of_last_step, kernel, X, known)) if last else report
        outcomes.append(run(steps, tol=model.tol, max_iter=model.max_iter, max_time=clock(), callback=shown,
                            progress=model.progress, name="path search", inner=not last))
    stuck = [outcome.gap for outcome in outcomes if outcome.status == "exhausted"]
    if stuck:
        warn_user(f"The path search ended with gap {max(stuck):.3g} > tol {model.tol:.3g}, at the accuracy of its "
                  "natural machines. Raise tol, or scale the data.", NotConvergedWarning)
    return {
        **_exact_at(kernel, X, [outcome.state for outcome in outcomes]),
        "natural_C_": np.array([outcome.state[2] for outcome in outcomes]) * len(X),
        "dual_gap_": np.array([outcome.gap * outcome.objective for outcome in outcomes]),
        "n_iter_": sum(outcome.n_iter + 1 for outcome in outcomes),
        "history_": outcomes[-1].history,
    }


def _exact_at(kernel: Kernel, X: Array, states: list[Any]) -> dict[str, Any]:
    """Return the attributes of a model of one state of the path search a machine."""
    coef = np.stack([state[0] for state in states], axis=1)
    used = np.flatnonzero(coef.any(axis=1))
    return {"expansion_": KernelExpansion(kernel, X[used], coef[used], np.array([state[1] for state in states]))}


def _of_last_step(kernel: Kernel, X: Array, known: list[Any], step: Step) -> dict[str, Any]:
    return _exact_at(kernel, X, [*known, step.state])


def _fit_stochastic(
    model: "AdversarialSVC", kernel: Kernel, X: Array, signs: Array, radius: float, rng: np.random.RandomState,
    report: Report, clock: Callable[[], float | None],
) -> dict[str, Any]:
    """Return the attributes after ``n_passes`` passes of doubly stochastic gradients, or of the exact kernel's."""
    n, k = signs.shape
    n_terms = model.n_passes * -(-n // model.batch_size)
    if model.solver == "dsg":
        if max(X.max(), -X.min()) > MOST_SINGLE:
            raise ValueError(f"solver='dsg' computes phases in float32. Got entries of X up to "
                             f"{max(X.max(), -X.min()):.3g}. Scale the columns (StandardScaler).")
        features = random_features(kernel, X.shape[1], model.n_features, seed=int(rng.randint(2**31)))
        basis: Any = RandomBasis(features, X, n_terms, k, model.device)
    else:
        basis = KernelBasis(kernel, X, k, model.device)
    size = model.step_size or (CONSTANT_STEP if model.step == "constant" else FIRST_STEP)
    steps = doubly_stochastic(basis, Place(model.device)(signs), C=model.C, radius=radius,
                              step=step_sizes(model.step, size), batch=model.batch_size, n_passes=model.n_passes,
                              fit_intercept=model.fit_intercept, rng=rng)

    def at(state: Any) -> dict[str, Any]:
        coef, intercept, _ = map(to_numpy, state)
        if model.solver == "dsg":
            return {"expansion_": RandomExpansion(features, coef, intercept)}
        used = np.flatnonzero(coef.any(axis=1))
        return {"expansion_": KernelExpansion(kernel, X[used], coef[used], intercept)}

    outcome = run(steps, max_iter=model.max_iter, max_time=clock(),
                  callback=showing(report, lambda step: at(step.state)), progress=model.progress,
                  name=f"solver={model.solver!r}", keep="last")
    coef, intercept, norm = map(to_numpy, outcome.state)
    made = {"norm_": norm, "n_iter_": outcome.n_iter, "history_": outcome.history}
    if model.solver == "dsg":
        noise = _feature_noise(RandomExpansion(features, coef, intercept), X)
        return {**made, **noise, "expansion_": RandomExpansion(features.fresh(), coef, intercept)}
    return {**made, **at(outcome.state)}


def _feature_noise(expansion: RandomExpansion, X: Array) -> dict[str, Array]:
    """Return the l1 norms of the input gradient's noise and signal, (k,) each; warn if the noise is larger."""
    place = Place(dtype="float32")  # the precision of training, whose blocks are still stored
    rows = place(X[drawn_rows(len(X), GRADIENT_ROWS)])
    noise = gradient_noise(expansion)
    there = RandomExpansion(expansion.features, place(expansion.coef), place(expansion.intercept))
    total = np.array([np.abs(there.gradient(rows, np.tile(one, (len(rows), 1)))).sum(axis=1).mean()
                      for one in np.eye(len(noise), dtype=np.float32)])
    with np.errstate(invalid="ignore"):
        signal = np.where(np.isfinite(noise), np.sqrt(np.maximum(0, total**2 - noise**2)), 0.0)
    if (noise > signal).any():
        column = int(np.argmax(noise - signal))
        warn_user(
            f"The random features add noise of l1 norm {noise[column]:.3g} to the gradient in the inputs, whose signal "
            f"is {signal[column]:.3g}: an attacker can follow the noise, whatever eps the model was trained with. Use "
            "solver='exact', or defense='input' with its Nystroem features; more features (n_features) help slowly.",
            FeatureNoiseWarning)
    return {"gradient_noise_": noise, "gradient_signal_": signal}


"""Models and attacks of the paper, and ours beside them; parameters chosen alike for all, by attacked accuracy.

What the paper leaves open is fixed here and printed: gamma is 1 / the median squared distance; C of the DSG models, the
weight of the mean loss, is tried in 2^-1 .. 2^11 (up to 2^3 every row stays within the margin, and the machine is a
difference of means), constant steps of .1 and .02, and the diminishing step is 1/t; the radius of adv-SVM, of which
the paper says nothing usable, is half the one of collapse. Choices are made by folds on a sample of the training rows.
"""

import time
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import StratifiedKFold

from buttress import attacks, load, save
from buttress._checks import Array, FeatureNoiseWarning, NotConvergedWarning
from buttress._types import Predictor
from buttress.adversarial import AdversarialSVC, AdvSVM, FreeRangeSVC, StochasticAdvSVM
from buttress.attacks import AttackInfo
from buttress.features import input_radius
from buttress.kernels import RBF
from buttress.solvers.qp.rkhs_path import first_point
from reproduce.adv_svm.data import Split
from reproduce.adv_svm.published_file import PublishedFile

Attack = Callable[[Predictor, Array, NDArray[np.intp]], Array]
Kept = Callable[[str, Callable[[], Any]], Any]  # the name of a part and what computes it, to the part
POWERS = [2.0**k for k in (-1, 3, 7, 11)]

# One row an attack: adding one means adding a row here.
PAPER_ATTACKS: dict[str, Attack] = {
    "Normal": lambda model, X, y: X,
    "FGSM": lambda model, X, y: attacks.fgsm(model, X, y, eps=8 / 255, bounds=(0, 1)),
    "PGD": lambda model, X, y: attacks.pgd(model, X, y, eps=8 / 255, bounds=(0, 1), steps=10, step_size=2 / 255),
}

# Attacks without a radius find the nearest error of almost any model; the accuracy they leave only measures their
# budget, so their median distance is reported beside it.
NEAREST: dict[str, Callable[[Predictor, Array, NDArray[np.intp]], tuple[Array, AttackInfo]]] = {
    "C&W": lambda model, X, y: attacks.carlini_wagner(model, X, y, bounds=(0, 1), return_info=True),
    "ZOO": lambda model, X, y: attacks.zoo(model, X, y, bounds=(0, 1), learning_rate=0.01, random_state=0,
                                           return_info=True),
}


def honest_attacks(eps: float) -> dict[str, Attack]:
    """Return the stronger attack that the second block reports, at a radius where there is something to defend."""
    return {f"PGD-40, 3 starts, eps={eps:.3g}": lambda model, X, y: attacks.pgd(
        model, X, y, eps=eps, bounds=(0, 1), steps=40, restarts=3, random_state=0)}


@dataclass
class Candidate:
    """A model with one choice of its parameters; ``limit`` is the most rows it is fitted on."""

    model: BaseEstimator
    limit: int = 10**9


def gamma_of(X: Array) -> float:
    """Return 1 / the median squared distance of 500 pairs of rows."""
    rng = np.random.default_rng(0)
    first, second = X[rng.integers(len(X), size=(2, 500))]
    return 1 / float(np.median(np.sum((first - second) ** 2, axis=1)))


TOGETHER = ("Natural", "adv-SVM(D)", "adv-SVM(C)")  # rows whose machines have the same random features in each trial
MODELS = ("Natural", "adv-linear-SVM", "adv-SVM(D)", "adv-SVM(C)", "published file", "exact rkhs", "input")


def rows_of_table(split: Split, eps: float, features: int) -> dict[str, list[Candidate]]:
    """Return the candidates of each row: the paper's four and its file, the exact solution, the input defence."""
    kernel = RBF(gamma_of(split.X))
    few = np.random.default_rng(1).permutation(len(split.X))[:1000]
    first = first_point(kernel, split.X[few], np.where(split.y[few] == 1, 1.0, -1.0), fit_intercept=False)
    radius = 0.5 * input_radius(kernel, first.norm / first.total)

    def dsg(step: str, attacked: float, sizes: list[float]) -> list[Candidate]:
        return [Candidate(StochasticAdvSVM(kernel=kernel, norm="l2", eps=attacked, C=C, step=step, step_size=size,
                                           fit_intercept=False, n_features=features))
                for C in POWERS for size in sizes]

    return {
        "Natural": dsg("diminishing", 0.0, [1.0]),
        "adv-linear-SVM": [Candidate(FreeRangeSVC(C=C, C_f=0.1, attacked_class="both", tol=1e-4))
                           for C in (0.01, 0.1)],
        "adv-SVM(D)": dsg("diminishing", radius, [1.0]),
        "adv-SVM(C)": dsg("constant", radius, [0.02, 0.1]),
        "published file": [Candidate(PublishedFile(n_frequencies=features))],
        "exact rkhs": [Candidate(AdvSVM(kernel=kernel, norm="l2", eps=radius, C=C, tol=1e-2), 3000)
                       for C in (30.0, 300.0)],
        "input": [Candidate(AdversarialSVC(eps=eps, kernel=kernel, C=C, n_landmarks=250), 5000)
                  for C in (1.0, 10.0)],
    }


def fitted(candidate: Candidate, X: Array, y: NDArray[np.intp], seed: int) -> Predictor:
    """Return the model fitted on at most its limit of rows, with this seed where it takes one."""
    model = seeded(candidate, seed)
    rows = np.random.default_rng(seed).permutation(len(X))[: candidate.limit]
    with quiet():
        trained: Predictor = model.fit(X[rows], y[rows])
    return trained


def seeded(candidate: Candidate, seed: int) -> Any:
    """Return the model, not fitted, with this seed where it takes one."""
    model: Any = clone(candidate.model)
    return model.set_params(random_state=seed) if hasattr(model, "random_state") else model


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out what fits say of their features and of their end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FeatureNoiseWarning)
        warnings.simplefilter("ignore", NotConvergedWarning)
        yield


def all_trained(candidates: dict[str, Candidate], split: Split, seed: int) -> dict[str, Any]:
    """Return the files of the machines by their rows, trained on the same rows, and the minutes of that."""
    start = time.monotonic()
    rows = np.random.default_rng(seed).permutation(len(split.X))
    with quiet():
        models = [seeded(candidate, seed).fit(split.X[rows], split.y[rows]) for candidate in candidates.values()]
    files = {name: as_file(model) for name, model in zip(candidates, models, strict=True)}
    return {"files": files, "minutes": (time.monotonic() - start) / 60}


def as_file(model: BaseEstimator) -> NDArray[np.uint8]:
    """Return the bytes of the file of a model, which then has no probabilities: they take scores of left-out rows."""
    vars(model).pop("_certainty", None)
    with TemporaryDirectory() as folder:
        save(model, Path(folder) / "model")
        return np.frombuffer((Path(folder) / "model").read_bytes(), dtype=np.uint8)


def of_file(content: NDArray[np.uint8]) -> Predictor:
    """Return the model of which these are the bytes."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "model").write_bytes(content.tobytes())
        return cast(Predictor, load(Path(folder) / "model"))


def accuracy(model: Predictor, attack: Attack, X: Array, y: NDArray[np.intp]) -> float:
    """Return the accuracy in per cent on attacked rows."""
    return 100 * float((model.predict(attack(model, X, y)) == y).mean())


def choose(candidates: list[Candidate], split: Split, attack: Attack, *, folds: int, sample: int) -> int:
    """Return the place of the candidate of the best attacked accuracy over folds of a sample of the training rows."""
    if len(candidates) == 1:
        return 0
    rows = np.random.default_rng(2).permutation(len(split.X))[:sample]
    X, y = split.X[rows], split.y[rows]
    parts = list(StratifiedKFold(folds).split(X, y))
    scores = [np.mean([accuracy(fitted(candidate, X[train], y[train], 0), attack, X[test][:100], y[test][:100])
                       for train, test in parts]) for candidate in candidates]
    return int(np.argmax(scores))


def computed(part: str, compute: Callable[[], Any]) -> Any:
    """Return what is computed, of a run that keeps nothing."""
    return compute()


def measure(
    split: Split,
    eps: float,
    *,
    trials: int,
    attacked: int,
    nearest: int,
    nearest_trials: int,
    folds: int,
    sample: int,
    features: int,
    models: Collection[str] = MODELS,
    beside: Collection[str] = (),
    kept: Kept = computed,
) -> Iterator[tuple[str, dict[str, tuple[float, float]], float, Candidate]]:
    """Yield (row, attack -> (mean, deviation), minutes of training and of all attacks, the last model) of each row.

    The choice of parameters and each trial go through ``kept``, which may have them from an earlier run. The machines
    of TOGETHER are trained with those of the rows ``beside`` them.
    """
    columns = {**PAPER_ATTACKS, **honest_attacks(eps)}
    table = rows_of_table(split, eps, features)

    def choice(name: str) -> Candidate:
        return table[name][kept(f"{name}, choice", partial(choose, table[name], split, PAPER_ATTACKS["PGD"],
                                                           folds=folds, sample=sample))]

    for name in (name for name in table if name in models):
        group = [other for other in TOGETHER if other in {name, *beside}] if name in TOGETHER else [name]
        chosen = {other: choice(other) for other in group}
        alone = lru_cache(maxsize=1)(partial(fitted, chosen[name], split.X, split.y))
        found = []
        for trial in range(trials):
            model, minutes = (_together(name, chosen, split, trial, kept) if name in TOGETHER else
                              (partial(alone, trial if drawn(chosen[name], split) else 0), 0.0))
            costly = trial < nearest_trials
            scores = one_trial(model, split, columns if costly else PAPER_ATTACKS, trial, attacked,
                               nearest if costly else 0, partial(_of_row, kept, name))
            found.append({**scores, "minutes": scores["minutes"] + minutes})
        columns_of = {column: [one[column] for one in found if column in one] for column in found[0]}
        minutes = float(np.mean(columns_of.pop("minutes")))
        spread = {column: (float(np.mean(s)), float(np.std(s))) for column, s in columns_of.items()}
        yield name, spread, minutes, chosen[name]


def drawn(candidate: Candidate, split: Split) -> bool:
    """Say whether a trial's seed draws anything of the machine: else it is the same in each, and fitted once."""
    return hasattr(candidate.model, "random_state") or candidate.limit < len(split.X)


def _together(
    name: str, chosen: dict[str, Candidate], split: Split, trial: int, kept: Kept
) -> tuple[Callable[[], Predictor], float]:
    """Return what gives the model of a row in a trial, and its share of the minutes of a training with others."""
    lot = kept(f"{' and '.join(chosen)}, trained, trial {trial + 1}", partial(all_trained, chosen, split, trial))
    return cache(partial(of_file, lot["files"][name])), lot["minutes"] / len(chosen)


def _of_row(kept: Kept, name: str, part: str, compute: Callable[[], Any]) -> Any:
    return kept(f"{name}, {part}", compute)


def one_trial(model: Callable[[], Predictor], split: Split, columns: dict[str, Attack], trial: int, attacked: int,
              nearest: int, kept: Kept = computed) -> dict[str, float]:
    """Return the accuracy in per cent under each attack, the median distance of those without a radius, minutes.

    Each attack is a part of its own; the first that is not kept asks for the model.
    """
    rows = np.random.default_rng(100 + trial).permutation(len(split.X_test))

    def part(column: str, few: NDArray[np.intp], compute: Callable[[Predictor, Array, NDArray[np.intp]], Any]) -> Any:
        def timed() -> dict[str, Any]:
            start = time.monotonic()
            value = compute(model(), split.X_test[few], split.y_test[few])
            return {"value": value, "minutes": (time.monotonic() - start) / 60}

        return kept(f"{column}, trial {trial + 1}", timed)

    found = [part(column, rows if column == "Normal" else rows[:attacked], partial(accuracy_of, column, attack))
             for column, attack in columns.items()]
    found += [part(column, rows[:nearest], partial(_nearest, column)) for column in (NEAREST if nearest else ())]
    scores = {name: score for one in found for name, score in one["value"].items()}
    return {**scores, "minutes": sum(one["minutes"] for one in found)}


def accuracy_of(column: str, attack: Attack, model: Predictor, X: Array, y: NDArray[np.intp]) -> dict[str, float]:
    """Return the accuracy in per cent under an attack by its name."""
    return {column: accuracy(model, attack, X, y)}


def _nearest(column: str, model: Predictor, X: Array, y: NDArray[np.intp]) -> dict[str, float]:
    _, info = NEAREST[column](model, X, y)
    return {column: 100 * float((~info.success).mean()), f"{column} median l2": float(np.median(info.distance))}


STEPS = (1, 5, 10, 20, 40)  # of PGD at 8/255, figure 2 (a, b)
RADII = (2, 4, 8, 12, 16)  # of PGD with 10 steps, in 255ths, figure 2 (c, d)
SHARES = (0.1, 0.25, 0.5, 1.0)  # of the batches, figure 3


def figure_2(candidate: Candidate, split: Split, attacked: int) -> dict[str, list[tuple[float, float]]]:
    """Return accuracy in per cent against PGD by its steps (at 8/255) and by its radius (10 steps)."""
    model = fitted(candidate, split.X, split.y, 0)
    X, y = split.X_test[:attacked], split.y_test[:attacked]

    def at(eps: float, steps: int) -> float:
        return accuracy(model, lambda m, X, y: attacks.pgd(m, X, y, eps=eps, bounds=(0, 1), steps=steps,
                                                           step_size=eps / 4), X, y)

    return {"steps": [(steps, at(8 / 255, steps)) for steps in STEPS],
            "eps": [(eps / 255, at(eps / 255, 10)) for eps in RADII]}


def figure_3(candidate: Candidate, split: Split, attacked: int, nearest: int) -> dict[str, list[tuple[float, float]]]:
    """Return test error in per cent against batches seen under each attack; C&W and ZOO on ``nearest`` rows.

    Their median distance stands beside their error, which only measures their budget.
    """
    X, y = split.X_test[:attacked], split.y_test[:attacked]
    batches = -(-len(split.X) // 500)
    curves: dict[str, list[tuple[float, float]]] = {name: [] for name in PAPER_ATTACKS}
    curves |= {column: [] for name in (NEAREST if nearest else ()) for column in (name, f"{name} median l2")}
    for count in sorted({max(1, round(batches * share)) for share in SHARES}):
        model = fitted(Candidate(clone(candidate.model).set_params(max_iter=count)), split.X, split.y, 0)
        for name, attack in PAPER_ATTACKS.items():
            curves[name].append((count, 100 - accuracy(model, attack, X, y)))
        for name, find in NEAREST.items() if nearest else ():
            _, info = find(model, X[:nearest], y[:nearest])
            curves[name].append((count, 100 * float(info.success.mean())))
            curves[f"{name} median l2"].append((count, float(np.median(info.distance))))
    return curves

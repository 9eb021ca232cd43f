"""Many values of alpha for one join: cutting planes do not depend on alpha, so they are found once and shared."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from buttress._checks import Array, check_count
from buttress.relational.choice import choose_oracle, memory_oracle
from buttress.relational.counting.queries import accuracy_interval, label_means
from buttress.relational.declare import Join
from buttress.relational.optimum.certified import PlanePool
from buttress.relational.parameters import check_parameters
from buttress.relational.plan.plan import Encoding, Plan, weigh
from buttress.relational.plan.prepare import prepare
from buttress.relational.sources.deadline import time_limit
from buttress.relational.svm import RelationalLinearSVC


def alpha_path(join: Join, alphas: Sequence[float], model: RelationalLinearSVC | None = None) -> list[Any]:
    """Return a fitted model per alpha, from the largest to the smallest, each starting where the last one ended.

    All share one pool of cutting planes, so later ones need few oracle calls.

    Examples
    --------
    >>> import pandas as pd
    >>> from buttress.relational import Join, Table, alpha_path
    >>> frame = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 0, 1, 1]})
    >>> path = alpha_path(Join([Table("t", frame, features=["x"], label="y")]), [0.1, 0.01])
    >>> [m.alpha_ for m in path], all(m.gap_ <= 1e-3 for m in path)
    ([0.1, 0.01], True)
    """
    model = _checked(model, join, "alpha_path")
    first = clone(model)
    fitted = []
    with ExitStack() as held:
        with time_limit(model.max_time):
            oracle, plan = choose_oracle(join, first, held)
        pool = PlanePool(plan.width)
        start = None
        for alpha in sorted(alphas, reverse=True):
            current = clone(model).set_params(alpha=float(alpha), C=None)
            check_parameters(current, join, None)
            with time_limit(model.max_time):
                fitted.append(current._fit_plan(plan, oracle, pool, start))
            start = current.beta_
    return fitted


def _checked(model: RelationalLinearSVC | None, join: Join, caller: str) -> RelationalLinearSVC:
    """Return the model whose parameters the fits have, refused where they would not be kept to."""
    model = RelationalLinearSVC() if model is None else model
    if model.checkpoint is not None:
        raise ValueError(f"{caller} keeps no checkpoint. Got checkpoint={model.checkpoint!r}. Leave it out, or fit "
                         "RelationalLinearSVC for each alpha.")
    check_parameters(model, join, None)
    return model


def cross_validate(
    join: Join, alphas: Sequence[float], n_folds: int = 5, model: RelationalLinearSVC | None = None
) -> dict[str, Array]:
    """Return held-out accuracies, shape (n_alphas, n_folds), of folds of the label table's rows.

    Join rows of one label row always fall in one fold, for they are not independent. Each fold keeps one pool of
    planes for all values of alpha. The result holds "alpha" (descending) and "test_score".
    """
    model = _checked(model, join, "cross_validate")
    check_count("n_folds", n_folds, 2)
    plan = prepare(join, intercept=model.fit_intercept, encoding=Encoding(model.missing, model.scaling))
    place = next(rows for t, rows in plan.nodes[0].members if t == plan.label_table)
    whole = []
    for class_weight in (model.class_weight, None):  # to train with, and to score with
        weigh(plan, model.row_weight, class_weight)
        whole.append(np.ones(plan.nodes[0].n_rows) if plan.row_weight is None else plan.row_weight)
    fold = check_random_state(model.random_state).permutation(np.arange(place.max() + 1) % n_folds)[place]
    order = sorted(map(float, alphas), reverse=True)
    scores = np.zeros((len(order), n_folds))
    for k in range(n_folds):
        scores[:, k] = _fold_scores(plan, model, order, whole[0] * (fold != k), whole[1] * (fold == k))
    return {"alpha": np.array(order), "test_score": scores}


def _fold_scores(
    plan: Plan, model: RelationalLinearSVC, alphas: Sequence[float], training: Array, held_out: Array
) -> list[float]:
    """Return the accuracy per alpha on rows of weight ``held_out`` after fits to rows of weight ``training``."""
    plan.row_weight = training
    oracle = memory_oracle(plan, model)
    pool = PlanePool(plan.width)
    start = None
    scores = []
    for alpha in alphas:
        plan.row_weight = training
        with time_limit(model.max_time):
            start = clone(model).set_params(alpha=alpha, C=None)._fit_plan(plan, oracle, pool, start).beta_
        plan.row_weight = held_out
        scores.append(_accuracy(plan, model, start))
    return scores


def _accuracy(plan: Plan, model: RelationalLinearSVC, beta: Array) -> float:
    """Return the accuracy on what the objective is a mean over: join rows, or label rows by their mean score."""
    if model.objective == "mean":
        X, y, weight = label_means(plan)
        return float(weight[(X @ beta > 0) == (y > 0)].sum() / weight.sum())
    return float(np.mean(accuracy_interval(plan, beta)))

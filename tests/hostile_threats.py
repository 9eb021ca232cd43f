"""Try to make proofs under a threat false: ``PYTHONPATH=src:tests python tests/hostile_threats.py 100`` for 100 tables.

Whole numbers that equal thresholds, columns of large and tiny scale, moves in steps of all or half a unit, or one way
only, categories beyond 0 and 1, one-hot groups; every input of the threat on a lattice is tried. Counted are rows whose
proof an input breaks, whose found input the threat does not allow, and that an attack is said to break and does not.
"""

import sys
import warnings
from itertools import product

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.ensemble import RandomForestClassifier as Forest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from buttress import SVC, Budget, LinearSVC, ThreatModel, attacks, certificates

ROWS = 25
NEAR = 1e-9


def hostile(seed):
    """Return a table, its classes and a threat."""
    rng = np.random.default_rng(seed)
    unit = 10.0 ** rng.integers(-3, 6)
    X = np.column_stack([rng.integers(0, 6, ROWS) * unit, rng.integers(-3, 4, ROWS) / 8, rng.choice([0, 1], ROWS),
                         rng.choice([2.0, 5.0, 7.0], ROWS), np.eye(3)[rng.integers(0, 3, ROWS)]])
    y = (X[:, 0] / unit + X[:, 1] * 3 + X[:, 2] * 2 + X[:, 4] * 2 + rng.normal(size=ROWS) > 5).astype(int)
    first = Budget(rng.choice([0.5, 1, 1.5, 2]) * unit, rng.choice([0, unit, unit / 2]),
                   rng.choice(["both", "up", "down"]))
    second = Budget(rng.choice([1 / 8, 0.1, 3 / 8]), rng.choice([0, 1 / 8]))
    return X, y, ThreatModel({0: first, 1: second}, {2: [0, 1], 3: [[2, 7], [5]][seed % 2]}, [[4, 5, 6]],
                             most_swaps=int(rng.integers(0, 4)), most_moved=[None, 0, 1][rng.integers(0, 3)])


def models(seed):
    """Return a model of trees and a machine."""
    trees = [DecisionTreeClassifier(random_state=0), Forest(5, random_state=0),
             make_pipeline(StandardScaler(), ExtraTreesClassifier(5, random_state=0)),
             HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2),
             make_pipeline(RobustScaler(), GradientBoostingClassifier(n_estimators=5, random_state=0))]
    machines = [SVC(gamma=0.1), LinearSVC(), SVC(kernel="poly", degree=3), SVC(C=10, gamma=1.0)]
    return trees[seed % len(trees)], make_pipeline(StandardScaler(), machines[seed % len(machines)])


def lattice(x, budget):
    """Return values that a number may become: all of its steps, or the ends and some between."""
    low = x if budget.direction == "up" else x - budget.by
    high = x if budget.direction == "down" else x + budget.by
    if not budget.step:
        return np.unique([low, high, x, *np.linspace(low, high, 7)])
    values = x + np.arange(-20, 21) * budget.step
    return values[(values >= low - NEAR * budget.step) & (values <= high + NEAR * budget.step)]


def inputs(x, threat):
    """Return every input of the threat to a row on the lattice."""
    swaps = [version for version in product([None, 0, 1], [None, *threat.categories[3]], [None, 0, 1, 2])
             if sum(choice is not None for choice in version) <= threat.most_swaps]
    numbers = list(product(lattice(x[0], threat.numbers[0]), lattice(x[1], threat.numbers[1])))
    if threat.most_moved is not None:
        numbers = [moved for moved in numbers if sum(np.array(moved) != x[:2]) <= threat.most_moved]
    found = np.tile(x, (len(swaps) * len(numbers), 1))
    for row, ((flag, level, group), moved) in zip(found, product(swaps, numbers), strict=True):
        row[:2] = moved
        row[2] = row[2] if flag is None else flag
        row[3] = row[3] if level is None else level
        row[4:] = row[4:] if group is None else np.eye(3)[group]
    return found


def allowed(found, x, threat):
    """Say whether an input found is one of the threat."""
    changed = sum([found[2] != x[2], found[3] != x[3], (found[4:] != x[4:]).any()])
    in_reach = []
    for column, budget in threat.numbers.items():
        values = lattice(x[column], budget)
        near = NEAR * budget.by
        stepped = not budget.step or (np.abs(values - found[column]) <= near).any()
        in_reach.append(stepped and values.min() - near <= found[column] <= values.max() + near)
    few = threat.most_moved is None or sum(found[:2] != x[:2]) <= threat.most_moved
    return changed <= threat.most_swaps and few and all(in_reach)


def broken_promises(seed):
    """Return the promises that a table breaks, and how many proofs there were."""
    X, y, threat = hostile(seed)
    if len(np.unique(y)) < 2:
        return [], 0
    broken, proofs = [], 0
    for model, labels in zip(models(seed), (y, None), strict=True):
        model.fit(X, y)
        labels = model.predict(X) if labels is None else labels
        attack = attacks.pgd if labels is not y else attacks.exact
        found, info = attack(model, X, labels, threat=threat, return_info=True)
        proven = certificates.certified_within(model, X, threat=threat) if labels is not y else (
            info.proven & ~info.success)
        proofs += int(proven.sum())
        broken += [(seed, "not broken")] * int(((model.predict(found) != labels) != info.success).sum())
        for row, x in enumerate(X):
            if not allowed(found[row], x, threat):
                broken.append((seed, row, "not allowed"))
            if proven[row] and (info.success[row] or (model.predict(inputs(x, threat)) != labels[row]).any()):
                broken.append((seed, row, "proof broken"))
    return broken, proofs


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    results = [broken_promises(seed) for seed in range(int(sys.argv[1]))]
    broken = [one for found, _ in results for one in found]
    sys.stdout.write(f"{len(results)} tables, {sum(proofs for _, proofs in results)} proofs, broken: {broken}\n")
    sys.exit(int(bool(broken)))

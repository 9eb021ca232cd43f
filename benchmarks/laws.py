"""The laws of labels and of residuals beside cleanlab, both given the same left-out probabilities or predictions.

    python benchmarks/laws.py labels  [--sets judging] [--seeds 1] [--first 0] [--models logistic,forest,boosting]
    python benchmarks/laws.py targets [--sets judging] [--seeds 1] [--first 0] [--models ridge,forest,boosting]

Sets, corruptions, and which sets anything may be chosen on: ``trial_sets.py``. All rows of a set are corrupted; five
folds give each row the probabilities or the prediction of a model that has not seen it. Packages beside those of
buttress: cleanlab, and those of ``robust_trial.py`` for the sets.

A line is a kind of corruption, or a model. AUROC of the bad rows is a mean over sets, seeds and models (or kinds); a
difference is paired, with the standard error over sets. ``adjusted`` is cleanlab's score with its correction for
unequal classes, ``outre`` its score of targets that looks at neighbours too. ``held`` is how often the interval holds
the true share, ``off`` the mean size of the error of the share, cleanlab's being that of the rows it names.
"""

import argparse
import warnings
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
from robust_trial import HIDDEN, LABELS, TARGETS
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict
from trial_sets import CHOOSING, NAMES, corrupted_labels, corrupted_targets, dataset

from buttress import label_law, residual_law

CLASSIFIERS = {"logistic": LogisticRegression(max_iter=1000), "forest": RandomForestClassifier(random_state=0),
               "boosting": HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0)}
REGRESSORS = {"ridge": RidgeCV(np.geomspace(1e-2, 1e3, 11)), "forest": RandomForestRegressor(random_state=0),
              "boosting": HistGradientBoostingRegressor(loss="absolute_error", max_iter=50, early_stopping=False,
                                                        random_state=0)}


@dataclass
class Cell:
    """One set, corruption, seed and model: AUROC by scorer, whether the interval holds, and errors of the share."""

    name: str
    kind: str
    model: str
    auroc: dict[str, float]
    held: bool
    off: float
    named: float = field(default=np.nan)  # error of the share that cleanlab names


def label_cell(name, kind, rate, seed, who):
    """Return the cell, None where a class is too small for five folds."""
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    X, y = dataset(name, seed)
    given, bad = corrupted_labels(X, y, kind, rate, np.random.default_rng(seed))
    if np.bincount(given, minlength=y.max() + 1).min() < 6:
        return None
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    chances = cross_val_predict(CLASSIFIERS[who], X, given, cv=folds, method="predict_proba")
    law = label_law(chances, given)
    scores = {"ours": law.outlier_proba, "cleanlab": -get_label_quality_scores(given, chances),
              "adjusted": -get_label_quality_scores(given, chances, adjust_pred_probs=True)}
    return judged(name, f"{kind}, {rate}", who, scores, law, bad, find_label_issues(given, chances).mean())


def target_cell(name, kind, rate, seed, who):
    from cleanlab.regression.rank import get_label_quality_scores

    X, y = dataset(name, seed)
    given, bad = corrupted_targets(X, y, kind, rate, np.random.default_rng(seed))
    expected = cross_val_predict(REGRESSORS[who], X, given, cv=KFold(5, shuffle=True, random_state=seed))
    law = residual_law(expected, given)
    scores = {"ours": law.outlier_proba + 1e-9 * np.abs(law.sigma),  # equal probabilities by distance
              "cleanlab": -get_label_quality_scores(given, expected, method="residual"),
              "outre": -get_label_quality_scores(given, expected, method="outre")}
    return judged(name, f"{kind}, {rate}", who, scores, law, bad)


def judged(name, kind, who, scores, law, bad, named=np.nan):
    low, high = law.contamination_interval
    auroc = {scorer: roc_auc_score(bad, score) for scorer, score in scores.items()}
    return Cell(name, kind, who, auroc, low <= bad.mean() <= high, abs(law.contamination - bad.mean()),
                abs(named - bad.mean()))


def paired(cells, peer):
    """Return the mean difference to a peer and its standard error, sets being independent."""
    by_set = defaultdict(list)
    for cell in cells:
        by_set[cell.name].append(cell.auroc["ours"] - cell.auroc[peer])
    means = np.array([np.mean(values) for values in by_set.values()])
    return means.mean(), means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan


def line(title, cells):
    scorers = list(cells[0].auroc)
    areas = " | ".join(f"{np.mean([cell.auroc[scorer] for cell in cells]):.3f}" for scorer in scorers)
    gains = " | ".join("{:+.3f} ± {:.3f}".format(*paired(cells, peer)) for peer in scorers[1:])
    print(f"| {title} | {areas} | {gains} | {np.mean([cell.held for cell in cells]):.2f} | "
          f"{np.mean([cell.off for cell in cells]):.3f} | {np.mean([cell.named for cell in cells]):.3f} |")


def main(options):
    make, kinds, task, models = {"labels": (label_cell, LABELS, "labels", CLASSIFIERS),
                                 "targets": (target_cell, TARGETS, "regression", REGRESSORS)}[options.table]
    held = CHOOSING[task]
    names = held if options.sets == "choosing" else [name for name in NAMES[task] if name not in held]
    wanted = options.models.split(",") if options.models else list(models)
    cells = []
    for name in names:
        found = [make(name, kind, rate, seed, who) for kind, rate in kinds if kind != "clean"
                 for seed in range(options.first, options.first + options.seeds) for who in wanted]
        cells += [cell for cell in found if cell is not None]
        print(name, flush=True)
    scorers = list(cells[0].auroc)
    gains = " | ".join(f"ours less {peer}" for peer in scorers[1:])
    print(f"\n| | {' | '.join(scorers)} | {gains} | held | off | cleanlab off |")
    for kind in dict.fromkeys(cell.kind for cell in cells):
        line(kind, [cell for cell in cells if cell.kind == kind])
    for who in wanted:
        line(who, [cell for cell in cells if cell.model == who])
    line("all", cells)
    line(f"all but {' and '.join(HIDDEN)}", [cell for cell in cells if not cell.kind.startswith(HIDDEN)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["labels", "targets"])
    parser.add_argument("--sets", choices=["choosing", "judging"], default="judging")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--models", help="names, of those above")
    warnings.simplefilter("ignore")
    main(parser.parse_args())

"""Attacked and proven accuracy of mixed tables where numbers move by .1 sd and one category is swapped besides.

    python -m benchmarks.threats
    python -m benchmarks.threats --tables AER/HMDA --rows 200

Tables of ``trial_sets.AUDITED`` with numbers and categories and a response of classes, named before any run. Of each,
400 rows without gaps at most: three fifths to fit, the others judged. The threat is the default of the fitted rows.
``ball`` is the same without swaps. Machines are attacked by ``pgd`` and proven by ``certified_within``; boosting is
settled by ``exact``, what is open standing under attack and not proven.
"""

import argparse
import os
import warnings
from dataclasses import replace

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

from benchmarks import trial_sets  # noqa: E402
from buttress import SVC, AdversarialClassifier, ThreatModel, attacks, certificates  # noqa: E402

TABLES = ("AER/HMDA", "AER/CreditCard", "COUNT/lbw", "COUNT/medpar", "DAAG/ais", "Ecdat/Treatment", "ISLR/OJ",
          "ISLR/College", "carData/Wells", "modeldata/penguins")
FITTED = 0.6  # share of the rows
BY = 0.1  # standard deviations
GRID = {"svc__C": [0.1, 1, 10, 100], "svc__gamma": [0.003, 0.01, 0.03, 0.1, 0.3]}
WORK = 1e6


def table(name, rows):
    """Return a table as numbers, categories as groups of 0/1 columns, and its classes."""
    columns, y = trial_sets.audited(name)
    frame = pd.DataFrame(columns)
    known = frame.notna().all(axis=1).to_numpy()
    frame = frame[known][:rows]
    words = [column for column in frame if not pd.api.types.is_numeric_dtype(frame[column])]
    frame = pd.get_dummies(frame, columns=words, dtype=float)
    return frame.loc[:, frame.nunique() > 1], np.unique(y[known][:rows].astype(str), return_inverse=True)[1]


def machines():
    """Yield names and estimators."""
    yield "chooser", make_pipeline(StandardScaler(), AdversarialClassifier(eps=BY, random_state=0))
    yield "SVC, by cross-validation", GridSearchCV(make_pipeline(StandardScaler(), SVC()), GRID, cv=3)
    yield "boosting", HistGradientBoostingClassifier(random_state=0, max_iter=50)


def judged(name, model, X, y, threat):
    """Return the attacked and the proven accuracy."""
    if name == "boosting":
        info = attacks.exact(model, X, y, threat=threat, max_work=WORK, return_info=True)[1]
        return (~info.success).mean(), (info.proven & ~info.success).mean()
    info = attacks.pgd(model, X, y, threat=threat, random_state=0, return_info=True)[1]
    return (~info.success).mean(), (certificates.certified_within(model, X, threat=threat)
                                    & (model.predict(X) == y)).mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--rows", type=int, default=400)
    options = parser.parse_args()
    print("| table | machine | clean | attacked, ball | proven, ball | attacked, one swap too | proven, one swap too |")
    print("|---|---|---|---|---|---|---|")
    for name in options.tables:
        frame, y = table(name, options.rows)
        count = int(FITTED * len(y))
        fitted, rest = frame[:count], frame[count:]
        threat = ThreatModel.from_table(fitted, by=f"{BY} sd")
        X, X_rest = fitted.to_numpy(), rest.to_numpy()
        places = {column: place for place, column in enumerate(frame)}
        threat = ThreatModel({places[column]: budget for column, budget in threat.numbers.items()},
                             {places[column]: levels for column, levels in threat.categories.items()},
                             [[places[column] for column in group] for group in threat.one_hot])
        for machine, estimator in machines():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = estimator.fit(X, y[:count])
                model = getattr(model, "best_estimator_", model)
                ball = judged(machine, model, X_rest, y[count:], replace(threat, most_swaps=0))
                joint = judged(machine, model, X_rest, y[count:], threat)
            shares = " | ".join(f"{share:.3f}".lstrip("0") for share in (
                (model.predict(X_rest) == y[count:]).mean(), *ball, *joint))
            print(f"| {name} | {machine} | {shares} |", flush=True)


if __name__ == "__main__":
    main()

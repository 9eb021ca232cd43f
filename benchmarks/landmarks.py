"""A machine on landmarks beside the exact one, landmarks doubled until the difference is told.

    python benchmarks/landmarks.py [--rows 100000] [--landmarks 250 500 1000 2000]

Made data of rows x 30 (``exact.synthetic``), 20,000 more rows to test on, all parameters at their defaults. The machine
is :class:`buttress.BatchedRidgeClassifier` behind :class:`buttress.Nystroem`, in batches of 20,000 rows, as ``buttress
train`` has it of a folder. The difference is of the same test rows, with its 95% interval.
"""

import argparse
import time

import numpy as np
from exact import synthetic

from buttress import SVC, BatchedRidgeClassifier, Nystroem

TEST = 20_000
BATCH = 20_000


def on_landmarks(X, y, gamma, count):
    """Return the function that predicts."""
    features = Nystroem(gamma=gamma, n_components=count, landmarks="uniform", random_state=0).fit(X[:BATCH])
    machine = BatchedRidgeClassifier()
    for start in range(0, len(X), BATCH):
        rows = slice(start, start + BATCH)
        machine.partial_fit(features.transform(X[rows]), y[rows], classes=np.unique(y))
    return lambda rows: machine.predict(features.transform(rows))


def timed(fit, *arguments):
    begun = time.process_time()
    made = fit(*arguments)
    return made, time.process_time() - begun


def difference(right, exact):
    """Return the difference of two shares of right rows, in points, with its interval."""
    each = 100.0 * (right.astype(float) - exact)
    half = 1.96 * each.std() / np.sqrt(len(each))
    return f"{each.mean():+.2f} ({each.mean() - half:+.2f} to {each.mean() + half:+.2f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--landmarks", type=int, nargs="+", default=[250, 500, 1000, 2000])
    options = parser.parse_args()
    SVC().fit(*synthetic(2500, 10))  # compile first
    X, y = synthetic(options.rows + TEST, 30)
    X = X.astype(np.float32)
    rows, labels = X[: options.rows], y[: options.rows]
    gamma = 1 / (X.shape[1] * float(rows.var(dtype=np.float64)))
    model, spent = timed(SVC(gamma=gamma).fit, rows, labels)
    exact = model.predict(X[options.rows :]) == y[options.rows :]
    print(f"| machine of {options.rows:,} rows x 30 | processor s | accuracy | points above the exact one |")
    print("| --- | --- | --- | --- |")
    print(f"| exact, {len(model.support_):,} support vectors | {spent:.1f} | {exact.mean():.4f} | |", flush=True)
    for count in options.landmarks:
        predict, spent = timed(on_landmarks, rows, labels, gamma, count)
        right = predict(X[options.rows :]) == y[options.rows :]
        print(f"| {count:,} landmarks | {spent:.1f} | {right.mean():.4f} | {difference(right, exact)} |", flush=True)


if __name__ == "__main__":
    main()

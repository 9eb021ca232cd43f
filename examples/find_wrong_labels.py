"""
Which of my labels are wrong?
=============================

A tenth of the labels of two moons is flipped. :class:`buttress.RobustKernelClassifier` is told neither which nor how
many; it gives each row the probability that its label is wrong. See :doc:`/suspicious-rows`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from buttress import RobustKernelClassifier

X, y = make_moons(300, noise=0.15, random_state=0)
rng = np.random.default_rng(0)
flipped = rng.choice(300, 30, replace=False)
given = y.copy()
given[flipped] = 1 - given[flipped]

model = RobustKernelClassifier(random_state=0).fit(X, given)
named = np.flatnonzero(model.outlier_proba_ > 0.5)
print(f"share of wrong labels: {model.contamination_:.2f} estimated, 0.10 in truth")
print(f"named {len(named)} rows, {np.isin(named, flipped).sum()} of them among the {len(flipped)} flipped")

# %%
# Darker rows are likelier to be wrong; the rings are the rows that were flipped.

figure, ax = plt.subplots(figsize=(6, 4))
points = ax.scatter(*X.T, c=model.outlier_proba_, cmap="cividis_r", s=18)
ax.scatter(*X[flipped].T, s=90, facecolors="none", edgecolors="black", label="label was flipped")
figure.colorbar(points, label="probability that the label is wrong")
ax.legend(loc="lower left")
plt.show()

"""
What does C do to the margin?
=============================

A small C gives a wide margin with many rows inside; ``C=numpy.inf`` allows none. See :doc:`/start/which-estimator`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from buttress import SVC

X, y = make_blobs(60, centers=[(-2, -1), (2, 1)], cluster_std=0.8, random_state=1)
grid = np.meshgrid(np.linspace(-5, 5, 120), np.linspace(-4, 4, 120))
points = np.column_stack([side.ravel() for side in grid])
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
for ax, C in zip(axes, (0.01, 1.0, np.inf)):
    model = SVC(kernel="linear", C=C).fit(X, y)
    width = 1 / np.linalg.norm(model.dual_coef_ @ model.support_vectors_)
    print(f"C = {C}: half the margin is {width:.2f}, {len(model.support_)} support vectors")
    ax.contour(*grid, model.decision_function(points).reshape(grid[0].shape), levels=[-1, 0, 1], colors="black",
               linestyles=["--", "-", "--"])
    ax.scatter(*X.T, c=y, cmap="cividis", s=14)
    ax.scatter(*model.support_vectors_.T, s=70, facecolors="none", edgecolors="#d55e00")
    ax.set_title(f"C = {C}")
plt.show()

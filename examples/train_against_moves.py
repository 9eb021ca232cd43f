"""
What does training against moved inputs change?
===============================================

:class:`buttress.AdversarialSVC` minimises the loss of the worst input within ``eps`` of each row. It pays for that on
rows that nobody moves. See :doc:`/adversarial`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from buttress import SVC, AdversarialSVC, attacks

X, y = make_moons(350, noise=0.15, random_state=0)
models = {"SVC": SVC(gamma=5.0, C=10), "AdversarialSVC": AdversarialSVC(gamma=2.0, C=10, eps=0.2, random_state=0)}
grid = np.meshgrid(np.linspace(-1.7, 2.7, 100), np.linspace(-1.2, 1.7, 100))
points = np.column_stack([side.ravel() for side in grid])
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
for ax, (name, model) in zip(axes, models.items()):
    model.fit(X[:200], y[:200])
    moved = attacks.pgd(model, X[200:], y[200:], eps=0.2, random_state=0)
    print(f"{name}: {model.score(X[200:], y[200:]):.3f} as they are, {model.score(moved, y[200:]):.3f} moved by .2")
    ax.contourf(*grid, model.predict(points).reshape(grid[0].shape), levels=1, alpha=0.3, cmap="cividis")
    ax.scatter(*X[:200].T, c=y[:200], s=12, cmap="cividis", edgecolors="black", linewidths=0.4)
    ax.set_title(name)
plt.show()

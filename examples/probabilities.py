"""
Do the probabilities agree with the predictions?
================================================

scikit-learn's ``SVC(probability=True)`` may predict one class and give another the larger probability. Here they
always agree, and come from the one fit. See :doc:`/certainty`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import brier_score_loss

from buttress import SVC, ReliabilityDisplay

X, y = make_moons(3300, noise=0.35, random_state=0)
model = SVC(gamma=1.0).fit(X[:300], y[:300])
p = model.predict_proba(X[300:])
agree = model.classes_[p.argmax(axis=1)] == model.predict(X[300:])
print(f"largest probability names the predicted class: {agree.mean():.0%} of 3,000 rows")
print(f"Brier score {brier_score_loss(y[300:], p[:, 1]):.3f}")

# %%
# Of the predictions made with probability p, about the share p is right.

figure, ax = plt.subplots(figsize=(5, 5))
ReliabilityDisplay.from_estimator(model, X[300:], y[300:], ax=ax)
plt.show()

# %%
# The surface of the probabilities.

grid = np.meshgrid(np.linspace(-2, 3, 120), np.linspace(-1.5, 2, 120))
surface = model.predict_proba(np.column_stack([side.ravel() for side in grid]))[:, 1].reshape(grid[0].shape)
figure, ax = plt.subplots(figsize=(6, 4))
figure.colorbar(ax.contourf(*grid, surface, levels=10, cmap="cividis"), label="probability of class 1")
ax.scatter(*X[:300].T, c=y[:300], s=8, cmap="gray", edgecolors="white", linewidths=0.3)
plt.show()

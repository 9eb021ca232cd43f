"""
How wide is an interval that holds the target?
==============================================

``predict_interval`` of a regressor holds new targets with the probability asked for, and is wider where the noise is.
See :doc:`/intervals`.
"""

import matplotlib.pyplot as plt
import numpy as np

from buttress import SVR

rng = np.random.default_rng(0)
X = rng.uniform(0, 6, (1200, 1))
y = np.sin(X[:, 0]) + (0.05 + 0.1 * X[:, 0]) * rng.normal(size=1200)

model = SVR(C=10, gamma=0.5).fit(X[:600], y[:600])
low, high = model.predict_interval(X[600:], coverage=0.9).T
inside = (low <= y[600:]) & (y[600:] <= high)
print(f"{inside.mean():.1%} of 600 new targets are inside; 90% was asked for")

# %%
grid = np.linspace(0, 6, 200)[:, None]
low, high = model.predict_interval(grid, coverage=0.9).T
figure, ax = plt.subplots(figsize=(6, 4))
ax.scatter(X[600:], y[600:], s=6, color="0.5")
ax.fill_between(grid[:, 0], low, high, color="#56b4e9", alpha=0.4, label="90% interval")
ax.plot(grid, model.predict(grid), color="#0072b2", label="prediction")
ax.legend()
plt.show()

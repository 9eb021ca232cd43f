"""
How does subquantile learning leave rows out?
=============================================

Each step weighs the rows with the smallest losses and descends on them alone. Here are the fits after 1, 3 and 200
steps of :class:`buttress.KernelRegressor`. See :doc:`/robust`.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from buttress import KernelRegressor, Subquantile
from buttress.datasets import contaminate

X = np.linspace(0, 6, 120)[:, None]
X, y, corrupt = contaminate(X, np.sin(X[:, 0]), rate=0.3, kind="noise", random_state=0)
order = np.argsort(X[:, 0])
X, y = X[order], y[order]
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True)
for ax, steps in zip(axes, (1, 3, 200)):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is stopped on purpose
        model = KernelRegressor(risk=Subquantile(0.7), alpha=0.01, gamma=1.0, max_iter=steps).fit(X, y)
    kept = model.inlier_mask_
    error = np.abs(model.predict(X) - np.sin(X[:, 0])).max()
    print(f"after {steps} steps: {kept.sum()} rows kept, largest error {error:.2f}")
    ax.scatter(X[kept], y[kept], s=10, color="#0072b2", label="kept")
    ax.scatter(X[~kept], y[~kept], s=14, marker="x", color="#d55e00", label="left out")
    ax.plot(X, model.predict(X), color="black")
    ax.set_title(f"{steps} steps")
axes[0].legend(loc="lower left", fontsize=8)
plt.show()

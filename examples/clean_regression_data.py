"""
How do I fit a curve through corrupt targets?
=============================================

A fifth of the targets is replaced. :class:`buttress.RobustKernelRegressor` is not told how many; it finds them and
fits the rest. See :doc:`/suspicious-rows`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_ridge import KernelRidge

from buttress import RobustKernelRegressor

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 6, 200))[:, None]
y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
corrupt = rng.random(200) < 0.2
y[corrupt] = rng.normal(2, 1, corrupt.sum())

robust = RobustKernelRegressor(random_state=0).fit(X, y)
plain = KernelRidge(kernel="rbf", gamma=1.0, alpha=0.1).fit(X, y)
print(f"corrupt: {robust.contamination_:.2f} estimated, {corrupt.mean():.2f} in truth")
for name, model in (("kernel ridge", plain), ("robust", robust)):
    print(f"{name}: largest error {np.abs(model.predict(X) - np.sin(X[:, 0])).max():.2f}")

# %%
# Crosses are rows judged likelier corrupt than not.

named = robust.outlier_proba_ > 0.5
figure, ax = plt.subplots(figsize=(6, 4))
ax.scatter(X[~named], y[~named], s=12, color="0.5", label="kept")
ax.scatter(X[named], y[named], s=25, marker="x", color="#d55e00", label="named corrupt")
ax.plot(X, plain.predict(X), "--", color="#0072b2", label="kernel ridge")
ax.plot(X, robust.predict(X), color="black", label="robust fit")
ax.legend()
plt.show()

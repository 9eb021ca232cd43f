"""
What is the slope, with a standard error, among corrupt rows?
=============================================================

:class:`buttress.RobustLinearRegressor` draws the line that most rows agree on, and its ``summary`` gives standard
errors that corrupt rows do not spoil. See :doc:`/intervals`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from buttress import RobustLinearRegressor

rng = np.random.default_rng(1)
x = rng.uniform(0, 10, 120)
y = 1.0 + 0.5 * x + 0.4 * rng.normal(size=120)
far = x > 8.2  # every row beyond 8.2 was recorded in another unit
y[far] /= 10

plain = LinearRegression().fit(x[:, None], y)
robust = RobustLinearRegressor(random_state=0).fit(x[:, None], y)
table = robust.summary()
for name, value, error in zip(table.name, table.estimate, table.std_error):
    print(f"{name}: {value:.3f} with a standard error of {error:.3f}")
print(f"least squares: slope {plain.coef_[0]:.3f}, in truth 0.5")

# %%
figure, ax = plt.subplots(figsize=(6, 4))
ax.scatter(x, y, s=14, c=np.where(table.weights > 0, "0.4", "#d55e00"))
ends = np.array([[0.0], [10.0]])
ax.plot(ends, plain.predict(ends), "--", color="#0072b2", label="least squares")
ax.plot(ends, robust.predict(ends), color="black", label="robust")
ax.legend()
ax.set_title("orange: rows of weight 0")
plt.show()

"""
What is duality, in one picture?
================================

Every dual point is a lower bound of the optimum, every hyperplane an upper one. They meet at the solution, which is
how :class:`buttress.LinearSVC` knows how far it can be from it. See :doc:`/what-an-svm-solves`.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from buttress import LinearSVC

X, y = make_blobs(200, centers=[(-1, 0), (1, 0)], cluster_std=1.0, random_state=0)
steps = np.unique(np.geomspace(1, 300, 25).astype(int))
upper, lower = [], []
for most in steps:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is stopped on purpose
        model = LinearSVC(C=0.01, solver="dual", max_iter=int(most), tol=1e-9).fit(X, y)
    upper.append(model.primal_objective_)
    lower.append(model.dual_objective_)
exact = LinearSVC(C=0.01, tol=1e-10).fit(X, y).primal_objective_
print(f"after {steps[-1]} passes the optimum is between {max(lower):.5f} and {min(upper):.5f}; it is {exact:.5f}")

# %%
figure, ax = plt.subplots(figsize=(6, 4))
ax.semilogx(steps, upper, "-", color="#0072b2", label="primal objective: the optimum is not above")
ax.semilogx(steps, lower, "--", color="#d55e00", label="dual objective: the optimum is not below")
ax.fill_between(steps, lower, upper, color="0.85")
ax.axhline(exact, color="black", linewidth=0.6)
ax.set(xlabel="passes over the multipliers", ylabel="objective", ylim=(0, 2 * exact))
ax.legend()
plt.show()

"""
Newton or stochastic gradients for a linear machine?
====================================================

:class:`buttress.LinearSVC` ends at the optimum with an optimality gap; :class:`buttress.StochasticLinearSVC` takes
cheap steps and proves nothing. See :doc:`/sgd`.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification

from buttress import LinearSVC, StochasticLinearSVC

X, y = make_classification(20_000, 20, flip_y=0.1, random_state=0)
exact = LinearSVC(C=0.01).fit(X, y)
fast = StochasticLinearSVC(C=0.01, random_state=0).fit(X, y)
print(f"newton: objective {exact.primal_objective_:.3f}, proven to be within {exact.dual_gap_:.1e} of the optimum")
excess = fast.primal_objective_ / exact.primal_objective_ - 1
print(f"sgd:    objective {fast.primal_objective_:.3f}, {excess:.2%} above")

# %%
# The coefficients agree.

figure, ax = plt.subplots(figsize=(5, 5))
ax.axline((0, 0), slope=1, color="0.7")
ax.scatter(exact.coef_[0], fast.coef_[0], color="#0072b2", s=18)
ax.set(xlabel="coefficient by Newton", ylabel="coefficient by stochastic gradients")
plt.show()

"""
How do I choose C without cross-validation?
===========================================

A fit of :class:`buttress.SVC` also gives the score of each training row under the fit without it. ``C="loo"`` and
``gamma="loo"`` choose by them. See :doc:`/certainty`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from buttress import SVC, svc_path

X, y = make_moons(600, noise=0.3, random_state=0)
train, test = slice(0, 200), slice(200, None)
Cs = np.logspace(-2, 3, 11)
path = svc_path(X[train], y[train], Cs, gamma=1.0)
left_out = [model.loo_error_ for model in path]
held_out = [1 - model.score(X[test], y[test]) for model in path]
in_sample = [1 - model.score(X[train], y[train]) for model in path]

chosen = SVC(C="loo", gamma="loo").fit(X[train], y[train])
print(f"chosen: C = {chosen.C_:g}, error on new rows {1 - chosen.score(X[test], y[test]):.3f}")

# %%
figure, ax = plt.subplots(figsize=(6, 4))
ax.semilogx(Cs, in_sample, ":", color="0.5", label="on the training rows")
ax.semilogx(Cs, left_out, "o-", color="#0072b2", label="rows left out, from the one fit")
ax.semilogx(Cs, held_out, "s--", color="#d55e00", label="400 new rows")
ax.set(xlabel="C", ylabel="error")
ax.legend()
plt.show()

"""
What if I know how many labels are wrong?
=========================================

:class:`buttress.KernelClassifier` with :class:`buttress.Subquantile` learns from the share of the rows that fits
best. See :doc:`/robust`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from buttress import KernelClassifier, Mean, Subquantile

X, y = make_moons(1150, noise=0.2, random_state=0)
rng = np.random.default_rng(0)
shares = [0.0, 0.15, 0.3, 0.4]
scores = {"all rows": [], "the best-fitting share": []}
for share in shares:
    given = y[:150].copy()
    wrong = rng.choice(150, int(150 * share), replace=False)
    given[wrong] = 1 - given[wrong]
    for name, risk in (("all rows", Mean()), ("the best-fitting share", Subquantile(1 - share))):
        model = KernelClassifier(risk=risk, alpha=0.1, gamma=2.0).fit(X[:150], given)
        scores[name].append(model.score(X[150:], y[150:]))
for name, values in scores.items():
    print(name, np.round(values, 3))

# %%
figure, ax = plt.subplots(figsize=(6, 4))
for (name, values), marker in zip(scores.items(), "so"):
    ax.plot(shares, values, f"{marker}-", label=name)
ax.set(xlabel="share of labels that are wrong", ylabel="accuracy on 1,000 rows with right labels")
ax.legend()
plt.show()

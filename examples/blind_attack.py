"""
Is a forest robust, or is the attack blind?
===========================================

The scores of a forest are flat almost everywhere: an attack by gradients sees nothing and the curve stays flat. The
display marks such radii, and :func:`buttress.attacks.exact` finds the worst input of each ball. See :doc:`/attacks`.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier

from buttress import RobustnessCurveDisplay, attacks

X, y = make_moons(300, noise=0.2, random_state=0)
forest = RandomForestClassifier(10, max_depth=5, random_state=0).fit(X[:200], y[:200])
radii = [0.0, 0.1, 0.2, 0.3]
figure, ax = plt.subplots(figsize=(6, 4))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # each radius says that it was blind; the display marks it
    shown = RobustnessCurveDisplay.from_estimator(forest, X[200:240], y[200:240], eps=radii, random_state=0, ax=ax)

left = [forest.score(X[200:240], y[200:240])]
for eps in radii[1:]:
    info = attacks.exact(forest, X[200:240], y[200:240], eps=eps, return_info=True)[1]
    left.append(1 - info.success.mean())
ax.plot(radii, left, "s-", color="#d55e00", label="the worst input, exactly")
ax.legend(loc="lower left")
print("attack by gradients: ", shown.attacked_accuracy.round(2))
print("worst inputs, exactly:", [round(float(share), 2) for share in left])
plt.show()

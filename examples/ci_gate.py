"""
How do I stop a fragile model in CI?
====================================

Score the attacked accuracy beside the plain one, and fail the job below a bound. From the command line it is
``buttress attack model.buttress labelled.csv --target y --eps 0.1 --fail-under 0.7``. See :doc:`/models`.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons
from sklearn.model_selection import cross_validate

from buttress import SVC
from buttress.attacks import AttackedAccuracy

X, y = make_moons(300, noise=0.15, random_state=0)
scoring = {"accuracy": "accuracy", "attacked": AttackedAccuracy(eps=0.2, random_state=0)}
candidates = {f"gamma={gamma}": SVC(gamma=gamma) for gamma in (0.5, 2.0, 50.0)}
found = {}
for name, model in candidates.items():
    scores = cross_validate(model, X, y, cv=3, scoring=scoring)
    found[name] = (scores["test_accuracy"].mean(), scores["test_attacked"].mean())
    verdict = "pass" if found[name][1] >= 0.7 else "fail"
    print(f"{name}: {found[name][0]:.3f} as they are, {found[name][1]:.3f} attacked: {verdict}")

# %%
figure, ax = plt.subplots(figsize=(6, 4))
ax.bar([name + "\nas is" for name in found], [shares[0] for shares in found.values()], color="0.7")
ax.bar([name + "\nattacked" for name in found], [shares[1] for shares in found.values()], color="#0072b2")
ax.axhline(0.7, color="#d55e00", label="the gate")
ax.tick_params(axis="x", labelsize=7)
ax.legend(loc="lower left")
plt.show()

"""
How do I plot an attack curve?
==============================

Accuracy against the radius: what an attack has left from above, what is proven from below. The truth is between. See
:doc:`/how-to/attack-curve`.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

from buttress import SVC, AdversarialSVC, RobustnessCurveDisplay

X, y = make_moons(300, noise=0.15, random_state=0)
radii = [0.0, 0.05, 0.1, 0.15, 0.2, 0.3]
figure, ax = plt.subplots(figsize=(6, 4))
for model in (SVC(gamma=5.0, C=10), AdversarialSVC(gamma=2.0, eps=0.15, random_state=0)):
    model.fit(X[:200], y[:200])
    shown = RobustnessCurveDisplay.from_estimator(model, X[200:], y[200:], eps=radii, random_state=0, ax=ax)
    low, high = shown.certified_accuracy[3], shown.attacked_accuracy[3]
    print(f"{shown.estimator_name}: between {low:.2f} and {high:.2f} at .15")
plt.show()

"""
Which training rows speak for this prediction?
==============================================

:func:`buttress.explain` splits a score into what each support vector adds. See :doc:`/certainty`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris

from buttress import SVC, explain

X, y = load_iris(return_X_y=True)
model = SVC().fit(X, y)
doubtful = int(np.argmin(np.sort(model.decision_function(X))[:, -1]))
why = explain(model, X[doubtful])
print(f"row {doubtful}: predicted {why.prediction}, given {y[doubtful]}, score {why.score:.2f}")
for row, contribution in zip(why.row[:5], why.contribution[:5]):
    print(f"row {row} of class {y[row]} adds {contribution:+.2f}")

# %%
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
why.plot(ax=ax)
plt.show()

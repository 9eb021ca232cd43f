"""
Which classes can it be?
========================

``predict_set`` returns all classes that a row may have, so that the right one is among them as often as asked. See
:doc:`/certainty`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

from buttress import SVC

X, y = make_blobs(900, centers=[(-2, 0), (2, 0), (0, 2.5)], cluster_std=1.5, random_state=0)
model = SVC().fit(X[:300], y[:300])
in_set = model.predict_set(X[300:], coverage=0.9)
held = in_set[np.arange(600), y[300:]].mean()
print(f"the right class is in the set of {held:.1%} of the rows; 90% was asked for")
print("rows with 0, 1, 2 and 3 classes in their set:", np.bincount(in_set.sum(axis=1), minlength=4))

# %%
figure, ax = plt.subplots(figsize=(6, 4))
sizes = in_set.sum(axis=1)
for size, marker, colour in ((1, "o", "#56b4e9"), (2, "s", "#e69f00"), (3, "^", "black"), (0, "x", "#d55e00")):
    chosen = X[300:][sizes == size]
    ax.scatter(*chosen.T, s=16, marker=marker, color=colour, label=f"{size} in the set")
ax.legend()
plt.show()

"""
Wrong labels by the probabilities of another model
==================================================

The strongest model of a small table may be one of another library: boosting, or a network trained on a million tables
such as TabPFN or TabICL. :func:`buttress.label_law` takes its left-out probabilities and says which labels are wrong,
how many, and which class is taken for which. Here a forest stands in for such a network, whose weights are a download:
put ``TabPFNClassifier()`` in its place. See :doc:`/suspicious-rows`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

from buttress import label_law

X, y = load_wine(return_X_y=True)
rng = np.random.default_rng(0)
wrong = rng.choice(np.flatnonzero(y == 0), 15, replace=False)
given = y.copy()
given[wrong] = 1  # a quarter of class 0 was taken for class 1

stand_in = RandomForestClassifier(200, random_state=0)
chances = cross_val_predict(stand_in, X, given, cv=10, method="predict_proba")
law = label_law(chances, given)
low, high = law.contamination_interval
print(f"share of wrong labels: {law.contamination:.3f} ({low:.3f} to {high:.3f}), in truth {15 / len(y):.3f}")
named = np.flatnonzero(~law.inlier_mask)
print(f"{len(named)} rows named, {np.isin(named, wrong).sum()} of them among the 15 that are wrong")

# %%
# The confusion says what happened: a share of the true class 0 was given the label 1, and nothing else.

figure, ax = plt.subplots(figsize=(4, 3.4))
image = ax.imshow(law.confusion, cmap="Blues", vmin=0, vmax=1)
for true, label in np.ndindex(law.confusion.shape):
    ax.text(label, true, f"{law.confusion[true, label]:.2f}", ha="center", va="center",
            color="white" if law.confusion[true, label] > 0.6 else "black")
ax.set(xlabel="label given", ylabel="true class", xticks=range(3), yticks=range(3))
figure.tight_layout()
plt.show()

"""
How easily is my pipeline fooled?
=================================

Any scikit-learn classifier with scores can be attacked, as a whole, in front of its first step. See :doc:`/attacks`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from buttress import attacks

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
pipeline = make_pipeline(PCA(30), SVC()).fit(X_train, y_train)
rows = slice(0, 40)
options = {"bounds": (0, 1), "steps": 10, "random_state": 0, "return_info": True}
for eps in (0.02, 0.05, 0.1):
    moved, info = attacks.pgd(pipeline, X_test[rows], y_test[rows], eps=eps, **options)
    print(f"no pixel moves by more than {eps}: {1 - info.success.mean():.0%} still right")

# %%
# Four digits that the last attack turned into others.

fooled = np.flatnonzero(info.success & (pipeline.predict(X_test[rows]) == y_test[rows]))[:4]
figure, axes = plt.subplots(2, 4, figsize=(7, 4))
for column, row in enumerate(fooled):
    for ax, image in zip(axes[:, column], (X_test[row], moved[row])):
        ax.imshow(image.reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        ax.set(xticks=[], yticks=[], title=f"taken for {pipeline.predict(image[None])[0]}")
plt.show()

"""
Why do models on random features fall to attacks?
=================================================

Random Fourier features approximate the kernel, and add noise to the gradient of every model built on them. An attack
follows that noise. Landmarks (Nystroem) have smooth gradients. See :doc:`/adversarial`.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import attacks

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(StandardScaler().fit_transform(X), y, random_state=0)
sizes = [50, 100, 200]
left = {}
for maker in (Nystroem, RBFSampler):
    left[maker.__name__] = []
    for size in sizes:
        model = make_pipeline(maker(gamma=0.02, n_components=size, random_state=0), LogisticRegression(C=100))
        model.fit(X_train, y_train)
        moved = attacks.pgd(model, X_test, y_test, eps=0.2, steps=5, random_state=0)
        left[maker.__name__].append(model.score(moved, y_test))
        shares = (model.score(X_test, y_test), left[maker.__name__][-1])
        print(f"{maker.__name__}, {size}: {shares[0]:.3f} as is, {shares[1]:.3f} attacked")

# %%
figure, ax = plt.subplots(figsize=(6, 4))
for (name, shares), marker in zip(left.items(), "os"):
    ax.plot(sizes, shares, f"{marker}-", label=name)
ax.set(xlabel="features", ylabel="accuracy under attack", ylim=(0, 1), xticks=sizes)
ax.legend()
plt.show()

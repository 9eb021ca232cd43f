"""
One kernel or eight?
====================

:class:`buttress.MultiKernelSVDD` learns the weights of a mixture of kernels, here of the eight of the literature. See
:doc:`/novelty`.
"""

import matplotlib.pyplot as plt
import numpy as np

from buttress import SVDD, MultiKernelSVDD
from buttress.kernels import RBF, Cauchy, InverseMultiquadric, Laplacian, Linear, Log, Polynomial, Sigmoid

rng = np.random.default_rng(0)
angle = rng.uniform(0, np.pi, 100)
X = np.c_[np.cos(angle), np.sin(angle) - 0.4] + 0.13 * rng.normal(size=(100, 2))
kernels = [Linear(), Polynomial(2, 1.0, 1.0), RBF(1.0), Laplacian(1.0), Sigmoid(0.5, -1.0), InverseMultiquadric(0.7),
           Log(2, 2.0), Cauchy(2.0)]
chosen = MultiKernelSVDD(kernels, objective="minimax", indefinite="clip").fit(X)
mixed = MultiKernelSVDD(kernels, objective="joint", indefinite="clip").fit(X)
print("weights: minimax, the ball of least cost, and joint, in which every kernel has a say")
for kernel, weight, share in zip(kernels, chosen.kernel_weights_, mixed.kernel_weights_):
    print(f"{weight:.2f} {share:.2f} {kernel}")

# %%
grid = np.meshgrid(np.linspace(-1.8, 1.8, 60), np.linspace(-1.2, 1.3, 60))
points = np.column_stack([side.ravel() for side in grid])
models = {"RBF": SVDD(kernel=RBF(1.0)).fit(X), "minimax": chosen, "joint": mixed}
figure, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True)
for ax, (name, model) in zip(axes, models.items()):
    scores = model.decision_function(points).reshape(grid[0].shape)
    ax.contourf(*grid, scores > 0, levels=1, cmap="Blues", alpha=0.5)
    ax.scatter(*X.T, s=6, color="black")
    ax.set_title(name)
plt.show()

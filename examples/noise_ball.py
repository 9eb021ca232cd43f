"""
Why do constant steps never arrive?
===================================

Stochastic gradient descent with a constant step falls fast to a floor, the noise ball, and stays there. A diminishing
step has no floor. See :doc:`/sgd`.
"""

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(0)
curvature, noise, steps, chains = 0.5, 1.0, 3000, 500


def mean_squared_distance(step_length):
    """Follow 500 chains of z <- z - step (curvature z + noise) from z = 2."""
    z = np.full(chains, 2.0)
    distances = []
    for t in range(steps):
        z = z - step_length(t) * (curvature * z + noise**0.5 * rng.normal(size=chains))
        distances.append(np.mean(z**2))
    return np.array(distances)


first, decay = curvature * 4 / (2 * noise), curvature**2 * 4 / (4 * noise)
curves = {
    "constant 0.5": mean_squared_distance(lambda t: 0.5),
    "constant 0.05": mean_squared_distance(lambda t: 0.05),
    "a0 / (1 + γ t)": mean_squared_distance(lambda t: first / (1 + decay * t)),
}
for step in (0.5, 0.05):
    floor = step * noise / (2 * curvature - step * curvature**2)
    print(f"step {step}: floor {floor:.4f} by the formula, {curves[f'constant {step}'][-1000:].mean():.4f} measured")

# %%
figure, ax = plt.subplots(figsize=(6, 4))
for (name, distances), line in zip(curves.items(), ("-", "--", "-.")):
    ax.loglog(np.arange(1, steps + 1), distances, line, label=name)
ax.set(xlabel="step", ylabel="mean squared distance from the optimum")
ax.legend()
plt.show()

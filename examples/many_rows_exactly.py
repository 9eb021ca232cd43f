"""
Can 100,000 rows be fitted exactly?
===================================

Yes, where most rows are far from the boundary: memory grows with the support vectors, and the fit says how far from
optimal it can be. See :doc:`/svm`.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from buttress import SVC

SVC().fit(*make_moons(100, random_state=0))  # compiles the loops, once
sizes, seconds, gaps = [10_000, 30_000, 100_000], [], []
for n in sizes:
    X, y = make_moons(n, noise=0.1, random_state=0)
    start = time.perf_counter()
    model = SVC(gamma=5.0, C=1.0).fit(X, y)
    seconds.append(time.perf_counter() - start)
    gaps.append(model.dual_gap_ / model.primal_objective_)
    print(f"{n:,} rows: {len(model.support_):,} support vectors, {seconds[-1]:.1f} s, relative gap {gaps[-1]:.1e}")

# %%
figure, ax = plt.subplots(figsize=(6, 4))
ax.loglog(sizes, seconds, "o-", color="#0072b2", label="fit")
ax.loglog(sizes, np.array(sizes) * seconds[0] / sizes[0], "--", color="0.6", label="in proportion to the rows")
ax.set(xlabel="rows", ylabel="seconds")
ax.legend()
plt.show()

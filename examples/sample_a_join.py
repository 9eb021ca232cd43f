"""
How do I draw rows of a join of 10^12 rows?
===========================================

:class:`buttress.relational.JoinSampler` counts the rows of a join exactly and draws them uniformly, without making
any other. See :doc:`/relational/counting`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from buttress.relational import Join, JoinSampler, Table

rng = np.random.default_rng(0)
n = 100_000
keys = rng.zipf(1.3, (3, n)) % 1000
tables = [pd.DataFrame({"key": keys[i], f"x{i}": rng.normal(loc=np.log1p(keys[i]), size=n)}) for i in range(3)]
tables[0]["label"] = rng.random(n) < 0.5
join = Join([Table("a", tables[0], features=["x0"], label="label"), Table("b", tables[1], features=["x1"]),
             Table("c", tables[2], features=["x2"])], on=[("a.key", "b.key"), ("a.key", "c.key")])
sampler = JoinSampler(join, random_state=0)
X, y = sampler.sample(20_000)
print(f"the join has exactly {sampler.n_rows_:,} rows; drew {len(X):,} of them")

# %%
# A row of the join is drawn as often as any other, so frequent keys weigh by the product of their counts.

counts = np.array([np.bincount(key, minlength=1000) for key in keys], dtype=float)
weight = counts.prod(axis=0)
mean = np.average(pd.DataFrame({"key": keys[0], "x": tables[0]["x0"]}).groupby("key")["x"].mean().reindex(range(1000))
                  .fillna(0), weights=weight)
print(f"mean of x0 over the join: {mean:.4f} by counting, {X[:, 0].mean():.4f} in the sample")
figure, ax = plt.subplots(figsize=(6, 4))
ax.hist(tables[0]["x0"], bins=60, density=True, alpha=0.5, label="rows of the table", color="0.5")
ax.hist(X[:, 0], bins=60, density=True, histtype="step", label="rows of the join", color="#0072b2")
ax.set_xlabel("x0")
ax.legend()
plt.show()

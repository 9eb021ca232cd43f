"""
Which rows are novel, at what false discovery rate?
===================================================

:class:`buttress.SVDD` gives each new row a p-value, and names rows so that few of those named are typical. See
:doc:`/novelty`.
"""

import matplotlib.pyplot as plt
import numpy as np

from buttress import SVDD, novel_columns

rng = np.random.default_rng(0)
model = SVDD(nu=0.5).fit(rng.normal(size=(400, 2)))
new = np.vstack([rng.normal(size=(180, 2)), rng.normal(size=(20, 2)) + [3.5, 2.5]])
p = model.p_values(new)
named = model.novel(new, fdr=0.1)
print(f"named {named.sum()} of 200 rows: {named[180:].sum()} of the 20 novel ones, {named[:180].sum()} typical ones")

# %%
# p-values of typical rows are spread evenly, those of novel rows are small.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
left.scatter(*new[~named].T, s=10, color="0.5", label="not named")
left.scatter(*new[named].T, s=25, marker="x", color="#d55e00", label="named novel")
left.legend()
right.hist([p[:180], p[180:]], bins=20, range=(0, 1), stacked=True, color=["0.6", "#d55e00"],
           label=["typical", "novel"])
right.set(xlabel="p-value", ylabel="rows")
right.legend()
plt.show()

# %%
# Which column makes a row novel: how much more typical it would be with a usual value there.

train = rng.normal(size=(400, 4))
row = np.array([[0.2, -0.4, 5.0, 0.1]])
gain = novel_columns(SVDD().fit(train), row, train)[0]
plt.barh([f"column {j}" for j in range(4)], gain, color="#d55e00")
plt.xlabel("rise of the score")
plt.show()

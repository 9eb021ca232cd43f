"""
Is the model from a join that of its table?
===========================================

:class:`buttress.RelationalLinearSVC` never makes the join. Here it is small enough to make, so both can be compared.
See :doc:`/relational`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from buttress import LinearSVC, RelationalLinearSVC
from buttress.relational import Join, Table

rng = np.random.default_rng(0)
people = pd.DataFrame({"id": np.arange(200), "age": rng.normal(size=200)})
orders = pd.DataFrame({"person": rng.integers(0, 200, 3000), "price": rng.normal(size=3000)})
people["left"] = people["age"] + rng.normal(size=200) > 0
join = Join([Table("people", people, features=["age"], label="left"), Table("orders", orders, features=["price"])],
            on=[("people.id", "orders.person")])
model = RelationalLinearSVC(C=0.01, row_weight="join", tol=1e-6, random_state=0).fit(join)
low, high = model.objective_interval_

# %%
# The table, and the machine on its rows: features by their largest magnitude, and a constant column for the intercept.

table = people.merge(orders, left_on="id", right_on="person")
X = table[["age", "price"]].to_numpy()
scale = np.abs(X).max(axis=0)
rows = np.column_stack([X / scale, np.ones(len(X))])
peer = LinearSVC(C=0.01, fit_intercept=False, tol=1e-10).fit(rows, table["left"])
alpha = 1 / (2 * 0.01 * len(table))
optimum = 2 * alpha * peer.primal_objective_
print(f"{len(table)} rows; optimum of the table {optimum:.8f}, interval of the join [{low:.8f}, {high:.8f}]")

# %%
scores = model.decision_function(join)
by_person = pd.Series(peer.decision_function(rows)).groupby(table["id"]).mean()
figure, ax = plt.subplots(figsize=(5, 5))
ax.axline((0, 0), slope=1, color="0.7")
ax.scatter(by_person, scores[by_person.index], s=12, color="#0072b2")
ax.set(xlabel="mean score of a person's rows in the table", ylabel="score from the join")
plt.show()

"""
How do I get one row of features for each customer?
===================================================

:class:`buttress.relational.EntityFeatures` aggregates the other tables, using only what was known at each row's date.
See :doc:`/relational/entities`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline

from buttress.relational import EntityFeatures, Join, Table

rng = np.random.default_rng(0)
loans = pd.DataFrame({"account": np.arange(400), "date": rng.integers(50, 100, 400)})
level = rng.normal(size=400)
account = rng.integers(0, 400, 8000)
amount = level[account] + rng.normal(size=8000)
moves = pd.DataFrame({"account": account, "day": rng.integers(0, 100, 8000), "amount": amount})
loans["bad"] = level + 0.5 * rng.normal(size=400) > 0
join = Join([Table("loans", loans, label="bad"), Table("moves", moves, features=["amount"], time="day")],
            on=[("loans.account", "moves.account")], as_of="loans.date")
model = make_pipeline(EntityFeatures(join), RandomForestClassifier(random_state=0)).fit(loans[:300], loans["bad"][:300])
print(f"accuracy on 100 other accounts: {model.score(loans[300:], loans['bad'][300:]):.2f}")

# %%
names = model[0].get_feature_names_out()
importance = model[1].feature_importances_
order = np.argsort(importance)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.barh(names[order], importance[order], color="#0072b2")
ax.set_xlabel("importance in the forest")
plt.show()

"""
What is wrong with my table?
============================

The audit fits a table of models, attacks them, corrupts their training rows, and judges every label. In a notebook
its result is a page. See :doc:`/audit`.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import buttress

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
columns = X.columns[:8]
y = y.copy()
y[[3, 40, 77]] = 1 - y[[3, 40, 77]]
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    result = buttress.audit(None, X[columns][:300], y[:300], rows=120, effort="quick")
for sentence in result.verdict:
    print(sentence)

# %%
print(result.suspicious.head())

# %%
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
result.plot(axes)
plt.show()

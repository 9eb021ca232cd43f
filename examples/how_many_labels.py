"""
How many labels would have to be wrong?
=======================================

:func:`buttress.certificates.training_flips` proves, for every prediction, the fewest training labels whose change would
change it. A penalty chosen with ``flips=`` makes a machine that stands more. See :doc:`/training-data`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import LeastSquaresClassifier, certificates, explain

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
counts = np.arange(0, 41)

figure, ax = plt.subplots(figsize=(6, 4))
for label, machine, colour in (("alpha='loo'", LeastSquaresClassifier(alpha="loo"), "#0072b2"),
                               ("alpha='loo', flips=10", LeastSquaresClassifier(alpha="loo", flips=10), "black")):
    model = make_pipeline(StandardScaler(), machine).fit(X_train, y_train)
    found = certificates.training_flips(model, X_train, y_train, X_test, flips=counts)
    right = found.prediction == y_test
    stands = [(right & found.stands(count)).mean() for count in counts]
    print(f"{label}: right {right.mean():.3f}; right whichever 10 of {len(y_train)} labels are wrong {stands[10]:.3f}")
    ax.plot(counts, stands, color=colour, label=label)
ax.axhline(max(y_test.mean(), 1 - y_test.mean()), color="0.5", ls=":", label="the larger class, always")
ax.set(xlabel="wrong training labels, whichever they are", ylabel="right, proven", ylim=(0, 1))
ax.legend()
plt.show()

# %%
# The rows that a prediction hangs on, strongest first, and how many they are; ``explain`` says it beside what
# speaks for the prediction:

hanging = int(found.needed.argmin())
why = explain(model, X_test[hanging], training=(X_train, y_train))
print(f"row {hanging} changes with {why.needed:.0f} wrong label(s), of training rows {why.hangs_on.tolist()}")

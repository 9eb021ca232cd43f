"""
How do I classify covariance matrices of EEG trials?
====================================================

Trials of EEG are often told apart by their covariances. With the logarithms of these, inner products are those of
pyRiemann's log-Euclidean metric, and the machine behind them is exact, with probabilities that agree with its
predictions. With pyRiemann, ``TangentSpace()`` stands in the place of the logarithms. See :doc:`/certainty`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from buttress import SVC

rng = np.random.default_rng(0)


def trial(hand):
    """Return the covariance of 200 samples at 6 electrodes; each hand has a rhythm at an electrode of its own."""
    rhythm = np.outer(np.sin(np.arange(200) / 4 + rng.uniform(0, 6)), np.eye(6)[1 if hand else 4])
    return np.cov((rng.normal(size=(200, 6)) + rng.uniform(0.4, 1.2) * rhythm).T)


hands = np.repeat([0, 1], 60)
trials = np.array([trial(hand) for hand in hands])  # (120, 6, 6), as Covariances().transform of pyRiemann gives them


def logs(matrices):
    values, vectors = np.linalg.eigh(matrices)
    return ((vectors * np.log(values)[:, None, :]) @ vectors.transpose(0, 2, 1)).reshape(len(matrices), -1)


train, test, hand, asked = train_test_split(trials, hands, test_size=0.5, random_state=0, stratify=hands)
model = make_pipeline(FunctionTransformer(logs), SVC(kernel="linear")).fit(train, hand)
print(f"{model.score(test, asked):.2f} of the new trials are right; the optimum is {model[-1].dual_gap_:.1e} away")

# %%
# How sure it is, on trials that it has not seen.
sure = model.predict_proba(test)[:, 1]
figure, ax = plt.subplots(figsize=(6, 3.5))
ax.hist([sure[asked == 0], sure[asked == 1]], bins=np.linspace(0, 1, 11), label=["left", "right"],
        color=["#0072b2", "#d55e00"])
ax.set(xlabel="probability of the right hand", ylabel="trials")
ax.legend()
plt.show()

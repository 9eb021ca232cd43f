"""
How do I save a model, ship it, and predict?
============================================

A file of :func:`buttress.save` holds numbers, no code, and a checksum. scikit-learn's models go into it too. See
:doc:`/models`.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import buttress

X, y = load_wine(return_X_y=True)
model = make_pipeline(StandardScaler(), buttress.SVC()).fit(X[::2], y[::2])
path = Path(tempfile.mkdtemp()) / "wine.buttress"
buttress.save(model, path)
again = buttress.load(path)
same = np.array_equal(again.decision_function(X), model.decision_function(X))
print(f"{path.name}: {path.stat().st_size:,} bytes, the same scores: {same}")

# %%
# A changed byte is noticed.

content = bytearray(path.read_bytes())
content[len(content) // 2] ^= 1
path.write_bytes(content)
try:
    buttress.load(path)
except ValueError as error:
    print(error)

# %%
figure, ax = plt.subplots(figsize=(5, 4))
ax.scatter(*again.decision_function(X)[:, :2].T, c=y, cmap="cividis", s=16)
ax.set(xlabel="score of class 0", ylabel="score of class 1")
plt.show()

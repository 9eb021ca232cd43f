"""
What can an examiner check without taking my word?
==================================================

:func:`buttress.evidence.write_evidence` writes a folder on a fitted model; ``buttress-verify`` proves the statements in
it that are marked proven, with numpy alone. See :doc:`/evidence`.
"""

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from buttress import SVC, verify
from buttress.evidence import write_evidence

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
radii = {}
for name, machine in (("SVC", SVC()), ("forest", RandomForestClassifier(30, max_depth=5, random_state=0))):
    model = make_pipeline(StandardScaler(), machine).fit(X[::2], y[::2])
    folder = Path(tempfile.mkdtemp())
    found = write_evidence(model, dict(X[1::4]), y[1::4], "benign", folder, eps=0.1)
    radii[name] = np.array([0.0 if each is None else 0.1 * each for each in found.rows["radius"]])
    for one in found.statements[:4]:
        print(f"{name}: {one.kind}: {one.name} {one.value:.3f}")

# %%
# Somebody raises one number, and makes the digest right again:

held = json.loads((folder / "evidence.json").read_text())
held["statements"][0]["value"] = 0.999
(folder / "evidence.json").write_text(json.dumps(held))
print("exit code of buttress-verify:", verify.main([str(folder)]))

# %%
# Every row has a radius, in standard deviations, or none:

figure, ax = plt.subplots(figsize=(6, 4))
for name, values in radii.items():
    ax.step(np.sort(values), 1 - np.arange(len(values)) / len(values), where="post", label=name)
ax.set(xlabel="standard deviations by which every number may be moved", ylabel="rows whose class stays, proven",
       xlim=(0, 0.6), ylim=(0, 1))
ax.legend()
plt.show()

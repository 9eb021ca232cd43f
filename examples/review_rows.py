"""
How do I get from suspicious rows to a clean table?
===================================================

Eighteen of 178 labels of wine are made wrong. ``result.review()`` serves pages on this machine, on which a person
decides on one row after the other, the most suspicious first. Here the person is played by a few lines, which send what
the page's buttons send, and know the truth. See :doc:`/review`.
"""

import re
import tempfile
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

import buttress

X, true = load_wine(return_X_y=True, as_frame=True)
rng = np.random.default_rng(0)
wrong = rng.choice(len(true), 18, replace=False)
given = true.to_numpy().copy()
given[wrong] = (given[wrong] + 1 + rng.integers(0, 2, len(wrong))) % 3

result = buttress.audit(None, X, given, effort="quick")
folder = Path(tempfile.mkdtemp())
served = result.review(folder / "wine.review", who="played")
print(re.sub(r"[\w-]{20,}", "(a secret)", served.address))

# %%
# Forty decisions. Each page shows one row; the answer to a decision is the next page.

found = []
for _ in range(40):
    page = urlopen(served.address).read().decode()
    place, seen = (int(re.search(rf'name="{name}" value="(\d+)"', page)[1]) for name in ("place", "seen"))
    action = "keep" if given[place] == true[place] else "correct"
    form = {"place": place, "seen": seen, "action": action, "value": true[place], "why": ""}
    urlopen(f"{served.address}decide", urlencode(form).encode())
    found.append(action == "correct")
print(f"{sum(found)} of {len(wrong)} wrong labels were found in {len(found)} of {len(true)} rows")

# %%
# What was decided is a file that ``buttress apply`` reads, and a frame.

print(pd.DataFrame(served.decisions)[["row", "action", "value", "who"]].head(3))
print(served.corrections(folder / "corrections.csv").name)
served.stop()

figure, ax = plt.subplots(figsize=(6, 3.5))
ax.plot(np.arange(1, 41), np.cumsum(found), label="most suspicious first")
ax.plot([0, 40], [0, 40 * len(wrong) / len(true)], ":", label="in random order, expected")
ax.set(xlabel="decisions", ylabel="wrong labels found")
ax.legend()
plt.show()

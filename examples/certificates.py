"""
What does a certified radius look like?
=======================================

Around each row a region (here a square) in which no input, found or not, changes the prediction. No region crosses the
boundary. :class:`buttress.CertifiedBoundaryDisplay` draws them. See :doc:`/certified-radius`.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from buttress import SVC, CertifiedBoundaryDisplay

X, y = make_moons(60, noise=0.12, random_state=3)
model = SVC(gamma=1.5, C=10).fit(X, y)
figure, ax = plt.subplots(figsize=(6.5, 4.5))
display = CertifiedBoundaryDisplay.from_estimator(model, X, y, ax=ax)
print(f"certified radii: median {np.median(display.radius):.2f}, largest {display.radius.max():.2f}")
plt.show()

"""
Which reference values of my spectra are wrong?
===============================================

A hundred near-infrared spectra with the concentrations that the laboratory wrote down: those of four samples were
swapped. The fit is not told how many. See :doc:`/suspicious-rows`.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

from buttress import RobustKernelRegressor, outlier_report

rng = np.random.default_rng(0)
waves = np.linspace(1100, 2500, 200)  # nm
water, fat = (np.exp(-(((waves - centre) / width) ** 2)) for centre, width in ((1940, 60), (1730, 40)))
concentration = rng.uniform(5, 30, 100)
spectra = (np.outer(concentration, fat) / 30 + np.outer(60 - concentration, water) / 60
           + rng.normal(0, 0.02, 100)[:, None] + rng.normal(0, 0.002, (100, 200)))
written = concentration + rng.normal(0, 0.2, 100)
swapped = [3, 21, 47, 80]
written[swapped] = written[np.roll(swapped, 1)]

table = pd.DataFrame(spectra, columns=waves.round().astype(int).astype(str))
scaled = StandardScaler().set_output(transform="pandas").fit_transform(table)
model = RobustKernelRegressor(kernel="linear", random_state=0).fit(scaled, written)
report = outlier_report(model, scaled, written)
wrong = report[report["probability"] > 0.5]
print(wrong[["probability", "expected"]].round(2))

# %%
figure, ax = plt.subplots(figsize=(6, 4))
ax.plot(written, model.predict(scaled), "o", color="0.7")
ax.plot(written[wrong.index], model.predict(scaled)[wrong.index], "o", color="#d55e00", label="looks wrong")
ax.set(xlabel="written down, %", ylabel="what the spectrum says, %")
ax.legend()
plt.show()

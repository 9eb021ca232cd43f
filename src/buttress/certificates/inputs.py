"""Certified radii of rows, and which rows are certified within a given radius or under a threat."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from buttress._as_given import check_names
from buttress._checks import Array, check_box, check_columns, check_count, check_option, check_rows
from buttress._types import BoundsLike, Mask, MatrixLike
from buttress.certificates.leads import Leads, Rival
from buttress.certificates.norm_bound import NoCertificateError
from buttress.certificates.pipelines import in_single, read_steps
from buttress.certificates.radius import OUTWARD, SHORTFALL
from buttress.certificates.region import Attacker
from buttress.certificates.trees_and_pipelines import Chained, OfTrees, proven_under
from buttress.expansion import winners
from buttress.scores import Scorable, SignOf, as_classifier, read_scores
from buttress.threats import ThreatModel, check_threat, read_threat
from buttress.threats.declared import columns_by_name
from buttress.trees import NAMES as TREES
from buttress.trees import read_forest

NORMS = ("l2", "linf")


@dataclass
class CertifiedRadius:
    """Radii within which the prediction cannot change: 0 if nothing is proven, inf if the model is proven constant.

    Parameters
    ----------
    l2, linf : array of shape (n,)
        In the units of X, or in multiples of the ``scale`` that was asked for.
    """

    l2: Array
    linf: Array


def certified_radius(
    model: Scorable,
    X: MatrixLike,
    *,
    bounds: BoundsLike | None = None,
    max_parts: int = 0,
    norm: str | None = None,
    scale: ArrayLike | None = None,
) -> CertifiedRadius:
    """Return for each row of X a radius within which no input changes the prediction.

    Parameters
    ----------
    model : fitted classifier
        A kernel expansion with stationary, linear, polynomial (of degree 3 or an even degree) or summed kernels: of
        this package, scikit-learn's SVC, linear classifiers and KernelRidge on -1 and +1. An MLPClassifier, by bounds
        of its layers. Both may be in a pipeline after Nystroem features, scalers, PCA, TruncatedSVD, selection,
        SimpleImputer, polynomial features and a ColumnTransformer of these. Or trees that
        :func:`buttress.attacks.exact` supports, by the sum of what each tree can lose; their l_2 radii are those of
        l_inf.
    X : array of shape (n, d)
    bounds : (low, high) or None
        Box of allowed inputs, as for the attacks: numbers, or arrays that broadcast to X. It must contain X.
    max_parts : int, default=0
        Parts of the region that branch and bound searches for each row, rival and norm, shared by the radii that it
        tries: 4, of trees 40. More give larger radii, with few columns above all. 0 is without branch and bound, and
        much faster. :func:`certified_within` can afford it by default: it tries one radius, in one norm.
    norm : {"l2", "linf"} or None
        Compute radii in this norm only. The other radii then follow from |u|_inf <= |u|_2 <= sqrt(d) |u|_inf.
    scale : array of shape (d,) or (1, d), or None
        One number >= 0 for each column: the radii are multiples of these numbers, and columns with 0 do not move.

    Returns
    -------
    CertifiedRadius
        With arrays ``l2`` and ``linf`` of shape (n,). Both are proven, rounding included: no attack succeeds within
        them. They do not say whether the prediction is right.

    Raises
    ------
    ValueError
        For a model or kernel without such a bound, one that predicts several labels a row, X of the wrong width or
        with its columns in another order, NaN or inf, a box that excludes X.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVC, certificates
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> model = SVC(kernel="linear").fit(X, y)
    >>> certificates.certified_radius(model, X)
    CertifiedRadius(l2=array([1., 1.]), linf=array([1., 1.]))
    """
    check_count("max_parts", max_parts, 0)
    wanted = NORMS if norm is None else (check_option("norm", norm, NORMS),)
    proofs, data = _proofs(model, X, max_parts)
    columns, radii = _units("scale", scale, data), {name: np.zeros(len(data)) for name in NORMS}
    if not isinstance(proofs, Leads):
        held = _whole_box(bounds, data)
        for name in ("linf",) if isinstance(proofs, OfTrees) else wanted:
            radii[name] = proofs.radius(data, columns, name, held)
        return _radii_of_both(radii["l2"], radii["linf"], data.shape[1])
    leads, (box, units) = proofs, _held(bounds, columns, data)
    attackers = {name: leads.attacker(data, name, box, units) for name in wanted}
    for rows in _blocks(leads, len(data)):
        part = data[rows]
        rivals = leads.rivals(part, leads.scale * units)
        for name in wanted:
            attacker = attackers[name][rows]
            radius = leads.radii(part, rivals, attacker)
            if box is not None:
                radius = _without_box(leads, part, rivals, attacker, radius)
            radii[name][rows] = radius if max_parts == 0 else leads.branched(part, rivals, attacker, radius, max_parts)
    return _radii_of_both(radii["l2"], radii["linf"], data.shape[1])


def _radii_of_both(l2: Array, linf: Array, width: int) -> CertifiedRadius:
    """Return the radii of both norms, each at least what the other's says."""
    return CertifiedRadius(np.maximum(l2, linf), np.maximum(linf, l2 / np.sqrt(width)))


def certified_within(
    model: Scorable,
    X: MatrixLike,
    *,
    eps: ArrayLike | None = None,
    norm: str = "linf",
    bounds: BoundsLike | None = None,
    threat: ThreatModel | None = None,
    max_parts: int = 100,
) -> NDArray[np.bool_]:
    """Return for which rows of X no input within ``eps`` changes the prediction. This is cheaper than radii.

    Parameters
    ----------
    model, X, bounds
        As in :func:`certified_radius`.
    eps : float, array of shape (n,) or array of shape (1, d)
        Radius, >= 0, in the units of X: one number, one for each row, or one for each column.
    norm : {"linf", "l2", "l1"}
        In "l1" linear models are certified exactly, others by the l_2 ball, which contains the l_1 ball.
    threat : ThreatModel or None
        What may be done to each column, instead of eps, norm and bounds. Every way to swap categories is proven in the
        ball of the numbers, up to 10,000 ways; with more, a warning says that not all were tried. Moves in steps are
        proven as if any move were allowed.
    max_parts : int, default=100
        As in :func:`certified_radius`, for rows that are not proven without; all ways to swap share them.

    Returns
    -------
    bool array of shape (n,)
        True is a proof; False says nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVC, certificates
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> certificates.certified_within(SVC(kernel="linear").fit(X, y), X, eps=0.5)
    array([ True,  True])
    """
    check_threat(eps, norm, bounds, threat)
    check_count("max_parts", max_parts, 0)
    if threat is not None:
        return _under_threat(model, X, threat, max_parts)
    check_option("norm", norm, (*NORMS, "l1"))
    proofs, data = _proofs(model, X, max_parts)
    scale, eps = (eps, 1.0) if np.ndim(eps) == 2 else (None, eps)  # type: ignore[arg-type]
    columns, radius = _units("eps", scale, data), _radii(eps, data)
    if not isinstance(proofs, Leads):
        return proofs.within(data, radius[:, None] * columns, norm, _whole_box(bounds, data))
    box, units = _held(bounds, columns, data)
    norm = "l2" if norm == "l1" and not proofs.linear else norm
    return _proven(proofs, data, proofs.attacker(data, norm, box, units), radius, max_parts)


def _units(name: str, given: ArrayLike | None, X: Array) -> Array:
    """Return the units of the columns of X, (1, d): 1 where none are given."""
    width = X.shape[1]
    return np.ones((1, width)) if given is None else check_columns(name, given, width)


def _radii(eps: ArrayLike | None, X: Array) -> Array:
    """Return one radius a row, (n,)."""
    radius = np.asarray(eps, dtype=np.float64)
    if radius.shape not in ((), (len(X),)) or not (np.isfinite(radius) & (radius >= 0)).all():
        raise ValueError(f"eps must be radii >= 0, one or one for each of the {len(X)} rows. Got {eps!r}. One a "
                         "column has the shape (1, d).")
    return np.broadcast_to(radius, len(X))


def _proven(leads: Leads, data: Array, attacker: Attacker, radius: Array, max_parts: int) -> NDArray[np.bool_]:
    """Say which rows are proven to keep their prediction within radii (n,), from ``max_parts`` parts of each region."""
    proven = np.zeros(len(data), dtype=bool)
    for rows in _blocks(leads, len(data)):
        part, own = data[rows], attacker[rows]
        proven[rows] = leads.within(part, leads.rivals(part, own.scale), own, radius[rows], max_parts)
    return proven


def _under_threat(model: Scorable, X: MatrixLike, threat: ThreatModel, max_parts: int) -> NDArray[np.bool_]:
    """Say which rows are proven under a threat."""
    moves = read_threat(threat, _rows(model, X)[0], X)
    max_parts = -(-max_parts // moves.count())
    proofs, data = _proofs(model, X, max_parts)
    if not isinstance(proofs, Leads):
        return proven_under(proofs.classes, proofs.within, data, moves)
    leads, score = proofs, proofs.score

    def within(rows: Array, reach: Array, norm: str, box: tuple[Array, Array]) -> Mask:
        radius = np.broadcast_to(reach.any(axis=1) * 1.0, len(rows))
        return _proven(leads, rows, leads.attacker(rows, norm, box, _measured(reach)), radius, max_parts)

    return proven_under(lambda rows: winners(score(rows), score.contrasts), within, data, moves)


Box = tuple[Array, Array] | None


def _without_box(leads: Leads, X: Array, rivals: list[Rival], attacker: Attacker, radius: Array) -> Array:
    """Return the radii (n,) found in a box, or larger ones without it: what holds everywhere holds in the box.

    Its bounds are seldom better, so rows are first asked for a little more than their radius.
    """
    free = replace(attacker, low=None, high=None)
    wider = np.where(np.isfinite(radius), (1 + SHORTFALL) * radius, 0.0)
    more = np.isfinite(radius) & leads.within(X, rivals, free, wider)
    rows = np.flatnonzero(more)
    if len(rows):
        found = leads.radii(X[rows], leads.rivals(X[rows], free.scale), free)
        radius[rows] = np.maximum(radius[rows], found)
    return radius


def _held(bounds: BoundsLike | None, columns: Array, X: Array) -> tuple[Box, Array]:
    """Return the box of each row and the units (d,) of columns measured in (1, d); the box holds those of 0 in place.
    """
    if bounds is None and columns.all():
        return None, columns[0]
    low, high = (np.where(columns > 0, side, X) for side in _whole_box(bounds, X))
    return (low, high), _measured(columns)


def _rows(model: Scorable, X: MatrixLike) -> tuple[Array, str]:
    """Return the rows, checked against the columns of a fitted model, in float64, and the coarsest type of a column.

    A scaler of some columns of a frame computes in their type, whatever the others have.
    """
    classifier = as_classifier(model)
    if not isinstance(classifier, SignOf):
        check_is_fitted(classifier)
    names = getattr(classifier, "feature_names_in_", None)
    rows = check_rows(X, getattr(classifier, "n_features_in_", None), "A certificate", names)
    check_names("X", X, names)
    kinds = {values.dtype for values in columns_by_name(X).values()}
    if np.dtype(np.float16) in kinds:
        raise ValueError("X holds float16, whose range no certificate knows. Use X.astype(float), in predict too.")
    return rows.astype(np.float64, copy=False), "float32" if np.dtype(np.float32) in kinds else "float64"


def _proofs(model: Scorable, X: MatrixLike, max_parts: int) -> tuple[OfTrees | Chained | Leads, Array]:
    """Return what proves a model: trees, leads of a kernel expansion, or else its steps; and the rows in float64."""
    (rows, real), classifier = _rows(model, X), as_classifier(model)
    forest = read_forest(classifier, rows)
    if forest is not None and forest.scaled and real != "float64":
        raise ValueError(f"X must be of float64 where trees stand behind a scaler, which scales {real} rows in "
                         "that type: some fall to the other side of a threshold. Use X.astype(float), in predict too.")
    if forest is not None:
        return OfTrees(forest, max_parts), rows
    score = read_scores(classifier)
    if score is not None:
        return Leads(score, rows.shape[1], real), rows
    steps = read_steps(classifier)
    if steps is None:
        raise NoCertificateError(
            f"No certified radius is known for {type(model).__name__}. It must be a kernel expansion (an estimator of "
            f"this package, SVC, a linear classifier, also behind scalers or Nystroem), or a {TREES}.")
    real = "float32" if in_single(classifier) else real
    leads = None if steps.kernel is None else cache(partial(Leads, steps.kernel, real=real))
    return Chained(steps, real, None if leads is None else partial(_in_boxes, leads, max_parts)), rows


def _in_boxes(leads_of: Callable[[int], Leads], max_parts: int, centre: Array, low: Array, high: Array) -> Mask:
    """Say which rows a kernel machine keeps in their class in boxes, each row measured in the halves of its own."""
    leads, half = leads_of(centre.shape[1]), np.maximum(high - centre, centre - low) * OUTWARD
    return _proven(leads, centre, leads.attacker(centre, "linf", (low, high), half), np.ones(len(centre)), max_parts)


def _whole_box(bounds: BoundsLike | None, X: Array) -> tuple[Array, Array]:
    """Return the box of each row, infinite where there is none."""
    low, high = check_box((-np.inf, np.inf) if bounds is None else bounds, X)
    return np.broadcast_to(low, X.shape), np.broadcast_to(high, X.shape)


def _measured(columns: Array) -> Array:
    """Return units (d,) for moves of ``columns`` (1, d), or (n, d); of one that stays a small one, to divide by."""
    least = np.min(columns, axis=1, where=columns > 0, initial=1.0, keepdims=True)
    # a column that the box holds in place has a unit too, to divide by
    units = np.where(columns > 0, columns, 1e-3 * least)
    return units[0] if len(units) == 1 else units


def _blocks(leads: Leads, n: int) -> list[NDArray[np.intp]]:
    size = max(1, 2_000_000 // max(1, leads.score.expansion.coef.shape[0]))  # kernel values of one block of rows
    return [np.arange(start, min(start + size, n)) for start in range(0, n, size)]

"""Certificates: for each row a radius inside which no perturbation, found or not, changes the prediction.

Every row gets the best of several bounds on how far its lead over each rival can fall: by the norm, the value and the
gradient in the kernel's space (``norm_bound``), by lines below every kernel value (``relaxation``), by a Taylor series
(``second_order``), and with ``effort`` by halving the region until each part is proven (``branch``).

Examples
--------
>>> import numpy as np
>>> from buttress import SVC, certificates
>>> X, y = np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([0, 1])
>>> radius = certificates.certified_radius(SVC(kernel="linear").fit(X, y), X)
>>> radius.l2.round(6), radius.linf.round(6)
(array([1., 1.]), array([1., 1.]))
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from buttress._checks import Array, check_box, check_number, check_option, check_rows
from buttress._types import BoundsLike, MatrixLike, VectorLike
from buttress.certificates.leads import Leads
from buttress.scores import Scorable, SignOf, as_classifier, read_scores

__all__ = ["CertifiedRadius", "certified_radius", "certified_within"]

ENTRIES = 2_000_000  # kernel values of one block of rows
NORMS = ("l2", "linf")


@dataclass
class CertifiedRadius:
    """Radii inside which the prediction cannot change, 0 where nothing is certified, inf where it is constant.

    Parameters
    ----------
    l2, linf : array of shape (n,)
        In the units of X.
    """

    l2: Array
    linf: Array


def certified_radius(
    model: Scorable,
    X: MatrixLike,
    *,
    bounds: BoundsLike | None = None,
    effort: float = 0.0,
    norm: str | None = None,
) -> CertifiedRadius:
    """Return for each row of X a radius inside which no input gets another prediction.

    Parameters
    ----------
    model : fitted classifier
        A kernel expansion with stationary, linear, polynomial (of degree 3 or an even one) or summed kernels: of this
        package, scikit-learn's SVC, linear classifiers and KernelRidge on -1 and +1, also behind Nystroem features,
        scalers and in pipelines.
    X : array of shape (n, d)
    bounds : (low, high) or None
        Box that the inputs stay in, as for the attacks: numbers, or arrays that broadcast to X. It must hold X.
    effort : float
        Seconds a row and norm of branch and bound, which enlarges the radii; worth it for few columns.
    norm : {"l2", "linf"} or None
        Work on this norm alone. The other's radii then follow from it, as |u|_inf <= |u|_2 <= sqrt(d) |u|_inf.

    Returns
    -------
    CertifiedRadius
        With arrays ``l2`` and ``linf`` of shape (n,). Both are proofs, up to rounding that is allowed for: no attack
        succeeds inside them. They say nothing about whether the prediction is right.

    Raises
    ------
    ValueError
        For a model or kernel without such a bound, X of the wrong width, NaN or inf, a box that excludes X.

    Examples
    --------
    >>> import numpy as np
    >>> from buttress import SVC, certificates
    >>> X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    >>> model = SVC(kernel="linear").fit(X, y)
    >>> certificates.certified_radius(model, X)
    CertifiedRadius(l2=array([1., 1.]), linf=array([1., 1.]))
    """
    leads, data, box = _posed(model, X, bounds)
    effort = check_number("effort", effort, 0, closed="left")
    wanted = NORMS if norm is None else (check_option("norm", norm, NORMS),)
    found = {name: np.zeros(len(data)) for name in NORMS}
    for rows in _blocks(leads, len(data)):
        part = data[rows]
        rivals = leads.rivals(part)
        for name in wanted:
            attacker = leads.attacker(part, name, _of_rows(box, rows))
            radius = leads.radii(part, rivals, attacker)
            if box is not None:  # what holds without the box holds inside it, and its bounds are sometimes better
                radius = np.maximum(radius, leads.radii(part, rivals, leads.attacker(part, name, None)))
            found[name][rows] = radius if effort == 0 else leads.branched(part, rivals, attacker, radius, effort)
    l2, linf = found["l2"], found["linf"]
    return CertifiedRadius(np.maximum(l2, linf), np.maximum(linf, l2 / np.sqrt(data.shape[1])))


def certified_within(
    model: Scorable,
    X: MatrixLike,
    *,
    eps: VectorLike,
    norm: str = "linf",
    bounds: BoundsLike | None = None,
    effort: float = 0.0,
) -> NDArray[np.bool_]:
    """Say for which rows of X no input within ``eps`` gets another prediction; cheaper than their radii.

    Parameters
    ----------
    model, X, bounds
        As in :func:`certified_radius`.
    eps : float or array of shape (n,)
        Radius, >= 0, in the units of X.
    norm : {"linf", "l2", "l1"}
        In "l1" linear models are certified exactly, others by the l_2 ball, which holds the l_1 ball.
    effort : float
        Seconds a row of branch and bound, spent on rows that are not proven without.

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
    leads, data, box = _posed(model, X, bounds)
    effort, norm = check_number("effort", effort, 0, closed="left"), check_option("norm", norm, (*NORMS, "l1"))
    norm = "l2" if norm == "l1" and not leads.linear else norm
    radius = np.asarray(eps, dtype=np.float64)
    if radius.shape not in ((), (len(data),)) or not (np.isfinite(radius) & (radius >= 0)).all():
        raise ValueError(f"eps must be radii >= 0, one or one for each of the {len(data)} rows. Got {eps!r}.")
    radius = np.broadcast_to(radius, len(data))
    proven = np.zeros(len(data), dtype=bool)
    for rows in _blocks(leads, len(data)):
        part, size = data[rows], radius[rows]
        rivals = leads.rivals(part)
        attacker = leads.attacker(part, norm, _of_rows(box, rows))
        holds = leads.within(part, rivals, attacker, size)
        rest = np.flatnonzero(~holds)
        if effort > 0 and len(rest):
            again = leads.attacker(part[rest], norm, _of_rows(_of_rows(box, rows), rest))
            holds[rest] = leads.proven(part[rest], leads.rivals(part[rest]), again, size[rest], effort)
        proven[rows] = holds
    return proven


Box = tuple[Array, Array] | None


def _posed(model: Scorable, X: MatrixLike, bounds: BoundsLike | None) -> tuple[Leads, Array, Box]:
    """Check what is asked for, and return the leads, the rows in float64 and the box of each row."""
    model = as_classifier(model)
    if not isinstance(model, SignOf):
        check_is_fitted(model)
    score = read_scores(model)
    if score is None:
        raise ValueError(f"No certificate is known for {type(model).__name__}. It must be a kernel expansion: an "
                         "estimator of this package, SVC, a linear classifier, or one behind scalers or Nystroem.")
    names = getattr(model, "feature_names_in_", None)
    rows = check_rows(X, getattr(model, "n_features_in_", None), "A certificate", names)
    rows = rows.astype(np.float64, copy=False)
    if bounds is None:
        return Leads(score, rows.shape[1]), rows, None
    low, high = (np.broadcast_to(side, rows.shape) for side in check_box(bounds, rows))
    return Leads(score, rows.shape[1]), rows, (low, high)


def _blocks(leads: Leads, n: int) -> list[NDArray[np.intp]]:
    size = max(1, ENTRIES // max(1, leads.score.expansion.coef.shape[0]))
    return [np.arange(start, min(start + size, n)) for start in range(0, n, size)]


def _of_rows(box: Box, rows: NDArray[np.intp]) -> Box:
    return None if box is None else (box[0][rows], box[1][rows])

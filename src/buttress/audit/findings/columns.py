"""Checks of columns: indexes, constants, missing values, entries far out, units."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2_contingency

from buttress._suggest import column_called, listed
from buttress.audit.findings.finding import Evidence, Finding, Made, Severity
from buttress.audit.findings.leaks import association
from buttress.audit.reading.cautions import LOOKED_AT, NORMAL_QUARTILES, counts, quartiles_of
from buttress.audit.reading.entries import MISSING, factorised

DIFFERING = 0.01  # share of entries that differ in a column that is nearly constant
LEVEL = 0.001  # of tests: a thousand tables without a fault give one false alarm a test
MUCH_MISSING = 0.2  # share of a column's entries
GAP = 1.0  # in logarithms, from which it may part entries that are a hundred times too large from the tail
REACH = 8.0  # robust deviations from which an entry is far out
# codes for a missing value; one and two less say why it is missing
SENTINELS = (0.0, -1.0, -9.0, *(sign * (nines - less) for nines in (99.0, 999.0, 9999.0, 99999.0)
                                for less in range(3) for sign in (1, -1)))
POWERS = (10.0, 100.0, 1000.0)  # factors of a misplaced decimal comma, and of units
UNITS = (2.54, 3.281, 2.205, 60.0, 1.8, 4.186, 18.0)  # factors between common units
FEWEST = 3  # entries on which a cause rests: a unit, a gap, rows in which columns are swapped
SHOWN = 5  # columns or rows that a sentence names


def indexes(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Columns that only number the rows, dropped or kept, and row numbers that predict the target."""
    table = evidence.table
    kept = {name: column for name, column in table.numeric.items() if counts(column)}
    for name, column in (table.indexes | kept).items():
        rank = association(column.astype(np.float64), evidence.target, evidence.classifies)
        dropped = "was dropped" if name in table.indexes else "is used as a feature"
        predicts = rank >= max(0.3, 4 / np.sqrt(len(table)))  # rank correlation, or |2 AUC - 1|
        severity = (Severity.note if name in table.indexes else  # dropped, it does no harm
                    Severity.error if predicts else Severity.warning)
        known = f"AUC {(1 + rank) / 2:.2f}" if evidence.classifies else f"rank correlation {rank:.2f}"
        in_order = len({*np.sign(np.diff(column)).tolist()}) == 1
        what = "numbers the rows" if in_order else "has a number of its own for each row, not in their order,"
        says = f", and predicts the target ({known}){': the file is sorted' * in_order}" if predicts else ""
        advice = f"Drop it (--drop {name!r}), unless it means more than the order of the rows."
        yield finding(f"{column_called(name)} {what} and {dropped}{says}.",
                      "" if name in table.indexes else advice, severity, columns=[name], association=rank)


def constants(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Columns of one value, which were dropped, and columns in which few entries differ."""
    table = evidence.table
    if table.constant:
        yield finding(f"Constant or empty columns, dropped: {listed(table.constant, SHOWN)}.", columns=table.constant)
    nearly = [name for name, column in table.numeric.items()
              if _mostly((known := column[~np.isnan(column)]) == np.median(known))]  # what nearly all are is the median
    nearly += [name for name in table.categorical
               if _mostly((codes := table.factors[name][1]) == np.bincount(codes).argmax())]
    if nearly:
        yield finding(f"Columns with one value in 99% of the rows: {listed(nearly, SHOWN)}.",
                      "They say little, and a held-out part may lack their other values.", columns=nearly)


def _mostly(commonest: NDArray[np.bool_]) -> bool:
    """Say whether nearly all of many entries are one."""
    return bool(commonest.sum() >= (1 - DIFFERING) * len(commonest) and len(commonest) >= 1 / DIFFERING)


def missing_values(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Columns with many missing values, and those whose gaps have to do with the target."""
    table = evidence.table
    gaps = {name: np.isnan(column) for name, column in table.numeric.items()}
    gaps |= {name: np.asarray(column == MISSING) for name, column in table.categorical.items()}
    shares = {name: float(gap.mean()) for name, gap in gaps.items() if gap.any()}
    much = {name: share for name, share in shares.items() if share >= MUCH_MISSING}
    if much:
        most = max(much, key=lambda name: much[name])
        said = f"{column_called(most)} is missing in {much[most]:.0%} of the rows"
        if len(much) > 1:
            said = f"Over {MUCH_MISSING:.0%} is missing in {listed(much, SHOWN)}; most in {most!r}, {much[most]:.0%}"
        yield finding(f"{said}.", "Find out why values are missing, and leave out a column that is nearly "
                      "empty: models other than gradient boosting fill gaps with the median.",
                      columns=list(much), shares=much)
    elif shares:
        yield finding(f"Some values are missing in {listed(shares, SHOWN)}.", "", Severity.note,
                      columns=list(shares), shares=shares)
    tells = [name for name in shares if _p_value(gaps[name], evidence) < LEVEL / len(shares)]
    if tells:
        yield finding(f"Whether a value is missing has to do with the target: {listed(tells, SHOWN)}.",
                      "Give the gap as a column of its own, and find out why values are missing.",
                      columns=tells)


def _p_value(gap: NDArray[np.bool_], evidence: Evidence) -> float:
    """Return the p-value of a chi-squared test of the gaps against the classes, or the fifths of the target."""
    if evidence.classifies:
        codes = evidence.table.target_codes
    else:
        fifths = np.unique(np.quantile(evidence.target, [0.2, 0.4, 0.6, 0.8]))
        codes = factorised(np.searchsorted(fifths, evidence.target))[1]
    counted = np.stack([np.bincount(codes[gap], minlength=codes.max() + 1),
                        np.bincount(codes[~gap], minlength=codes.max() + 1)])
    expected = counted.sum(axis=0) * gap.mean()
    if counted.shape[1] < 2 or gap.all() or expected.min() < 3:
        return 1.0
    return float(chi2_contingency(counted).pvalue)


def far_entries(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Entries far from all others of their column, with the likely cause: a sentinel, a sign, a unit, a comma, a swap.
    """
    explained: dict[str, NDArray[np.intp]] = {}
    for first, second, rows in swapped(evidence.table.numeric):
        labels = evidence.labels(rows)
        yield finding(
            f"Columns {first!r} and {second!r} look swapped in {len(rows)} rows, such as row {labels[0]}: each "
            "lies where the other usually does.", "Look at these rows, and swap them back.",
            columns=[first, second], rows=labels, count=len(rows), cause="swapped")
        explained |= {first: rows, second: rows}
    for name, column in evidence.table.numeric.items():
        codes = negative_codes(column)
        others = column.copy()
        others[codes] = np.nan
        others[explained.get(name, codes)] = np.nan
        for far in (codes, far_out(others)):
            if len(far):
                yield from _parted_entries(evidence, finding, name, column if far is codes else others, far)


def _parted_entries(
    evidence: Evidence, finding: Made, name: str, column: NDArray[np.float64], far: NDArray[np.intp]
) -> Iterable[Finding]:
    value = float(np.median(column[far]))
    cause = _cause(column, far)
    rows = evidence.labels(far)
    yield finding(
        f"{column_called(name)}: {len(far)} entr{'y lies' if len(far) == 1 else 'ies lie'} far out, such as "
        f"{column[far[0]]:.6g} in row {rows[0]}{f': {cause}' if cause else ''}.",
        "Correct them or leave them empty: they stretch the scale of the column.",
        columns=[name], rows=rows, count=len(far), value=value, cause=cause)


def negative_codes(column: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the entries below 0, if there are several and all are codes for a missing value, as -999 among sizes.

    A lone -1 may well be a number.
    """
    below = np.flatnonzero(column < 0)
    are_codes = len(below) > 1 and column[below].max() < -1 and _are_codes(column[below])
    return below if are_codes else below[:0]


def far_out(column: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the entries beyond eight robust deviations; where none is negative, also on the scale of logarithms.

    Of a column with a heavy tail, such as incomes or counts, the far entries are no mistakes: they thin out, and a gap
    parts a mistake from the rest. So entries count only beyond the widest gap, if it is as wide as the quartiles are
    apart. A zero has no logarithm, and codes for a missing value, as 98 and 99, are no sizes: both count as they are.
    Entries that a gap parts from any tail, and that one factor brings back among the others, are mistakes too.
    """
    known = column[~np.isnan(column)]
    if len(known) < 20 or len(np.unique(known)) < 10:
        return np.empty(0, dtype=np.intp)
    far = _beyond(column)
    if known.min() >= 0 and len(far) + (known.max() > POWERS[1] * np.median(known)):
        logs = np.log(column, out=np.full(len(column), np.nan), where=column > 0)
        parted = _parted(logs)
        if len(parted) and _factor(column[parted], np.delete(column, parted), POWERS[1:]):
            return parted
        if len(far) == 1 or not _are_codes(column[far]):
            far = far[np.isin(far, _beyond(logs)) | (column[far] == 0)]
    return far if len(far) <= max(1, 0.05 * len(column)) else far[:0]


def _parted(logs: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the largest entries, given by their logarithms, if a gap parts them from the tail below.

    In a tail that thins out as a power, the slowest there is, m times the gap below the m largest is exponential, with
    the mean excess of the tail (Renyi 1953; Hill, Annals of Statistics 1975): the gap is one of a thousand columns'.
    """
    order = np.argsort(-np.nan_to_num(logs, nan=-np.inf), kind="stable")[: len(logs) // 4]
    top = logs[order]
    top = top[~np.isnan(top)]
    size = np.arange(FEWEST, len(top) // 2)
    gap = top[size - 1] - top[size]
    size = size[gap >= GAP]
    if not len(size):
        return order[:0]
    widest = int(size[gap[gap >= GAP].argmax()])
    excess = float(np.mean(top[widest:] - top[-1]))
    return order[:widest] if widest * gap.max() > excess * np.log(len(top) / LEVEL) else order[:0]


def _are_codes(values: NDArray[np.float64]) -> bool:
    """Say whether all numbers are codes that stand for a missing value: -1, or digits of nine with a 7 or 8 at most."""
    return bool(np.isin(values, SENTINELS).all())


def _beyond(column: NDArray[np.float64]) -> NDArray[np.intp]:
    usual = quartiles_of(column)
    if usual.low == usual.high:
        return np.empty(0, dtype=np.intp)
    size = np.abs(column - usual.middle) / usual.spread
    far = size > REACH
    if not far.any():
        return np.empty(0, dtype=np.intp)
    gap = size[far].min() - size[~far & ~np.isnan(size)].max()
    if gap < NORMAL_QUARTILES:  # the tail thins out without a gap
        ordered = np.sort(size[~np.isnan(size)])
        tail = ordered[ordered > REACH / 2]
        gaps = np.diff(tail)
        widest = int(gaps.argmax()) if len(gaps) else 0
        if not len(gaps) or gaps[widest] < max(NORMAL_QUARTILES, tail[widest] / 2):
            return np.empty(0, dtype=np.intp)
        far = size > max(REACH, tail[widest])
    return np.flatnonzero(far)


def _cause(column: NDArray[np.float64], far: NDArray[np.intp]) -> str:
    """Return the likeliest cause of entries far out, empty if none is likely."""
    values = column[far]
    rest = np.delete(column, far)
    rest = rest[~np.isnan(rest)]
    if _are_codes(values) and not np.any((values >= rest.min()) & (values <= rest.max())):
        codes = np.unique(values)
        said = " and ".join(f"{code:g}" for code in codes[:SHOWN])
        return f"{said} look{'s' if len(codes) == 1 else ''} like {'a code' if len(codes) == 1 else 'codes'} for a " \
               "missing value"
    low, high = np.quantile(rest, [0.05, 0.95])
    if np.all(values < 0) and rest.min() >= 0 and np.all((-values >= low / 2) & (-values <= 2 * high)):
        return "the sign is wrong"
    if min(values.min(), rest.min()) >= 0:
        return _factor(values, rest)
    values, rest = np.abs(values), np.abs(rest)  # sizes reach down to 0: several entries must be as large as the factor
    times = np.median(values) / max(np.median(rest), np.finfo(np.float64).tiny)
    powers = [power for power in POWERS[1:] if power / 2 < times < 2 * power and len(values) >= FEWEST]
    return _factor(values, rest, powers)


def _factor(values: NDArray[np.float64], rest: NDArray[np.float64], powers: Sequence[float] = POWERS) -> str:
    """Return by what factor entries are too large or too small, if one takes them among the others.

    Of those nine in ten lie between their outer twentieths, and of more than a few entries, brought back by a power of
    ten, as many up to chance. That says something only where the others differ by less than the factor. A factor
    between units takes three different entries, a misplaced decimal comma one.
    """
    rest = rest[rest > 0]
    if not len(rest):
        return ""
    low, high = np.quantile(rest, [0.05, 0.95])
    enough = max(min(len(values), FEWEST), binom.ppf(LEVEL, len(values), 0.9))
    units = UNITS if powers is POWERS and len(np.unique(values)) >= FEWEST else ()
    for factor in (*powers, *units):
        for size, how in ((factor, "more"), (1 / factor, "less")):
            inside = int(np.sum((values / size >= low) & (values / size <= high)))
            if high / low < factor and inside >= (enough if factor in POWERS else len(values)):
                cause = "a decimal comma or a unit" if factor in POWERS else "another unit"
                return f"about {factor:g} times {how} than usual, {cause}"
    return ""


def swapped(numeric: Mapping[str, NDArray[np.float64]]) -> Iterable[tuple[str, str, NDArray[np.intp]]]:
    """Yield pairs of columns whose usual ranges are apart, and the rows in which each strays into the other's range.

    Entries that were swapped stray in pairs; where most stray alone, nothing was. And they lie where the other's do:
    most within its usual range, of which nine in ten do in each column.
    """
    some = {name: column[:: -(-len(column) // LOOKED_AT)] for name, column in numeric.items()}
    ranges = {name: np.nanquantile(column, [0.05, 0.95]) for name, column in some.items()}  # of nine in ten entries
    for pair in combinations(numeric, 2):
        low, high = sorted(pair, key=lambda name: tuple(ranges[name]))
        if ranges[low][1] < ranges[high][0]:
            strays = some[low] >= ranges[high][0], some[high] <= ranges[low][1]
            both = strays[0] & strays[1]
            inside = both & _within(some[low], ranges[high]) & _within(some[high], ranges[low])
            # most of the entries that stray into the other column's range do so in the same rows
            if both.sum() >= max(FEWEST, 0.8 * max(map(np.sum, strays))) and 2 * inside.sum() >= both.sum():
                middle = (ranges[low][1] + ranges[high][0]) / 2
                yield *pair, np.flatnonzero((numeric[low] > middle) & (numeric[high] < middle))


def _within(column: NDArray[np.float64], ends: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.asarray((column >= ends[0]) & (column <= ends[1]))


def mixed_units(evidence: Evidence, finding: Made) -> Iterable[Finding]:
    """Columns whose entries are written with different units."""
    for name, units in evidence.table.units.items():
        said = ", ".join(f"{count} in {unit!r}" if unit else f"{count} bare" for unit, count in units.items())
        yield finding(f"{column_called(name)} mixes units: {said}. Entries in others than the commonest count "
                      "as missing.", "Convert them to one unit.", columns=[name], units=units)

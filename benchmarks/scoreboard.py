"""What the scoreboard is made of: comparisons, who is better in each, and their tables."""

import platform
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import results

EVEN_RATIO = 0.1  # a ratio of times or errors nearer to 1 is even: runs on a shared machine differ as much
EVEN_SCORE = 0.005  # scores and shares that differ by less are even
COVERAGE = 0.9
PEERS = ("scikit-learn", "scikit-learn-intelex", "adversarial-robustness-toolbox", "pyod", "cleanlab", "statsmodels",
         "mapie", "duckdb", "numpy", "scipy", "numba")


class Better(Enum):
    """When a number is better: in the ratio of times or errors, as a score, as a share, as a coverage."""

    LESS = "a smaller ratio"
    MORE = "a higher score"
    LOWER = "a lower share"
    NEARER = "nearer to .9"


@dataclass(frozen=True)
class Row:
    """One comparison; ``theirs`` is None where the peer is not installed."""

    what: str
    unit: str
    ours: float
    peer: str
    theirs: float | None
    better: Better = Better.LESS

    def verdict(self) -> str:
        """Return who is better: ``buttress``, ``even`` or the peer's package."""
        if self.theirs is None:
            return "not measured"
        if self.better is Better.LESS:
            ahead, even = self.theirs - self.ours, EVEN_RATIO * min(self.ours, self.theirs)
        elif self.better is Better.NEARER:
            ahead, even = abs(self.theirs - COVERAGE) - abs(self.ours - COVERAGE), EVEN_SCORE
        else:
            sign = 1 if self.better is Better.MORE else -1
            ahead, even = sign * (self.ours - self.theirs), EVEN_SCORE
        package = self.peer.split(",")[0]
        return "even" if abs(ahead) <= even else "buttress" if ahead > 0 else package

    def cells(self) -> list[str]:
        """Return the row of the table; the ratio says how many times theirs is ours."""
        theirs = "not installed" if self.theirs is None else shown(self.theirs)
        ours = "" if self.ours != self.ours else shown(self.ours)
        ratio = f"{self.theirs / self.ours:.2f}" if self.better is Better.LESS and self.theirs is not None else ""
        return [self.what, self.unit, ours, theirs, self.peer, ratio, self.verdict()]


def shown(value: float) -> str:
    """Return a number with three digits that count."""
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def machine() -> str:
    """Return the processor, its cores and the system."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    cores = f"{len(names)} cores" if names else ""
    return ", ".join(part for part in (names[0] if names else platform.machine(), cores, platform.system()) if part)


def versions() -> str:
    """Return the versions of Python, of this package and of the peers."""
    found = [f"Python {platform.python_version()}"]
    for name in ("buttress", *PEERS):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} not installed" if name != "buttress" else "buttress of this checkout")
    return ", ".join(found)


def tables(groups: dict[str, list[Row]], command: str) -> dict[str, results.Result]:
    """Return the results to keep: a table for each group, and "scoreboard", which counts who is better."""
    columns = ["what", "measured in", "buttress", "peer's", "peer", "ratio", "better"]
    found = {f"scoreboard-{name}": results.of_today(command, columns, [row.cells() for row in rows])
             for name, rows in groups.items()}
    verdicts = Counter(row.verdict() for rows in groups.values() for row in rows)
    ours, even, absent = (verdicts[name] for name in ("buttress", "even", "not measured"))
    counts = [ours, even, verdicts.total() - ours - even - absent, absent]
    found["scoreboard"] = results.of_today(
        command, ["buttress better", "even", "the peer better", "not measured"], [counts], f"{machine()}. {versions()}")
    return found

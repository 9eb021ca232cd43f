"""What displays share: axes, and colours that print and that the colour-blind tell apart (Okabe & Ito 2008)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442")


def next_colour(ax: "Axes") -> str:
    """Return the first of the colours that no line on ``ax`` has; the first again where all are taken."""
    from matplotlib.colors import to_hex

    taken = {to_hex(line.get_color()) for line in ax.lines}
    return next((colour for colour in COLOURS if colour not in taken), COLOURS[0])


def given_or_new(ax: "Axes | None") -> "Axes":
    """Return the axes, or new ones; ImportError that says what to install without matplotlib."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("Plots need matplotlib. Install it with: pip install buttress[report]") from None
    return pyplot.subplots()[1] if ax is None else ax


def by_full_names(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options of a line by their full names, as linestyle for ls."""
    from matplotlib.cbook import normalize_kwargs
    from matplotlib.lines import Line2D

    found: Mapping[str, Any] = normalize_kwargs(dict(options), Line2D)
    return found


class Display:
    """A picture that is computed once and drawn as often as needed."""

    def drawn_on(self, ax: "Axes") -> Self:
        """Note where it is drawn; returns self."""
        self.ax_ = ax
        self.figure_ = ax.figure
        return self

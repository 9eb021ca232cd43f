"""python -m reproduce.verdicts NAME: print the figures that decide one statement, as lines "name = value"."""

import argparse
import sys
from collections.abc import Callable, Sequence

from reproduce.verdicts import attacked, joins, stochastic, tables, trimming, trimming_bounds

ROOMS = {"trimming": trimming, "bounds": trimming_bounds, "joins": joins, "stochastic": stochastic,
         "attacked": attacked, "tables": tables}


def experiments() -> dict[str, Callable[[], dict[str, float]]]:
    """Return the experiments by name, as in trimming.equation_6."""
    return {f"{room}.{name}": getattr(module, name) for room, module in ROOMS.items() for name in module.__all__}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the experiments named; returns the exit status."""
    known = experiments()
    parser = argparse.ArgumentParser(prog="python -m reproduce.verdicts", description=__doc__)
    parser.add_argument("names", nargs="+", choices=sorted(known), metavar="NAME", help=", ".join(sorted(known)))
    for name in parser.parse_args(arguments).names:
        for figure, value in known[name]().items():
            sys.stdout.write(f"{figure} = {value:.6g}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

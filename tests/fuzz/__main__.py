"""Run the fuzzer: ``python -m tests.fuzz --minutes 30``; the exit code is 1 if a promise was broken.

Two fifths of the time go to mutations, the rest to forgeries; the bombs come first. Each kind runs in a process of its
own, so that a crash is seen: the files at which promises were broken are kept in ``--keep``.
"""

import argparse
import multiprocessing
import sys
import tempfile
from pathlib import Path

from .hunting import explode, hunt


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="of processor time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--megabytes", type=int, default=30, help="of the bombs")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "buttress-fuzz")
    given = parser.parse_args()
    given.keep.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("spawn")
    failed = 0
    rounds = [("bombs", explode, (given.megabytes, given.keep))]
    rounds += [(kind, hunt, (kind, given.minutes * 60 * share, given.seed, given.keep))
               for kind, share in (("mutations", 0.4), ("forgeries", 0.6))]
    for kind, work, arguments in rounds:
        counts = context.Array("q", 4)
        process = context.Process(target=work, args=(*arguments, counts))
        process.start()
        process.join()
        judged, refused, equal, broken = counts
        crashed = process.exitcode != 0
        failed += broken + crashed
        print(f"{kind}: {judged:,} files, {refused:,} refused, {equal:,} loaded to a model that a file can hold, "
              f"{broken:,} broke a promise{', then the process crashed' if crashed else ''}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())

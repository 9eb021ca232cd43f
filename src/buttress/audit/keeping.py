"""An audit that survives its process: what its stages found is kept in a folder, and a second run goes on from there.

The fits of this library's estimators keep their own runs (``checkpoints``), as they do in a fit with a checkpoint; what
is measured of them, and the fits of others, are kept whole.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from buttress._checks import warn_user
from buttress._types import Predictor
from buttress.audit.options import Options
from buttress.audit.reading.table import DataTable
from buttress.checkpoints.fingerprint import Fingerprint, digest, environment
from buttress.checkpoints.folder import Folder
from buttress.checkpoints.journal import (
    FIT,
    Memory,
    current_journal,
    journal_of_fit,
    kept,
    rng_state,
    set_rng_state,
    taken_up,
)


@contextmanager
def kept_in(
    checkpoint: str | None, table: DataTable, options: Options, entries: Mapping[str, Predictor]
) -> Iterator[None]:
    """Have the stages of an audit in the block keep what they find in this folder, and take up what is there.

    Raises
    ------
    ValueError
        Where the folder is of another audit, or of other versions or threads, and what differs.
    OSError
        Where no files can be made there.
    """
    if checkpoint is None:
        yield
        return
    folder = Folder(checkpoint)
    with folder.held():
        now = _fingerprint(table, options, entries)
        journal = taken_up(folder, True, lambda: now, None)
        try:
            with journal_of_fit(journal):
                yield
        except BaseException:
            journal.stop()
            raise
        journal.clear()
        folder.remove(FIT)


def _fingerprint(table: DataTable, options: Options, entries: Mapping[str, Predictor]) -> Fingerprint:
    unmeasured = ("max_time", "ignore")  # options that do not change what is measured
    chosen = {name: repr(str(value) if isinstance(value, str) else value) for name, value in vars(options).items()
              if name not in unmeasured}
    columns = [table.given, table.given_target, table.target_name, table.row_numbers, table.to_test]
    return {
        "parameters": {**chosen, "task": table.task, "estimators": digest([entries])[:12]},
        "data": {"table": digest(columns)},
        "environment": environment(),
    }


def kept_stage(question: object, compute: Callable[[], Memory]) -> Memory:
    """Return ``compute()``, or what the checkpoint of the audit keeps of this stage; its warnings are given again.

    ``question`` names the stage. Numpy's global generator is left as the stage left it.
    """
    if current_journal() is None:
        return compute()
    rng = np.random.mtrand._rand

    def computed() -> Memory:
        with warnings.catch_warnings(record=True) as caught:
            found = compute()
        said = [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
        return {"found": found, "said": said, "rng": rng_state(rng)}

    answer = kept(question, computed)
    set_rng_state(rng, answer["rng"])
    for text in answer["said"]:
        warn_user(text)
    return answer["found"]

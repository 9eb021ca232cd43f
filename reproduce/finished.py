"""Finished parts of an experiment, kept beside its output: the same command with --resume goes on after a kill."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from buttress.checkpoints.fingerprint import digest, environment
from buttress.checkpoints.folder import Folder

PART = "part-"  # how the names of files begin


class Parts:
    """Results by name, a file each, of numbers, text, None, and lists and mappings of these."""

    def __init__(self, folder: Folder):
        self.folder = folder
        self.environment = environment()

    def of(self, name: str, basis: object, compute: Callable[[], Any]) -> Any:
        """Return the part of this name, kept or computed now.

        ``basis`` is all that the part depends on beside its name: one of another basis, or of other versions, threads
        or BLAS, is not used.
        """
        file = PART + digest([name, basis, self.environment])[:20]
        found = self.folder.read(file)
        if found is None:
            found = {"value": compute()}
            self.folder.write(file, found)
        return found["value"]

    def clear(self) -> None:
        """Remove all parts."""
        for file in self.folder.names(PART):
            self.folder.remove(file)


@contextmanager
def finished_parts(output: Path, resume: bool) -> Iterator[Parts]:
    """Keep parts in ``output``/finished while the block runs; they are removed at its end.

    Raises ValueError where another run is at work there, or a file is not whole.
    """
    folder = Folder(str(output / "finished"))
    with folder.held():
        parts = Parts(folder)
        if not resume:
            parts.clear()
        yield parts
        parts.clear()
    if not any(folder.path.iterdir()):
        folder.path.rmdir()

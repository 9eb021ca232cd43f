"""The folder of a checkpoint: one fit at a time, files written whole or not at all, leftovers removed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from buttress.files.container import ModelFileError, pack, unpack
from buttress.files.disk import UNFINISHED, write_bytes
from buttress.files.values import Decoder, Encoder

try:
    import fcntl
except ImportError:  # Windows, where two fits in one folder are not told apart
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".checkpoint"
LOCK = "in-use"


class Folder:
    """Named values in a folder."""

    def __init__(self, path: str):
        self.path = Path(path)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for one fit, and first remove what a killed process left half written.

        Raises
        ------
        OSError
            Where no files can be made there.
        ValueError
            Where another fit holds it.
        """
        lock = self._locked()
        try:
            for leftover in self.path.glob(f"*{UNFINISHED}"):
                leftover.unlink(missing_ok=True)
            yield
        finally:
            with suppress(OSError):
                (self.path / LOCK).unlink(missing_ok=True)
            lock.close()

    def _locked(self) -> IO[bytes]:
        """Return the open lock file. The system frees the lock of a process that dies."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for _ in range(10):  # another fit may just be removing the file of a lock
                lock = (self.path / LOCK).open("ab")
                self._lock(lock)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.fstat(lock.fileno()), (self.path / LOCK).stat()):
                        return lock
                lock.close()
        except OSError as error:
            raise type(error)(error.errno, f"{error.strerror}. checkpoint must be a folder in which files can be made",
                              str(self.path)) from None
        raise self._taken()

    def _lock(self, lock: IO[bytes]) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise self._taken() from None
        except OSError:  # a file system without locks
            return

    def _taken(self) -> ValueError:
        return ValueError(f"checkpoint={str(self.path)!r} is in use by another fit. Give each fit its own folder.")

    def write(self, name: str, value: object) -> None:
        """Write a file beside its place, sync it, and move it there; ModelFileError for what is not data."""
        encoder = Encoder()
        content = encoder.encode(_called(value, {}), name)
        write_bytes(self._file(name), pack(content, encoder.arrays, {}, grown=encoder.grown))

    def read(self, name: str) -> Any:
        """Return the value of this name, None where there is none; ValueError for a file that is not whole."""
        try:
            held = unpack(name, self._file(name).read_bytes())
            return Decoder(held).decode(held.model)
        except FileNotFoundError:
            return None
        except ModelFileError as error:
            raise ValueError(f"{self._file(name)} is not a whole checkpoint file of this release: {error} Delete it; "
                             "an estimator with resume=False starts anew.") from None

    def names(self, start: str) -> list[str]:
        """Return the names that begin so, in their order."""
        return sorted(path.name.removesuffix(SUFFIX) for path in self.path.glob(f"{start}*{SUFFIX}"))

    def remove(self, name: str) -> None:
        """Remove the value of this name, if there is one."""
        self._file(name).unlink(missing_ok=True)

    def _file(self, name: str) -> Path:
        return self.path / f"{name}{SUFFIX}"


def _called(value: Any, known: dict[int, tuple[object, object]]) -> Any:
    """Return the value with what its partials return in their place, each called once, and Python's numbers."""
    if isinstance(value, partial):
        if id(value) not in known:
            known[id(value)] = (value, _called(value(), known))  # the partial is held, so that its id stays its own
        return known[id(value)][1]
    if isinstance(value, Mapping):
        return {key: _called(entry, known) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_called(entry, known) for entry in value]
    return value.item() if isinstance(value, np.generic) else value

"""Bytes from a file and to a file: never more than was asked for, and whole or not at all.

Reading takes regular files only, as the size of a pipe or a device is not known in advance. Writing goes through a
temporary file beside the target, which is read back before it takes the target's place. What stands there already is
respected: the mode of a file is kept, a symbolic link goes on pointing where it did, and a pipe or a device is written
to as it is.
"""

import os
import stat
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from buttress.files.container import FilePart, Json, ModelFileError

UNFINISHED = ".unfinished"  # how the names of files end that are being written, or were when their process was killed
# a pipe without a writer would otherwise be waited for
READ_ONLY = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def check_file(path: Path, option: str = "--output") -> None:
    """Refuse a file that could not be written, before any work is done."""
    if path.is_dir():
        raise ValueError(f"{option} {str(path)!r} is a folder. Name a file.")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"{option} {str(path)!r} is in {str(path.parent)!r}, and there is no such folder. Make it "
                         "first, or name another.")
    if not can_write(folder):
        raise ValueError(f"{option} {str(path)!r} cannot be written: {str(folder)!r} cannot be written to. Name "
                         "another.")


def can_write(folder: Path) -> bool:
    """Say whether files can be made in a folder, by making one: rights alone do not tell, as of /sys for root."""
    with suppress(OSError), TemporaryDirectory(dir=folder, prefix=".unfinished-"):
        return True
    return False


def check_there(path: Path) -> None:
    """Refuse what is no file to be read: nothing, a folder, a pipe or a device."""
    if not path.is_file():
        raise ValueError(f"{str(path)!r} is a folder, a pipe or a device. Name a file; save what a pipe gives to one."
                         if path.exists() or str(path) == "-" else f"There is no file {str(path)!r}. Check the path.")


def read_toml(path: Path) -> Json:
    """Return what a TOML file holds; ValueError for one that is not valid, naming it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8. Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not valid TOML: {error}.") from None


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return the bytes of a regular file of at most ``max_bytes``; ModelFileError for any other, OSError as usual."""
    descriptor = os.open(path, READ_ONLY)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise ModelFileError(f"{path.name} is no regular file, but a folder, a pipe or a device. Copy what it gives to "
                             "a file first.")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > max_bytes:
            raise ModelFileError(f"{path.name} is {status.st_size:,} bytes. Expected at most max_bytes={max_bytes:,}.")
        content = file.read(status.st_size + 1)
    if len(content) > status.st_size:
        raise ModelFileError(f"{path.name} grew while it was read. Load it when it is complete.")
    return content


def write_bytes(path: Path, parts: Sequence[FilePart]) -> None:
    """Write the parts to ``path``, in place of the file that is there; an OSError names ``path``.

    Raises
    ------
    ModelFileError
        When the disk gives back other bytes than were written. The file that was there stays.
    """
    try:
        status = path.stat() if path.exists() else None  # a pipe of /dev/fd has no name that it could be opened by
        if status is None or stat.S_ISREG(status.st_mode):
            _replace(Path(os.path.realpath(path)), parts, None if status is None else stat.S_IMODE(status.st_mode))
        else:
            with path.open("wb") as file:
                file.writelines(parts)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


def replace_files(folder: Path, writers: Mapping[str, Callable[[Path], object]], own: Iterable[str]) -> list[Path]:
    """Write files by name into a folder, made if need be, each whole or not at all; returns their paths.

    Those of an earlier time, which are called as in ``own``, go before the first of these comes. An OSError names a
    path.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder, prefix=".unfinished-") as scratch:
            for name, write in writers.items():
                write(Path(scratch) / name)
            for name in own:
                (folder / name).unlink(missing_ok=True)
            for name in writers:
                os.replace(Path(scratch) / name, folder / name)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, error.filename or str(folder)) from None
    return [folder / name for name in writers]


def _replace(target: Path, parts: Sequence[FilePart], mode: int | None) -> None:
    """Write a temporary file beside ``target``, read it back, and move it there."""
    temporary = target.parent / f"{target.name}.{uuid4().hex}{UNFINISHED}"
    try:
        with temporary.open("xb") as file:
            file.writelines(parts)
            file.flush()
            if mode is not None:
                temporary.chmod(mode)
            os.fsync(file.fileno())
        with temporary.open("rb") as file:
            if any(file.read(len(part)) != part for part in parts) or file.read(1):
                raise ModelFileError(f"{target.name} was not written: the disk gives back other bytes. Save elsewhere.")
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the new name of the file survive a loss of power, where the system lets folders be synchronised."""
    with suppress(OSError):  # Windows opens no folders, and some network file systems sync none
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

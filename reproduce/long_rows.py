"""Commands of the claims pages that the check does not rerun: a line each, and whether its code has changed since."""

import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from reproduce.imported import files_of

CODE = ("src", "benchmarks", "reproduce")
TOPS = ("", "src/", "src/buttress/")  # where modules lie; the last held reproduce/ in older commits


@dataclass(frozen=True)
class Run:
    """A command as it was last run, and its seconds of processor time where they are stated."""

    date: str
    commit: str
    command: str
    seconds: str | None = None


@dataclass
class Code:
    """The files that commands import, and those changed since commits; each is looked up once."""

    root: Path
    imported: dict[str, frozenset[str] | str] = field(default_factory=dict)
    changed: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def since(self, run: Run) -> str:
        """Return in words whether a file that the command imports differs from that of its commit."""
        files = self.imported_by(run.command)
        changed = self.changed_since(run.commit)
        if changed is None:
            return f"unknown: {run.commit} is not in this checkout"
        if isinstance(files, str):
            return f"unknown: {files}"
        if not self._was_there(run):
            return f"unknown: its program was not there at {run.commit}"
        both = files & changed
        if not both:
            return f"unchanged since: none of the {len(files)} files that it imports"
        (room, count), *others = Counter(map(room_of, both)).most_common()
        most = f", {count} of them in {room}" if others else f", in {room}"
        return f"changed since: {len(both)} of the {len(files)} files that it imports{most}"

    def _was_there(self, run: Run) -> bool:
        """Say whether the script or module of a command was in its commit."""
        words = run.command.split()
        module = words[2].replace(".", "/") if words[1] == "-m" else ""
        names = [f"{top}{module}{end}" for top in TOPS for end in (".py", "/__main__.py")] if module else [words[1]]
        return any(_git(self.root, "cat-file", "-e", f"{run.commit}:{name}") is not None for name in names)

    def imported_by(self, command: str) -> frozenset[str] | str:
        """Return the files that a command imports, or why they cannot be told; commands of one program share them."""
        words = command.split()
        program = " ".join(words[:3 if words[1:2] == ["-m"] else 2])
        if program not in self.imported:
            self.imported[program] = files_of(program, self.root)
        return self.imported[program]

    def changed_since(self, commit: str) -> frozenset[str] | None:
        """Return the files of code that differ from those of a commit, None where there is no such commit."""
        if commit not in self.changed:
            names = _git(self.root, "diff", "--name-only", "--no-renames", commit, "--", *CODE)
            self.changed[commit] = None if names is None else frozenset(names.splitlines())
        return self.changed[commit]


def _git(root: Path, *words: str) -> str | None:
    """Return what git prints in a checkout, None where it fails."""
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return None if done.returncode else done.stdout


def room_of(file: str) -> str:
    """Return the room that a file of the package is in; for other files their folder."""
    folders = Path(file.removeprefix("src/buttress/")).parts[:-1]
    return folders[0] if folders else "the package's own files"


def lines(rows: Mapping[Run, Iterable[str]], root: Path) -> Iterator[str]:
    """Yield a line a command: date, commit, the rows that state it, the command, and what has changed since."""
    code = Code(root)
    for run, places in rows.items():
        took = f" {run.seconds} s" if run.seconds else ""
        yield f"{run.date} {run.commit}{took} {short(places)}: {run.command}: {code.since(run)}"


def short(places: Iterable[str]) -> str:
    """Return places such as one.md:3, one.md:4 as one.md:3,4."""
    numbers: dict[str, list[str]] = {}
    for place in places:
        page, _, number = place.partition(":")
        numbers.setdefault(page, []).append(number)
    return " ".join(f"{page}:{','.join(found)}" for page, found in numbers.items())

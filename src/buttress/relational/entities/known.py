"""Features that are made anew where the rows they are made of have changed, and the file that says where.

The features of an entity that are of one table follow from its date and from the set of rows that it sees: of each the
columns in use and the time. So a file holds, by table, what stands for that set (a number of rows and a sum of hashes),
the date, and the features. Whoever has the same date and the same set, by the same declaration, has the same features.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from buttress import __version__
from buttress._checks import Array
from buttress._suggest import brief
from buttress.files.container import ModelFileError, pack, unpack
from buttress.files.disk import check_file, write_bytes
from buttress.relational.entities.database import InDatabase
from buttress.relational.entities.features import Feature
from buttress.relational.plan.plan import Index


class Held(NamedTuple):
    """Of one table: by what features were made, what stands for the rows that each entity saw, and the features."""

    stated: str
    seen: Array
    values: Array


@dataclass
class KnownFeatures:
    """Features of an earlier run in the file at ``path``, if there is one; ``anew`` counts the entities made anew."""

    path: Path
    anew: int = 0

    @classmethod
    def at(cls, path: object) -> "KnownFeatures":
        """Return those at a path; ValueError where nothing could be written there in the end."""
        if not isinstance(path, str | Path):
            raise ValueError(f"known must be the path of a file. Got {brief(path)}.")
        check_file(Path(path), "known")
        return cls(Path(path))

    def values(self, made: InDatabase, features: Sequence[Feature], centers: Mapping[str, float]) -> Array:
        """Return the features' values, shape (n, n_features), as ``made.values`` does, and write them to the file.

        What the file holds is taken where its release, its database, the features of a table with what was learned of
        them, and the rows that an entity sees are all the same. Raises ModelFileError for a file that was changed.
        """
        before = self._read()
        held = {}
        values = np.zeros((len(next(iter(made.asked.values())).null), len(features)))
        changed = np.zeros(len(values), dtype=bool)
        for table, seen in made.seen(features).items():
            here = np.flatnonzero([feature.table == table for feature in features])
            mine = [feature for feature in features if feature.table == table]
            learned = [(*astuple(feature), centers.get(feature.source)) for feature in mine]
            stated = json.dumps([__version__, made.place.dialect.name, made.day, learned])
            known = before.get(table, Held("", seen[:0], values[:0, here]))
            if known.stated != stated:
                known = Held(stated, seen[:0], values[:0, here])
            old, place = _places(seen, known.seen)
            values[np.ix_(old, here)] = known.values[place]
            new = np.setdiff1d(np.arange(len(seen)), old)
            if len(new):
                values[np.ix_(new, here)] = made.some(new).values(mine, centers)
            changed[new] = True
            held[table] = Held(stated, seen, values[:, here])
        self.anew = int(changed.sum())
        arrays = [array for table in held.values() for array in (table.seen, table.values)]
        write_bytes(self.path, pack({name: table.stated for name, table in held.items()}, arrays, {}))
        return values

    def _read(self) -> dict[str, Held]:
        if not self.path.exists():
            return {}
        try:
            content = unpack(self.path.name, self.path.read_bytes())
            pairs = zip(content.arrays[::2], content.arrays[1::2], strict=True)
            stated = dict(content.model)  # type: ignore[call-overload]
            return {table: Held(stated[table], *pair) for table, pair in zip(stated, pairs, strict=True)}
        except ValueError as error:
            raise ModelFileError(f"{error} Delete {self.path.name}: all features are then made anew.") from None


def _places(now: Array, then: Array) -> tuple[Index, Index]:
    """Return which rows of ``now`` there are in ``then``, and where."""
    places = {row.tobytes(): i for i, row in enumerate(then)}
    found = np.array([places.get(row.tobytes(), -1) for row in now], dtype=np.intp)
    return np.flatnonzero(found >= 0), found[found >= 0]

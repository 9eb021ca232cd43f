"""The classes of a text file as it has them: yes, TRUE or 01 where a reader says True, True or 1."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from buttress.audit.reading.source import NULLS, csv_options, kind_of, packing, unpacked


def texts_of(source: str, target: str, file_format: str | None, y: Any) -> dict[str, str]:
    """Return the commonest text of each class of the column ``y``, which was read from ``target`` of a file.

    Empty for what is no text file, and for columns that were read as text.
    """
    values = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if kind_of(source, file_format) != "csv" or values.dtype.kind not in "biuf":
        return {}
    import polars as pl

    path = Path(source)
    options = {**csv_options(path), "infer_schema": False, "null_values": NULLS}
    options.pop("decimal_comma", None)
    options.pop("infer_schema_length", None)
    frame = pl.read_csv(path if packing(path) is None else unpacked(path).read(), **options)
    counts: dict[str, Counter[str]] = {}
    for value, text in zip(values.tolist(), frame[target].to_list(), strict=True):
        if text is not None:
            counts.setdefault(str(value), Counter())[text.strip()] += 1
    return {value: found.most_common(1)[0][0] for value, found in counts.items()}

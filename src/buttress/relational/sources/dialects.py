"""How the three databases spell things: quoting, the type of a double, literals. Nothing here runs a query.

sqlglot 30 hands on what it does not know in DuckDB's SQL (microseconds, collation, hashes, types) without an error;
our ``to_sql()``, its translation mended by hand, gave equal numbers in PostgreSQL. Ibis 12 (37 MB with sqlglot, .45 s
to import) has no collation and sets the time zone of a session where only SELECT may go. So neither replaces this.
"""

from collections.abc import Sequence
from dataclasses import dataclass

BETWEEN = "\x1f"  # stands between values that are listed in one text
ABSENT = "\x1e"  # stands there for NULL


@dataclass(frozen=True)
class Dialect:
    """How one database spells what the others spell differently.

    ``mark`` quotes identifiers; ``double`` is the 64-bit float; ``random`` is in [0, 1); ``backslash`` says that it
    escapes in text; ``type_of`` is a value's type as text; ``quantile`` interpolates; ``moment`` makes of a time
    microseconds since 1970 and fails at infinity; ``array`` makes of numbers one value, ordered by the first, then the
    second, and ``item`` reads one; ``local`` is a time without a time zone, ``instant`` one with it; ``hashed``
    makes of values a whole number of 64 bits, mixed so that sums tell rows apart.
    """

    name: str
    mark: str
    double: str
    random: str = "random()"
    backslash: bool = False
    text_type: str = "VARCHAR"
    type_of: str = "typeof({})"
    quantile: str = "quantile_cont({1}, {0})"
    moment: str = "CAST(CASE WHEN isinf({0}) THEN error('a date is infinity') ELSE epoch_us({0}) END AS DOUBLE)"
    array: str = "row({})"
    item: str = "({})[{}]"
    split: str = ""
    local: str = "TIMESTAMP"
    instant: str = "TIMESTAMP WITH TIME ZONE"
    hashed: str = ""

    def quote(self, identifier: str) -> str:
        """Return the identifier quoted, whatever characters it has; a NUL character is refused.

        >>> DUCKDB.quote('select "x"; --'), SPARK.quote("a`b")
        ('"select ""x""; --"', '`a``b`')
        """
        if not isinstance(identifier, str) or not identifier:
            raise ValueError(f"A name must be a non-empty string. Got {identifier!r}.")
        if "\0" in identifier:
            raise ValueError(f"The name {identifier!r} holds a NUL character, which no database can quote. Rename it.")
        return self.mark + identifier.replace(self.mark, self.mark * 2) + self.mark

    def fold(self, name: str) -> str:
        """Return what the database compares a column's name by: in any case but PostgreSQL's, DuckDB's A to Z alone."""
        if self.name == "PostgreSQL":
            return name
        return name.lower() if self.name == "Spark" else name.encode().lower().decode()

    def table(self, name: str | tuple[str, ...]) -> str:
        """Return a table name quoted; a tuple is (schema, table) or (catalog, schema, table)."""
        return ".".join(self.quote(part) for part in ((name,) if isinstance(name, str) else name))

    def number(self, value: float) -> str:
        """Return a float as a literal that reads back as the same 64-bit float."""
        return f"CAST('{float(value)!r}' AS {self.double})"

    def typed(self, value: str, kind: str) -> str:
        """Return a literal of the type that ``type_of`` named, from the text of its value."""
        return f"CAST({self.text(value)} AS {UNBOUNDED.get(kind, kind)})"

    def listed(self, columns: Sequence[Sequence[str | None]]) -> str:
        """Return PostgreSQL's or Spark's SELECT of rows of text that are given here, columns v0, v1, ... of one length.

        Raises ValueError for values with the control characters that stand between values and for NULL.
        """
        if any(value is not None and (BETWEEN in value or ABSENT in value) for column in columns for value in column):
            raise ValueError("A key holds the control characters 0x1e or 0x1f. Correct it, or use engine='memory'.")
        texts = [self.text(BETWEEN.join(ABSENT if value is None else value for value in column)) for column in columns]
        names = [f"v{j}" for j in range(len(columns))]
        split = [self.split.format(text, BETWEEN) for text in texts]
        if self.name == "PostgreSQL":
            rows = f"SELECT * FROM unnest({', '.join(split)}) AS q({', '.join(names)})"
        else:
            rows = f"SELECT inline(arrays_zip({', '.join(split)})) AS ({', '.join(names)})"
        return f"SELECT {', '.join(f'NULLIF({name}, {self.text(ABSENT)}) AS {name}' for name in names)} FROM ({rows}) r"

    def text(self, value: str) -> str:
        """Return a string literal."""
        if "\0" in value:
            raise ValueError(f"The value {value!r} holds a NUL character, which no database can quote.")
        if self.name == "PostgreSQL" and "\\" in value:  # read alike whatever standard_conforming_strings says
            return "E'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
        value = value.replace("\\", "\\\\") if self.backslash else value
        return "'" + (value.replace("'", "\\'") if self.backslash else value.replace("'", "''")) + "'"


DUCKDB = Dialect("DuckDB", '"', "DOUBLE", hashed="CAST(hash(hash({})) AS HUGEINT)")
POSTGRES = Dialect("PostgreSQL", '"', "DOUBLE PRECISION", text_type="TEXT", type_of="CAST(pg_typeof({}) AS TEXT)",
                   quantile="percentile_cont({0}) WITHIN GROUP (ORDER BY {1})",
                   moment="CAST(CAST(EXTRACT(EPOCH FROM {}) * 1000000 AS BIGINT) AS DOUBLE PRECISION)",
                   array="ARRAY[{}]", split="string_to_array({}, '{}')",
                   hashed="hashtextextended(CAST(hash_record_extended(ROW({}), 0) AS TEXT), 0)")
SPARK = Dialect("Spark", "`", "DOUBLE", "rand()", backslash=True, text_type="STRING", quantile="percentile({1}, {0})",
                moment="CAST(timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', "
                       "CAST({} AS TIMESTAMP_NTZ)) AS DOUBLE)", array="array({})", item="element_at({}, {})",
                split="split({}, '{}')", local="TIMESTAMP_NTZ", instant="TIMESTAMP")
UNBOUNDED = {"character": "bpchar", "bit": "bit varying"}  # PostgreSQL's types that cut a literal without a length


def dialect_of(connection: object) -> Dialect:
    """Return the dialect a connection uses, found by the module of its type."""
    for kind in type(connection).__mro__:
        package = kind.__module__.split(".")[0].lstrip("_")
        if package in ("duckdb", "psycopg", "pyspark"):
            return {"duckdb": DUCKDB, "psycopg": POSTGRES, "pyspark": SPARK}[package]
    raise ValueError(f"A connection must be one of DuckDB, psycopg or Spark. Got {type(connection).__name__}. "
                     "Read the table into a frame, such as by pandas.read_sql, and give that.")


def is_zoned(kind: object) -> bool:
    """Say whether a type of DuckDB has a time zone: TIMESTAMP WITH TIME ZONE, or TIMESTAMPTZ_NS."""
    return "WITH TIME ZONE" in str(kind) or "TZ" in str(kind)

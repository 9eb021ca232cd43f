"""How the three databases spell things: quoting, the type of a double, literals. Nothing here runs a query."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """How one database spells what the others spell differently.

    ``mark`` quotes identifiers; ``double`` is the 64-bit float; ``extra`` installs the driver; ``random`` gives a
    number in [0, 1); ``backslash`` says that text literals escape by a backslash.
    """

    name: str
    mark: str
    double: str
    extra: str
    random: str = "random()"
    backslash: bool = False

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

    def table(self, name: str | tuple[str, ...]) -> str:
        """Return a table name quoted; a tuple is (schema, table) or (catalog, schema, table)."""
        return ".".join(self.quote(part) for part in ((name,) if isinstance(name, str) else name))

    def number(self, value: float) -> str:
        """Return a float as a literal that reads back as the same 64-bit float."""
        return f"CAST('{float(value)!r}' AS {self.double})"

    def text(self, value: str) -> str:
        """Return a string literal."""
        if "\0" in value:
            raise ValueError(f"The value {value!r} holds a NUL character, which no database can quote.")
        value = value.replace("\\", "\\\\") if self.backslash else value
        return "'" + (value.replace("'", "\\'") if self.backslash else value.replace("'", "''")) + "'"


DUCKDB = Dialect("DuckDB", '"', "DOUBLE", "duckdb")
POSTGRES = Dialect("PostgreSQL", '"', "DOUBLE PRECISION", "postgres")
SPARK = Dialect("Spark", "`", "DOUBLE", "spark", "rand()", backslash=True)


def dialect_of(connection: object) -> Dialect:
    """Return the dialect a connection uses, found by the module of its type."""
    for kind in type(connection).__mro__:
        package = kind.__module__.split(".")[0].lstrip("_")
        if package in ("duckdb", "psycopg", "pyspark"):
            return {"duckdb": DUCKDB, "psycopg": POSTGRES, "pyspark": SPARK}[package]
    raise ValueError(f"A connection must be one of DuckDB, psycopg or Spark. Got {type(connection).__name__}. "
                     "Read the table into a pandas, polars or Arrow frame and give that.")

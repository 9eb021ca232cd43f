"""What evidence says, and what each statement rests on."""

from dataclasses import asdict, dataclass, field

from buttress.verify.core import Model


@dataclass(frozen=True)
class Statement:
    """One sentence of a folder of evidence.

    Parameters
    ----------
    kind : {"proven", "measured", "declared"}
        Proven again from the files by ``buttress-verify``; seen on some rows; or said by the person who wrote it.
    name : str
        Short, such as "accuracy".
    value : float or None
    says : str
        The sentence.
    rests_on : dict
        Of what is proven the ``file`` of the certificate, and which ``value`` follows ``at`` which number; of what is
        measured the ``rows``, ``interval``, ``seed`` and ``by``.
    """

    kind: str
    name: str
    value: float | None
    says: str
    rests_on: Model = field(default_factory=dict)

    def to_dict(self) -> Model:
        """Return it as plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Proven:
    """What a kind of proof came to: statements with their files, or why there are none; and the radii of rows."""

    statements: list[Statement]
    files: dict[str, bytes]
    why_not: str = ""
    radius: list[float | None] = field(default_factory=list)

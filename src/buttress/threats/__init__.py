"""What an attacker may do to a row: declared once, obeyed by attacks and proofs.

A :class:`ThreatModel` names columns. Attacks and certificates read it against their rows (:func:`read_threat`), which
gives :class:`Moves` of columns by place.
"""

from buttress.threats.declared import Budget, ThreatModel, check_threat, deviations
from buttress.threats.moves import BallInBox, Moves, Way, at_places, read_threat, region_of

__all__ = ["BallInBox", "Budget", "Moves", "ThreatModel", "Way", "at_places", "check_threat", "deviations",
           "read_threat", "region_of"]

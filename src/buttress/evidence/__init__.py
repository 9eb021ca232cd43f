"""Evidence on a fitted model: what is proven, measured and declared, in a folder that ``buttress-verify`` rechecks."""

from buttress.evidence.call import write_evidence
from buttress.evidence.folder import EvidenceReport, Statement

__all__ = ["EvidenceReport", "Statement", "write_evidence"]

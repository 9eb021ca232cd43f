"""What an audit measures, in order of importance: the first that there is no time for ends it."""

from buttress.audit.measurements.attacked import ATTACKED, MOVED
from buttress.audit.measurements.columns import ASSOCIATIONS, COLUMNS, DRIFTED, PRECISION
from buttress.audit.measurements.scores import AS_IS, CORRUPTED, NOVEL, REPEATED
from buttress.audit.measurements.targets import GAINED, JUDGED, LABELS
from buttress.audit.measuring.measurement import Measurement

MEASUREMENTS: tuple[Measurement, ...] = (COLUMNS, AS_IS, ATTACKED, MOVED, JUDGED, NOVEL, CORRUPTED, GAINED, LABELS,
                                         PRECISION, DRIFTED, ASSOCIATIONS, REPEATED)

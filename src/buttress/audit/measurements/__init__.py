"""What an audit measures, a file each, in order of importance: the first that there is no time for ends it."""

from buttress.audit.measurements.as_is import AS_IS
from buttress.audit.measurements.associations import ASSOCIATIONS
from buttress.audit.measurements.attacked import ATTACKED
from buttress.audit.measurements.columns import COLUMNS
from buttress.audit.measurements.corrupted import CORRUPTED
from buttress.audit.measurements.drifted import DRIFTED
from buttress.audit.measurements.gained import GAINED
from buttress.audit.measurements.judged import JUDGED
from buttress.audit.measurements.labels import LABELS
from buttress.audit.measurements.moved import MOVED
from buttress.audit.measurements.novel import NOVEL
from buttress.audit.measurements.precision import PRECISION
from buttress.audit.measurements.repeated import REPEATED
from buttress.audit.measuring.measurement import Measurement

MEASUREMENTS: tuple[Measurement, ...] = (COLUMNS, AS_IS, ATTACKED, MOVED, JUDGED, NOVEL, CORRUPTED, GAINED, LABELS,
                                         PRECISION, DRIFTED, ASSOCIATIONS, REPEATED)

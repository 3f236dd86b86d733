"""Rules about services between NI and host: one kernel for each sort of them, given all its rows at some nodes."""

from lethe.spec.events import Unit

from .flow import FLOW, STREAMS, followed
from .loop import LOOP
from .service import COLUMNS, Audited, ServiceRows

__all__ = ["AUDITED", "COLUMNS", "STREAMS", "Audited", "ServiceRows", "followed"]

#: The services whose rows have rules.
AUDITED: dict[Unit, Audited] = {Unit.LOOP: LOOP, Unit.FLOW: FLOW}

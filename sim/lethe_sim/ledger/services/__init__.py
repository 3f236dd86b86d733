"""Rules about services between NI and host: one kernel for each sort of them, given all its rows at some nodes."""

from collections.abc import Mapping

from lethe.spec.events import Unit

from .flow import FLOW, STREAMS, followed
from .loop import LOOP
from .relay import HOPS, POSTS, RELAY, posted, replayed
from .service import COLUMNS, Audited, ServiceRows

__all__ = ["AUDITED", "COLUMNS", "FACTS", "Audited", "ServiceRows", "followed", "posted", "replayed"]

#: The services whose rows have rules.
AUDITED: dict[Unit, Audited] = {Unit.LOOP: LOOP, Unit.FLOW: FLOW, Unit.RELAY: RELAY}
#: What nodes have with each other by their services: name → columns.
FACTS: dict[str, Mapping[str, type]] = {"streams": STREAMS, "posts": POSTS, "hops": HOPS}

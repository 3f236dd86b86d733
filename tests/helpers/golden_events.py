"""What the events of a golden run are about."""

import numpy as np

from lethe.spec.events import Event


def message(kinds):
    """The kind of message behind each event, whichever side saw it."""
    sends, acks = (Event.SEND, Event.DELIVER, Event.DUPLICATE), (Event.ACK, Event.RELEASE, Event.ACK_IGNORED)
    return np.where(np.isin(kinds, sends), 1, np.where(np.isin(kinds, acks), 2, 3)).tolist()

"""What the host sets (section 9.4): which ports are bound, and their limits."""

from enum import IntEnum

from lethe_sim.golden.compile import apart, jit

from .congestion import weigh_port
from .state import port_at


class Setting(IntEnum):
    """Codes of `set`."""

    UNBIND = 0
    BIND = 1
    RECEIVE_LIMIT = 2
    SEND_LIMIT = 3


class Error(IntEnum):
    """Why nothing was set."""

    NONE = 0
    BOUND = 1  # it is bound already
    OCCUPIED = 2  # messages to its last number wait
    INDEX = 3  # the number is of another index, or there is no such index


#: A limit counts so many bytes.
UNIT = 16


@jit
def error(flow, port):
    """`Error` of what is offered on `set`."""
    offered = port.drives
    if offered.set_index >= flow.ports:
        return Error.INDEX
    if offered.set_code != Setting.BIND:
        return Error.NONE
    if port_at(flow, offered.set_index).bound:
        return Error.BOUND
    if flow.readable_before >> offered.set_index & 1:
        return Error.OCCUPIED
    return Error.INDEX if offered.set_value & flow.port_mask != offered.set_index else Error.NONE


@apart
def act(s, flow):
    """The job."""
    offered = s.above.drives
    if error(flow, s.above) != Error.NONE:
        return
    port = port_at(flow, offered.set_index)
    if offered.set_code == Setting.UNBIND:
        port.bound = 0
    elif offered.set_code == Setting.BIND:
        port.bound, port.number = 1, offered.set_value
    elif offered.set_code == Setting.RECEIVE_LIMIT:
        port.receive_limit = UNIT * offered.set_value
    else:
        port.send_limit = UNIT * offered.set_value
    weigh_port(flow, offered.set_index)

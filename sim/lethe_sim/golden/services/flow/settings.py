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
def begin(s, flow):
    """The setting that is offered is kept; the job does this one, whatever is offered later."""
    offered = s.above.drives
    flow.set_code, flow.set_index, flow.set_value = offered.set_code, offered.set_index, offered.set_value


@jit
def error(flow):
    """`Error` of the setting that is kept."""
    if flow.set_index >= flow.ports:
        return Error.INDEX
    if flow.set_code != Setting.BIND:
        return Error.NONE
    if port_at(flow, flow.set_index).bound:
        return Error.BOUND
    if flow.readable_before >> flow.set_index & 1:
        return Error.OCCUPIED
    return Error.INDEX if flow.set_value & flow.port_mask != flow.set_index else Error.NONE


@apart
def act(flow):
    """The job."""
    if error(flow) != Error.NONE:
        return
    port = port_at(flow, flow.set_index)
    if flow.set_code == Setting.UNBIND:
        port.bound = 0
    elif flow.set_code == Setting.BIND:
        port.bound, port.number = 1, flow.set_value
    elif flow.set_code == Setting.RECEIVE_LIMIT:
        port.receive_limit = UNIT * flow.set_value
    else:
        port.send_limit = UNIT * flow.set_value
    weigh_port(flow, flow.set_index)

"""Who may change the tables in a cycle: a data message, a credit, or a step of the job under way (section 9)."""

from lethe_sim.golden.compile import jit
from lethe_sim.golden.state import AHEAD

from .state import Job, journal_has_room

# After a data message acts no VOID does in so many cycles.
_QUIET = 2


@jit
def data_acts(flow, cycle):
    """Whether a data message acts in ``cycle``, this one or one of the next four."""
    return flow.acts >> (cycle & AHEAD - 1) & 1


@jit
def credit_acts(flow, cycle):
    """Whether the credit of a message acts."""
    return flow.settle_at == cycle


@jit
def may_act(flow, cycle):
    """Whether a job may make a step in ``cycle``."""
    return not (data_acts(flow, cycle) or data_acts(flow, cycle + 1) or credit_acts(flow, cycle))


@jit
def job_acts(flow, cycle):
    """Whether the job that is under way makes a step in ``cycle``."""
    if flow.job == Job.NONE or cycle < flow.job_at or not may_act(flow, cycle):
        return False
    if not flow.job_waits:
        return True
    return journal_has_room(flow, cycle) and (flow.job != Job.CONTROL or cycle > flow.data_acted_at + _QUIET)


@jit
def quiet_from(flow):
    """The first quiet cycle, if neither a job nor a credit acts any more."""
    return max(flow.acted_at + 3, flow.credited_at + 2)


@jit
def quiet(flow, cycle):
    """Whether neither a job nor a credit acts in ``cycle`` or did in the cycle before, nor a job in that before it."""
    if cycle < quiet_from(flow):
        return False
    return not (job_acts(flow, cycle) or credit_acts(flow, cycle))

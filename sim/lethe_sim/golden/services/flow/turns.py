"""Who may change the tables in a cycle: a data message, a credit, or a step of the job under way (section 9)."""

from lethe_sim.golden.compile import jit
from lethe_sim.golden.state import AHEAD

from .state import Job, journal_has_room


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
    return not flow.job_waits or journal_has_room(flow, cycle)

"""Limits of out streams: what a credit makes of one (contract of flow, section 6)."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.spec.sections.flow import WINDOW

from .layouts import COUNT_BITS, LIMIT_BITS, NUMBER_BITS, Layouts, at_most

__all__ = ["Limits"]


class Limits(wiring.Component):
    """Whether a credit raises the limit of its stream: that of a message's header, or of a WINDOW.

    Parameters
    ----------
    layouts : of the configuration

    Members
    -------
    credit_next, credit_coming, credit_acts, credit_heard : In
        A message's credit acts in the next cycle, and its value; it acts; its peer is CONNECTING or UP.
    job_raises, job_credit : In
        In other cycles: a job's credit acts; its value, which is there in the cycle before, too.
    numbers : In
        The out stream's.
    raises, raised_left, raised_limit, raised_stuck : Out
        The limit is raised; ``left``, ``limit`` and ``stuck`` of the numbers then.
    """

    def __init__(self, layouts: Layouts):
        super().__init__(
            {
                "credit_next": In(1), "credit_coming": In(NUMBER_BITS), "credit_acts": In(1), "credit_heard": In(1),
                "job_raises": In(1), "job_credit": In(NUMBER_BITS), "numbers": In(layouts.numbers),
                "raises": Out(1), "raised_left": Out(COUNT_BITS), "raised_limit": Out(LIMIT_BITS),
                "raised_stuck": Out(1),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        numbers = self.numbers
        credit, beyond, above = Signal(NUMBER_BITS), Signal(NUMBER_BITS), Signal(LIMIT_BITS)
        m.d.sync += credit.eq(Mux(self.credit_next, self.credit_coming, self.job_credit))
        m.d.comb += [
            # The limit is not before the next number: a credit at most 16 beyond this is at most 16 beyond the limit.
            beyond.eq(credit - numbers.next),
            above.eq(credit - numbers.limit),
            self.raises.eq(
                Mux(self.credit_acts, self.credit_heard, self.job_raises)
                & at_most(beyond, WINDOW)
                & (above.any() & ~above[-1])
            ),
            self.raised_left.eq(beyond),
            self.raised_limit.eq(credit),
            self.raised_stuck.eq(numbers.open[-1]),
        ]
        return m

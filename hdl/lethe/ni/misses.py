"""Counts of what went wrong in a row (cycle contract, sections 4.14 and 4.20)."""

from itertools import pairwise

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from lethe.lib.memory import Ram

from .walk import clear_signature

__all__ = ["Misses"]


class Misses(wiring.Component):
    """For each of some things a count of misses since the last answer, up to a limit.

    The counts are in a memory, read and written one event a cycle; two counts are on their way there.

    Parameters
    ----------
    most : the limit
    places : how many counts

    Members
    -------
    clear : In(`clear_signature`)
        Zero a count.
    valid, answer, index : In
        In *c*: a miss, or an answer.
    told, told_index, all : Out
        In *c+4*: there was an event; of what; its count is the limit.
    """

    def __init__(self, most: int, places: int):
        self._most, self._places = most, places
        super().__init__(
            {
                "clear": In(clear_signature(range(places))),
                "valid": In(1),
                "answer": In(1),
                "index": In(range(places)),
                "told": Out(1),
                "told_index": Out(range(places)),
                "all": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        most, places = self._most, self._places
        m.submodules.counts = counts = Ram(range(most + 1), places)

        # c+1: the count is read; c+3: it is shown, and written; c+4: it is told.  What the two events before have
        # written then was not there when the count was read.
        event = data.StructLayout({"valid": 1, "answer": 1, "index": range(places)})
        heard = [Signal(event, name=f"heard{cycles}") for cycles in range(1, 5)]
        first, second, third, last = heard
        m.d.sync += [
            *(first[name].eq(getattr(self, name)) for name in event.members),
            *(after.eq(earlier) for earlier, after in pairwise(heard)),
        ]
        old, count, last_count, count_before = (
            Signal(range(most + 1), name=n) for n in ("old", "count", "last_count", "count_before")
        )
        from_last, from_before = Signal(), Signal()
        m.d.sync += [
            from_last.eq(third.valid & (third.index == second.index)),
            from_before.eq(last.valid & (last.index == second.index)),
            last_count.eq(count),
            count_before.eq(last_count),
        ]
        m.d.comb += [
            counts.read_addr.eq(first.index),
            old.eq(Mux(from_last, last_count, Mux(from_before, count_before, counts.read_data))),
            count.eq(Mux(third.answer, 0, Mux(old == most, most, old + 1))),
            counts.write_addr.eq(Mux(self.clear.valid, self.clear.index, third.index)),
            counts.write_data.eq(Mux(self.clear.valid, 0, count)),
            counts.write_en.eq(self.clear.valid | third.valid),
            self.told.eq(last.valid),
            self.told_index.eq(last.index),
            self.all.eq(last_count == most),
        ]
        return m

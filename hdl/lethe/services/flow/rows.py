"""What is known of the datagrams below, by their slots, and the merge port (contract of flow, sections 4 and 8)."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.host import host_records
from lethe.lib.table import Words
from lethe.spec.services.flow import MERGED, Code

from .bits import SharedBits
from .layouts import LEAST_CREDIT, NUMBER_BITS, Layouts, ahead
from .ports import MOST_ROOM

__all__ = ["Rows"]


class Rows(wiring.Component):
    """A row for each slot of the NI.

    Parameters
    ----------
    layouts : of the configuration

    Members
    -------
    accepted, merge : In
        Of the port below.
    transfer_row, control_row, control_carries : In
        What is known of the data datagram, and of the control datagram, that the NI accepts next; the latter
        carries a credit.
    merge_stream, merge_expected : Out, In
        In *g+1*: an in stream; in *g+3* the number expected on it as of the start of *g+2*.
    offer_port, offer_room : Out, In
        In *g+1* a port; in *g+3* half of its free cells, at most 14.
    merged_node, merged_open : Out, In(1)
        In *g+4*: the node of an in stream, and in that cycle whether that source is not closed.
    merge_word, merge_mask : Out
        In *g+4*.
    ended_slot, ended_row, ended_control, ended_carried, ended_credit : In, Out, Out, Out, Out
        The row of a slot, in this very cycle, and the least that its datagram carried.
    looked_slot, looked_node, looked_lives, looked_life : In, Out, Out, Out
        Of a slot, in this very cycle: the peer; whether its datagram is under way and counts in live; what names it.
    renewed : Out(1)
        In this cycle the NI accepts a datagram of control in ``looked_slot``: its peer is that of ``control_row``.
    row_ends, gone_slot, row_forgets, forgotten_slot : In
        The datagram of ``gone_slot`` has ended; that of ``forgotten_slot`` carried nothing.
    clear, clear_addr : In
        The walk after a reset.
    """

    def __init__(self, layouts: Layouts):
        self._layouts = layouts
        of = layouts
        records = host_records(of.system, of.below)
        super().__init__(
            {
                "accepted": In(records["accepted"]), "merge": In(records["merge"]),
                "transfer_row": In(of.row), "control_row": In(of.control_row), "control_carries": In(1),
                "merge_stream": Out(of.stream_bits), "merge_expected": In(NUMBER_BITS),
                "offer_port": Out(of.port_bits), "offer_room": In(range(MOST_ROOM + 1)),
                "merged_node": Out(of.node_bits), "merged_open": In(1),
                "merge_word": Out(MERGED), "merge_mask": Out(MERGED),
                "ended_slot": In(of.slot_bits), "ended_row": Out(of.row), "ended_control": Out(of.control_row),
                "ended_carried": Out(1), "ended_credit": Out(NUMBER_BITS),
                "looked_slot": In(of.slot_bits), "looked_node": Out(of.node_bits), "looked_lives": Out(1),
                "looked_life": Out(records["cancel"]), "renewed": Out(1),
                "row_ends": In(1), "gone_slot": In(of.slot_bits),
                "row_forgets": In(1), "forgotten_slot": In(of.slot_bits),
                "clear": In(1), "clear_addr": In(range(of.initial)),
            }
        )  # fmt: skip

    def elaborate(self, platform):
        m = Module()
        of, form = self._layouts, self._layouts.system.format
        data_slots, controls = of.data_slots, of.slots - of.data_slots
        accepted, control_row = self.accepted, self.control_row
        m.submodules.rows = rows = Words(of.row, data_slots, ("merged", "ended", "looked"))
        m.submodules.control_rows = control_rows = Words(of.control_row, controls, ("ended", "looked"))
        m.submodules.credits = credits = Words(NUMBER_BITS, data_slots, ("ended", "merged"))
        m.submodules.lives = generations = Words(form.generation_bits, of.slots, ("looked",))

        def behind(slot):
            """A control slot's number among them."""
            return (slot - data_slots)[: len(control_rows.write_addr)]

        m.d.comb += [
            rows.write_en.eq(accepted.valid & ~accepted.control),
            rows.write_addr.eq(accepted.slot),
            rows.write.eq(self.transfer_row),
            control_rows.write_en.eq(accepted.valid & accepted.control),
            control_rows.write_addr.eq(behind(accepted.slot)),
            control_rows.write.eq(control_row),
            generations.write_en.eq(accepted.valid),
            generations.write_addr.eq(accepted.slot),
            generations.write.eq(accepted.generation),
            rows.ended_addr.eq(self.ended_slot),
            control_rows.ended_addr.eq(behind(self.ended_slot)),
            self.ended_row.eq(rows.ended),
            self.ended_control.eq(control_rows.ended),
        ]

        # Merge.
        row = rows.merged
        seen = [Signal(name=f"merged{i}") for i in (2, 3, 4)]
        data_slot = [Signal(name=f"data_slot{i}") for i in (2, 3, 4)]
        again = [Signal(name=f"again{i}") for i in (2, 3, 4)]
        node = [Signal(of.node_bits, name=f"node{i}") for i in (2, 3, 4)]
        slot = [Signal(of.slot_bits, name=f"slot{i}") for i in (2, 3, 4)]
        credit, ack = Signal(NUMBER_BITS), Signal(NUMBER_BITS - 1)
        expected = self.merge_expected
        m.d.comb += [
            rows.merged_addr.eq(self.merge.slot),
            self.merge_stream.eq(of.stream(row.node, row.q)),
            self.offer_port.eq(row.q),
        ]
        for stages, first in (
            (seen, self.merge.valid), (data_slot, self.merge.slot < data_slots), (again, self.merge.tries.any()),
            (node, row.node), (slot, self.merge.slot),
        ):  # fmt: skip
            m.d.sync += [stage.eq(before) for stage, before in zip(stages, (first, *stages), strict=False)]
        m.d.sync += [
            credit.eq(expected + LEAST_CREDIT + self.offer_room),
            ack.eq(expected),
        ]
        merged = seen[2] & data_slot[2]
        m.d.comb += [
            self.merge_word.eq(Cat(credit, ack, again[2])),
            self.merge_mask.eq(Mux(merged, Const(-1, MERGED), 0)),
            # Of the copies of a datagram the least counts: an Ack does not say which of them it is for.
            credits.merged_addr.eq(slot[2]),
            credits.write_en.eq(merged & (~again[2] | ahead(credits.merged, credit))),
            credits.write_addr.eq(slot[2]),
            credits.write.eq(credit),
            credits.ended_addr.eq(self.ended_slot),
            self.ended_credit.eq(credits.ended),
        ]

        # Under way, and what it carried.
        m.submodules.under_way = under_way = SharedBits(of.slots, ("accepted", "ended"), ("looked",))
        m.submodules.carried = carried = SharedBits(of.slots, ("accepted", "merged", "forgotten"), ("before", "told"))
        for bits in (under_way, carried):
            m.d.comb += [
                bits.clear.eq(self.clear & (self.clear_addr < of.slots)),
                bits.clear_addr.eq(self.clear_addr),
                bits.accepted_en.eq(accepted.valid),
                bits.accepted_addr.eq(accepted.slot),
            ]
        looked = control_rows.looked
        is_data = self.looked_slot < data_slots
        m.d.comb += [
            under_way.accepted.eq(1),
            under_way.ended_en.eq(self.row_ends),
            under_way.ended_addr.eq(self.gone_slot),
            under_way.ended.eq(0),
            under_way.looked_addr.eq(self.looked_slot),
            carried.accepted.eq(accepted.control & self.control_carries),
            self.merged_node.eq(node[2]),
            carried.before_addr.eq(slot[2]),
            carried.merged_en.eq(merged),
            carried.merged_addr.eq(slot[2]),
            carried.merged.eq(self.merged_open & (~again[2] | carried.before)),
            carried.forgotten_en.eq(self.row_forgets),
            carried.forgotten_addr.eq(self.forgotten_slot),
            carried.forgotten.eq(0),
            carried.told_addr.eq(self.ended_slot),
            self.ended_carried.eq(carried.told),
            rows.looked_addr.eq(self.looked_slot),
            control_rows.looked_addr.eq(behind(self.looked_slot)),
            generations.looked_addr.eq(self.looked_slot),
            # What a data slot carries that is accepted in this cycle is nothing; a control slot may carry a credit.
            self.renewed.eq(accepted.valid & accepted.control & (accepted.slot == self.looked_slot)),
            self.looked_node.eq(Mux(is_data, rows.looked.node, looked.node)),
            self.looked_lives.eq(
                under_way.looked & (is_data | (looked.code == Code.PING) | (looked.code == Code.VOID))
            ),
            self.looked_life.slot.eq(self.looked_slot),
            self.looked_life.generation.eq(generations.looked),
        ]
        return m

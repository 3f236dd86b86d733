"""A host that does what stimulus words say (cycle contract, section 8)."""

from amaranth.hdl import Cat, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.host import deliver_streams, host_signature
from lethe.spec.config import System
from lethe.spec.trace import (
    CONTROL_BEAT,
    CONTROL_LIMITS_WORD,
    CONTROL_RECORD_WORD,
    STIMULUS_BEAT,
    STIMULUS_BITS,
    STIMULUS_CANCEL,
    STIMULUS_CANCEL_WORD,
    STIMULUS_FLAGS,
    STIMULUS_LIMITS,
    STIMULUS_LIMITS_WORD,
    STIMULUS_PORTS,
    STIMULUS_RECORD,
    STIMULUS_RECORD_WORD,
    STIMULUS_REFUSAL,
    STIMULUS_SET,
    STIMULUS_SWEEP,
    STIMULUS_TREE,
    STREAMS_STALL,
    WORD_BITS,
    fields,
)

__all__ = ["Script"]


class Script(wiring.Component):
    """Offers at the host port, in this very cycle, what the words say.

    Fields wider than their ports are cut off.

    Members
    -------
    words : In(64 · `Layout.stimulus_words`)
        The stimulus words of a node.
    takes : In(1 + 2 · deliver FIFOs)
        What is ready: completion; then record and data of each deliver FIFO.
    host : In(`host_signature`)
    link_enable : Out(1)
        For the NI, as the words say.
    stalls : Out(1 + 2 · deliver FIFOs)
        Which of the same streams the words stall; it is for who drives ``takes``.
    """

    def __init__(self, system: System):
        self._system = system
        streams = 1 + 2 * len(system.top_port.delivers)
        super().__init__(
            {
                "words": In(WORD_BITS * system.layout.stimulus_words),
                "takes": In(streams),
                "host": In(host_signature(system, system.top_port)),
                "link_enable": Out(1),
                "stalls": Out(streams),
            }
        )

    def elaborate(self, platform):
        m = Module()
        host = self.host
        word = [self.words.word_select(i, WORD_BITS) for i in range(self._system.layout.stimulus_words)]
        bit = {name: word[STIMULUS_FLAGS][i] for i, name in enumerate(STIMULUS_BITS)}

        def taken(source, table):
            return {name: source[field.shift :][: field.bits] for name, field in fields(table).items()}

        def offers(record: int, limits: int, beat: int, send, send_data, name: str):
            """A record and a beat, from these words."""
            values = taken(word[record], STIMULUS_RECORD) | taken(word[limits], STIMULUS_LIMITS)
            values["cls"] = values.pop("class")
            if not self._system.format.path_bits:
                del values["path"]
            return [
                send.valid.eq(bit[f"{name}.valid"]),
                *(send.payload[name].eq(value) for name, value in values.items()),
                send_data.valid.eq(bit[f"{name}_data.valid"]),
                send_data.payload.eq(self.words[beat * WORD_BITS :][: 2 * WORD_BITS]),
            ]

        cancel = taken(word[STIMULUS_CANCEL_WORD], STIMULUS_CANCEL)
        all_of_them = bit["deliver_stall"].replicate(len(self.stalls) - 1)
        one_by_one = word[STIMULUS_FLAGS][STREAMS_STALL.shift :]
        streams = [host.completion, *deliver_streams(self._system.top_port, host)]
        m.d.comb += [
            self.link_enable.eq(~bit["link_disable"]),
            self.stalls.eq(Cat(bit["completion_stall"], one_by_one | all_of_them)),
            host.quiesce.eq(bit["quiesce"]),
            *offers(STIMULUS_RECORD_WORD, STIMULUS_LIMITS_WORD, STIMULUS_BEAT, host.send, host.send_data, "send"),
            host.cancel.valid.eq(bit["cancel.valid"]),
            *(host.cancel.payload[name].eq(value) for name, value in cancel.items()),
            *(port.ready.eq(take) for port, take in zip(streams, self.takes, strict=True)),
        ]
        layout, port = self._system.layout, self._system.top_port
        if port.control:
            m.d.comb += offers(
                CONTROL_RECORD_WORD, CONTROL_LIMITS_WORD, CONTROL_BEAT, host.send_control, host.send_control_data,
                "send_control",
            )  # fmt: skip
        if port.merge_bits:
            merge = layout.stimulus_merge
            m.d.comb += [host.merge_word.eq(word[merge]), host.merge_mask.eq(word[merge + 1])]
        if port.acceptance:
            m.d.comb += host.refusal.eq(taken(word[layout.stimulus_refusal], STIMULUS_REFUSAL)["refusal"])
        if port.sweep:
            sweep = taken(word[layout.stimulus_sweep], STIMULUS_SWEEP)
            m.d.comb += [host.sweep.valid.eq(sweep["valid"]), host.sweep.payload.source.eq(sweep["source"])]
        if port.ports:
            ports = taken(word[layout.stimulus_ports], STIMULUS_PORTS)
            given = taken(word[layout.stimulus_ports + 1], STIMULUS_SET)
            m.d.comb += [
                *(host.send.payload[name].eq(ports[name]) for name in ("sport", "dport", "flags")),
                host.receive_mask.eq(ports["receive_mask"]),
                host.set.valid.eq(given["valid"]),
                *(host.set.payload[name].eq(given[name]) for name in ("code", "index", "value")),
                host.notice.ready.eq(~given["notice_stall"]),
            ]
        if port.tree:
            tree = taken(word[layout.stimulus_tree], STIMULUS_TREE)
            m.d.comb += host.tree.valid.eq(tree.pop("valid"))
            m.d.comb += [host.tree.payload[name].eq(value) for name, value in tree.items()]
        return m

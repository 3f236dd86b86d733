"""A host that does what stimulus words say (cycle contract, section 8)."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from lethe.host import deliver_streams, host_signature
from lethe.spec.config import System
from lethe.spec.trace import (
    STIMULUS_BEAT,
    STIMULUS_BITS,
    STIMULUS_CANCEL,
    STIMULUS_CANCEL_WORD,
    STIMULUS_FLAGS,
    STIMULUS_LIMITS,
    STIMULUS_LIMITS_WORD,
    STIMULUS_RECORD,
    STIMULUS_RECORD_WORD,
    STIMULUS_WORDS,
    WORD_BITS,
    fields,
)

__all__ = ["Script"]


class Script(wiring.Component):
    """Offers at the host port, in this very cycle, what the words say.

    Fields wider than their ports are cut off.

    Members
    -------
    words : In(64 · `STIMULUS_WORDS`)
        The stimulus words of a node.
    takes : In(1 + 2 · deliver FIFOs)
        What is ready: completion; then record and data of each deliver FIFO.
    host : In(`host_signature`)
    link_enable : Out(1)
        For the NI, as the words say.
    stalls : Out(1)
        Whether the words want nothing taken that is delivered; it is for who drives ``takes``.
    """

    def __init__(self, system: System):
        self._system = system
        super().__init__(
            {
                "words": In(WORD_BITS * STIMULUS_WORDS),
                "takes": In(1 + 2 * (1 + system.ni.control_classes)),
                "host": In(host_signature(system)),
                "link_enable": Out(1),
                "stalls": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        host = self.host
        word = [self.words.word_select(i, WORD_BITS) for i in range(STIMULUS_WORDS)]
        bit = {name: word[STIMULUS_FLAGS][i] for i, name in enumerate(STIMULUS_BITS)}

        def taken(source, table):
            return {name: source[field.shift :][: field.bits] for name, field in fields(table).items()}

        record = taken(word[STIMULUS_RECORD_WORD], STIMULUS_RECORD) | taken(word[STIMULUS_LIMITS_WORD], STIMULUS_LIMITS)
        record["cls"] = record.pop("class")
        cancel = taken(word[STIMULUS_CANCEL_WORD], STIMULUS_CANCEL)
        streams = [host.completion, *deliver_streams(self._system, host)]
        m.d.comb += [
            self.link_enable.eq(~bit["link_disable"]),
            self.stalls.eq(bit["deliver_stall"]),
            host.quiesce.eq(bit["quiesce"]),
            host.send.valid.eq(bit["send.valid"]),
            *(host.send.payload[name].eq(value) for name, value in record.items()),
            host.send_data.valid.eq(bit["send_data.valid"]),
            host.send_data.payload.eq(self.words[STIMULUS_BEAT * WORD_BITS :][: 2 * WORD_BITS]),
            host.cancel.valid.eq(bit["cancel.valid"]),
            *(host.cancel.payload[name].eq(value) for name, value in cancel.items()),
            *(port.ready.eq(take) for port, take in zip(streams, self.takes, strict=True)),
        ]
        return m

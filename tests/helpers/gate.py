"""A throwaway service that keeps the merge port, the acceptance port and the sweep of its NI, in RTL and golden model.

When a Send is granted it writes slot and tries into its payload.  First tries on odd slots it refuses as EARLY, but
not while the second bit of its count of deliveries is 1.  After every eighth delivery it sweeps the other node away.
"""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from amaranth.hdl import Cat, Const, Module, Signal

from lethe.services.service import ServiceTrace, ServiceUnit
from lethe.spec.events import ACCEPTANCE, Drop, LoopCounter, Unit
from lethe.spec.services import Service
from lethe_sim.golden.compile import jit
from lethe_sim.golden.record import Record, numbers
from lethe_sim.golden.services import site
from lethe_sim.golden.state import MERGE, NEVER

BITS = 16
EARLY = ACCEPTANCE.index(Drop.EARLY)
#: Cycles from what the merge port asks to its answer, and from an arrival to its refusal.
ANSWERS, REFUSES = 3, 5
EVERY = 8

GATE = Service(
    name="gate", unit=Unit.LOOP, lanes=(), flag_bits=(), counters=LoopCounter, named=lambda system: True,
    above=lambda system, below: replace(below, merge_bits=0, acceptance=False, sweep=False),
    size=lambda system: "",
)  # fmt: skip


class Gate(ServiceUnit):
    """The service in RTL."""

    service = GATE

    def serve(self, m: Module) -> ServiceTrace:
        below = self.below

        def later(value, cycles: int):
            for _ in range(cycles):
                register = Signal.like(value)
                m.d.sync += register.eq(value)
                value = register
            return value

        asked = Signal(1 + BITS)
        m.d.comb += asked.eq(Cat(below.merge.valid, Cat(below.merge.slot, Const(0, 8))[:8], below.merge.tries))
        answer = later(asked, ANSWERS)
        suspect = Signal()
        m.d.comb += suspect.eq(below.arrival.valid & below.arrival.word[0] & (below.arrival.word[8:16] == 0))
        count, sweeping = Signal(8), Signal()
        m.d.comb += [
            below.merge_word.eq(answer[1:]),
            below.merge_mask.eq(answer[0].replicate(BITS)),
            below.sweep.valid.eq(sweeping),
            below.sweep.payload.source.eq(self.node ^ 1),
        ]
        with m.If(later(suspect, REFUSES) & ~count[1]):
            m.d.comb += below.refusal.eq(EARLY)
        with m.If(below.sweep.valid & below.sweep.ready):
            m.d.sync += sweeping.eq(0)
        with m.If(below.delivered):
            m.d.sync += count.eq(count + 1)
            with m.If(count[:3] == EVERY - 1):
                m.d.sync += sweeping.eq(1)
        return ServiceTrace(pulses=(0,))


class Numbers(Record):
    """The golden model's: by the cycle mod 8, when something is to be said, and what."""

    count: int
    sweeping: int
    merge_at: Any = numbers(8)
    merge_word: Any = numbers(8)
    refuse_at: Any = numbers(8)


@jit
def _offer(s):
    gate, below, place = Numbers(s.numbers), s.below, s.cycle & 7
    site.pass_offers(s)
    if gate.merge_at[place] == s.cycle:
        below.beat[MERGE] = np.uint64(gate.merge_word[place])
        below.beat[MERGE + 1] = np.uint64((1 << BITS) - 1)
    if gate.refuse_at[place] == s.cycle and gate.count & 2 == 0:
        below.drives.refusal = EARLY
    below.drives.sweep_valid, below.drives.sweep_source = gate.sweeping, s.node ^ 1


@jit
def _step(s):
    gate, shown = Numbers(s.numbers), s.below.shows
    if shown.merge_valid:
        place = s.cycle + ANSWERS & 7
        gate.merge_at[place] = s.cycle + ANSWERS
        gate.merge_word[place] = shown.merge_slot & 0xFF | shown.merge_tries << 8
    if shown.arrival_valid:
        word = np.int64(s.below.beats[2 * s.k.streams] & np.uint64(0xFFFF))
        if word & 1 and word >> 8 == 0:
            gate.refuse_at[s.cycle + REFUSES & 7] = s.cycle + REFUSES
    if gate.sweeping and shown.sweep_ready:
        gate.sweeping = 0
    if shown.delivered:
        gate.count = gate.count + 1 & 0xFF
        if gate.count % EVERY == 0:
            gate.sweeping = 1


@jit
def _reset(s):
    if s.service_reset:
        gate = Numbers(s.numbers)
        gate.count, gate.sweeping = 0, 0
        for place in range(8):
            gate.merge_at[place], gate.refuse_at[place] = -1, -1


@jit
def _next_look(s):
    return s.cycle + 1 if Numbers(s.numbers).sweeping else NEVER


@jit
def _rests(s):
    return Numbers(s.numbers).sweeping == 0


MODEL = SimpleNamespace(
    numbers=lambda system, below: np.full(Numbers.size, -1, np.int64) * (np.arange(Numbers.size) >= 2),
    words=lambda system, below: 0, offer=_offer, step=_step, reset=_reset, next_look=_next_look,
)  # fmt: skip
RESTING = SimpleNamespace(**vars(MODEL), rests=_rests)

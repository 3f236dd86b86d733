"""The third implementation, written from the documents alone, beside the golden model: every word of every cycle.

Whoever changes the contract changes the files named below from its text, without a look at the RTL or the model.
"""

import ast
import random
import sys
from itertools import repeat
from pathlib import Path

import pytest

from lethe.spec.config import System
from lethe.spec.toml import dump
from lethe_sim.lockstep import block_groups, matrix
from tests.helpers import ROOT
from tests.helpers.tiers import but
from tests.third import beside, derived, ni
from tests.third.beside import Cycle, drawn

HERE = Path(__file__).parent
CONTRACT = ROOT / "docs" / "reference" / "cycle-contract.md"
WRITTEN_FROM_DOCUMENTS = ("derived.py", "fabric.py", "network.py", "ni.py", "traffic.py")

SMALL = {
    "topology": {"kind": "wire"},
    "wire": {"mtu": 16},
    "ni": {"slots": 2, "sets": 1, "ways": 1},
    "timers": {"slack": 0, "backoff_steps": 0, "jitter_bits": 0, "wrap_guard": 0},
    "workload": {"min_length": 4, "max_length": 4},
}


def small(**sections) -> System:
    """Two nodes on a wire, with small tables."""
    return System.make(**SMALL | {name: SMALL.get(name, {}) | keys for name, keys in sections.items()})


def group(name: str) -> System:
    """The system of an NI of the block lockstep."""
    blocks = [block_groups.hostile_ni()] if name == "hostile" else list(block_groups.GROUPS[name]().values())
    return System.make(**_sections(blocks[0]))


def _sections(block) -> dict:
    """The configuration that a block was made from, by way of its TOML."""
    return derived.tomllib.loads(dump(block._system))


def agrees(run: beside.Run) -> None:
    difference = beside.difference(run)
    assert not difference, difference


# Written from the documents


@pytest.mark.parametrize("name", WRITTEN_FROM_DOCUMENTS)
def test_nothing_of_the_project_is_imported(name):
    own = {f"tests.third.{Path(other).stem}" for other in WRITTEN_FROM_DOCUMENTS}
    for node in ast.walk(ast.parse((HERE / name).read_text())):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            package = node.module == "tests.third"
            modules = [f"tests.third.{alias.name}" for alias in node.names] if package else [node.module or ""]
        for module in modules:
            assert module in own or module.partition(".")[0] in sys.stdlib_module_names, module


def test_the_examples_of_the_contract():
    default = derived.read("")
    ack = {"kind": ni.ACK, "destination": 1, "source": 2, "slot": 3, "generation": 4, "incarnation": 1}
    first = derived.draw(1)
    gaps = default.gaps()
    results = [
        f"0x{first:08X}; 0x{derived.draw(first):08X}",
        f"0x{derived.seed_for(1, 1, 0):08X}; 0x{derived.seed_for(1, 3, 5):08X}",
        f"0x{derived.CRC16.of((0x123456789ABC).to_bytes(6, 'little')):04X}",
        f"0x{derived.CRC32C.of((0x0123456789ABCDEF).to_bytes(8, 'little')):08X}",
        f"0x{default.message(ack)[0]:016X}",
        " ".join(f"{flit:04X}" for flit in derived.read("[wire]\nflit_bits = 16").message(ack)),
        f"{default.max_flits}, {list(default.delays)}",
        f"{default.timer_depth}, {default.time_bits}",
        ", ".join(str(gaps[i]) for i in (0, 1, 127, 255)),
        f"0x{derived.event_hash(100, 1, 2, 0x200003001, 0x101000200003):016X}",
    ]
    table = CONTRACT.read_text().partition("<!-- generated: vectors -->")[2].partition("<!-- end: vectors -->")[0]
    rows = [line.strip("| ").split(" | ")[-1] for line in table.splitlines() if line.startswith("|")][2:]
    assert rows == results


@pytest.mark.parametrize("seed", range(40))
def test_derived_numbers(seed):
    system = drawn(seed) if seed % 2 else matrix.draw(seed)
    numbers = derived.read(dump(system))
    assert numbers.delays == tuple(system.delays)
    assert numbers.time_bits == system.time_bits
    assert numbers.timer_depth == system.timer_depth
    assert numbers.deliver_flits == system.deliver_flits
    assert numbers.ceiling == system.ceiling
    assert numbers.max_flits == system.format.max_flits
    assert numbers.gaps() == list(system.gaps)


@pytest.mark.parametrize("router", [{}, {"queue": 1}, {"pool": 1}, {"flow": "credits", "queue": 1}])
def test_the_ceiling_where_worms_can_wait(router):
    system = System.make(router=router)
    assert derived.read(dump(system)).ceiling == system.ceiling
    assert (system.ceiling > 0) == bool(router)


# Under hostile stimuli


@pytest.mark.parametrize("name", ["ni16", "ni32", "ni64", "ni128", "ni options", "hostile"])
def test_blocks(name):
    agrees(beside.hostile_run(group(name), 0, 1, 2000))


@pytest.mark.parametrize("seed", range(10))
def test_systems_of_the_matrix(seed):
    system = matrix.draw(seed, options=seed % 2 == 1)
    agrees(beside.hostile_run(system, seed % system.nodes, seed, 1000))


@pytest.mark.parametrize("seed", range(10))
def test_drawn_systems(seed):
    system = drawn(seed)
    agrees(beside.hostile_run(system, seed % system.nodes, seed, 1000))


def test_a_block_lives_when_its_system_says_that_it_dies():
    """Nothing of the schedule happens to a block: its bench says when it is reset."""
    system = small(
        faults={"deaths": [{"node": 0, "start": 100}]}, timers={"ack_limit": 60}, workload={"retry_limit": 2}
    )
    agrees(beside.hostile_run(system, 0, 1, 400))


@pytest.mark.full
@pytest.mark.parametrize("name", ["ni16", "ni32", "ni64", "ni128", "ni options", "hostile"])
def test_blocks_at_length(name):
    for seed in range(4):
        agrees(beside.hostile_run(group(name), seed % 2, 100 + seed, 5000))


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 130))
def test_systems_at_length(seed):
    for system in (matrix.draw(seed), matrix.draw(seed, options=True), drawn(seed)):
        for node in {0, seed % system.nodes, system.nodes - 1}:
            agrees(beside.hostile_run(system, node, seed, 2000))


# Directed


def stimulus(
    *, enable: int = 1, cancel: tuple[int, int] | None = None, send: dict[str, int] | None = None
) -> list[int]:
    """Stimulus words (section 8): a cancel of (slot, generation), or a record."""
    word = (send is not None) | (cancel is not None) << 2 | (1 - enable) << 4
    slot, generation = cancel or (0, 0)
    send = send or {}
    record = send.get("destination", 0) | send.get("length", 0) << 32
    limits = send.get("deadline", 0) | send.get("retry_limit", 0) << 32
    return [word, record, limits, 0, 0, slot | generation << 16]


def play(cycles: int, at: dict[int, Cycle], otherwise: Cycle | None = None) -> list[Cycle]:
    """Inputs of so many cycles, those of ``at`` in theirs."""
    return [at.get(c, otherwise or Cycle()) for c in range(cycles)]


def events(run: beside.Run, name: str) -> list[tuple[int, int, int]]:
    """(cycle, detail, uid) of each event of this name."""
    return [(cycle, word >> 8 & 0xFF, uid) for cycle, _, word, uid in run.lanes() if word & 0xFF == ni.EVENT[name]]


class EveryCompletionHinders(ni.Ni):
    """4.9 read otherwise: the quarantine moves only if no completion is taken."""

    def _quarantine_moves(self, done, rested):
        return done is None


def test_a_completion_to_the_quarantine_does_not_hinder_it():
    rest = 400
    system = small(timers={"quarantine": rest}, workload={"retry_limit": 1})
    send = Cycle(stimulus=stimulus(send={"destination": 1}), completion_ready=False)
    waiting = Cycle(completion_ready=False)
    at = {c: send for c in range(2, 6)} | {
        30: Cycle(stimulus=stimulus(cancel=(0, 0)), completion_ready=False),
        32: Cycle(stimulus=stimulus(cancel=(1, 0)), completion_ready=False),
        40: Cycle(),  # slot 0 goes to rest
        40 + rest: Cycle(),  # slot 1 does, as slot 0 is due
    }
    run = beside.directed_run(system, 0, "quarantine", play(45 + rest, at, waiting))
    assert [cycle for cycle, *_ in events(run, "COMPLETE")] == [40, 40 + rest]
    agrees(run)
    assert beside.difference(run, EveryCompletionHinders)


class WhatIsNotCommittedCounts(ni.Ni):
    """4.10 read otherwise: a deliver FIFO with flits that are not committed is not empty."""

    def _idle(self):
        return super()._idle() and not any(fifo.uncommitted for fifo in self.fifo)


def test_flits_that_are_not_committed_leave_a_ni_idle():
    system = small()
    numbers = derived.read(dump(system))
    fields = {"kind": ni.SEND, "destination": 0, "source": 1, "length": 16}
    worm = numbers.message(fields, [1, 2])[: numbers.header_flits + 2]
    cut = {10 + i: Cycle(flit=(1, int(i == 0), 0, flit)) for i, flit in enumerate(worm)}
    run = beside.directed_run(system, 0, "a fragment", play(25, cut))
    (fragment,) = (cycle for cycle, *_ in events(run, "FRAGMENT"))
    # The gap was seen six cycles before; from then on nothing is under way.
    assert [run.shown[c].words[12] >> 3 & 1 for c in range(fragment - 6, fragment + 2)] == [0, *7 * [1]]
    agrees(run)
    assert beside.difference(run, WhatIsNotCommittedCounts)


class OnlyItsOwnEntryLaunches(ni.Ni):
    """4.5, point 4, without the entries of a slot's earlier datagrams."""

    def _judge(self):
        token, _ = self.granted.get(self.cycle, (ni.SendToken(0, 0, 0), True))
        slot = self.slot[token.slot]
        before = slot.judged
        super()._judge()
        if slot.generation != token.generation:
            slot.judged = before


@pytest.mark.parametrize("wait", range(-4, 6))
def test_an_old_entry_launches_the_next_datagram_of_its_slot(wait):
    """The datagram before it was cancelled; its entry is granted ``wait`` cycles after the acceptance."""
    system, accept = small(), 50
    held, sent = Cycle(stimulus=stimulus(enable=0)), {"destination": 1}
    at = {c: Cycle(stimulus=stimulus(enable=0, send=sent)) for c in (10, 11, accept)}
    at[20] = Cycle(stimulus=stimulus(enable=0, cancel=(0, 0)))
    at[accept + wait] = Cycle(stimulus=stimulus(send=sent if wait == 0 else None))
    at[accept + 20] = Cycle(stimulus=stimulus(enable=0, cancel=(0, 1)))
    run = beside.directed_run(system, 0, f"granted {wait} cycles later", play(accept + 40, at, held))
    assert [c for c, *_ in events(run, "ACCEPT")] == [10, 11, accept]
    assert [c for c, *_ in events(run, "KILLED")] == [accept + wait + 6] and not events(run, "SEND")
    launched = wait + 2 >= 3
    ends = [detail >> 4 for _, detail, _ in events(run, "COMPLETE")]
    assert ends == [ni.NEVER_SENT, ni.UNKNOWN if launched else ni.NEVER_SENT]
    agrees(run)
    assert bool(beside.difference(run, OnlyItsOwnEntryLaunches)) == launched


class AJudgementIsSeenACycleLater(ni.Ni):
    """4.5, point 4, with "in cycles < c"."""

    def _counts_as_launched(self, number):
        return super()._counts_as_launched(number) and self.slot[number].judged != self.cycle


def test_a_cancel_sees_the_judgement_of_its_own_cycle():
    system, granted = small(), 30
    ended, differ = [], 0
    for chosen in range(granted - 5, granted + 2):
        at = {c: Cycle(stimulus=stimulus(enable=0)) for c in range(granted)}
        at[10] = Cycle(stimulus=stimulus(enable=0, send={"destination": 1}))
        at[chosen] = Cycle(stimulus=stimulus(enable=int(chosen >= granted), cancel=(0, 0)))
        run = beside.directed_run(system, 0, f"cancel in {chosen}", play(granted + 20, at))
        agrees(run)
        differ += bool(beside.difference(run, AJudgementIsSeenACycleLater))
        ended += [detail >> 4 for _, detail, _ in events(run, "COMPLETE")]
    assert ended == 3 * [ni.NEVER_SENT] + 4 * [ni.UNKNOWN]
    assert differ == 1


def test_tries_stop_at_255():
    """A Send without a limit, and the Ack of an entry that nobody forgets, repeated three hundred times."""
    system = small()
    numbers = derived.read(dump(system))
    fields = {"kind": ni.SEND, "destination": 0, "source": 1, "incarnation": 1}
    worm = [(1, int(i == 0), int(i == len(m) - 1), x) for m in [numbers.message(fields, [])] for i, x in enumerate(m)]
    at = {10 + i: Cycle(flit=flit) for i, flit in enumerate(worm)}
    at[10] = at[10]._replace(stimulus=stimulus(send={"destination": 1}))
    run = beside.directed_run(system, 0, "tries", play(300 * (numbers.delays[0] + 12), at))
    for name in ("REPEAT", "ACK_REPEAT"):
        assert [detail for _, detail, _ in events(run, name)][250:260] == [251, 252, 253, 254, *repeat(255, 6)], name
    agrees(run)


def test_a_full_repeat_queue():
    """Two slots and two generations: ten tokens of four datagrams name the last two when they become due."""
    first_due, flood, held, freed, end = 490, 500, 820, 920, 1020
    system = small(wire={"generation_bits": 1}, timers={"slack": 500, "timer_depth": 64})
    numbers, model = derived.read(dump(system)), beside.Model(system, 0)

    def ack(uid: int, incarnation: int) -> tuple[int, int, int, int]:
        fields = {"kind": ni.ACK, "destination": 0, "source": 1, "incarnation": incarnation, "peer_incarnation": 1}
        slot, generation = uid >> 20 & 0xFFFF, uid & 0xFFFFF
        (flit,) = numbers.message(fields | {"slot": slot, "generation": generation})
        return 1, 1, 1, flit

    inputs, shown, sent = [], [], []
    for c in range(end):
        flit = (0, 0, 0, 0)
        if c < first_due and sent:
            flit = ack(sent.pop(0), 1)
        elif flood <= c < held:  # Acks of another incarnation: no token gets a turn
            flit = ack(0, 2)
        send = {"destination": 1} if c < flood else None
        inputs.append(Cycle(flit=flit, stimulus=stimulus(send=send, enable=int(not held <= c < freed))))
        shown.append(model.step(inputs[-1]))
        if shown[-1].words[0] & 0xFF == ni.EVENT["SEND"]:
            sent.append(shown[-1].words[1])
    run = beside.Run(dump(system), 0, "a full repeat queue", inputs, shown)
    # While the link is held the tokens become repeats: one at the output, two in memory, the others lost.
    repeats = [c for c, *_ in events(run, "REPEAT")]
    assert sum(held <= c < freed for c in repeats) > 5
    agrees(run)
    # When it is let go, those three leave one after the other; the others never do.
    sent_again = [c for c, detail, _ in events(run, "SEND") if detail]
    assert [c - sent_again[0] for c in sent_again[:3]] == [0, 3, 6] and len(sent_again) < len(repeats) - 5


def test_the_longest_payload():
    """4,096 bytes out and in."""
    system = small(wire={"mtu": 4096}, workload={"min_length": 4096, "max_length": 4096})
    numbers, chance = derived.read(dump(system)), random.Random(1)
    flits = numbers.payload_flits(4096)
    beats = [chance.getrandbits(64) for _ in range(flits)]
    message = numbers.message({"kind": ni.SEND, "destination": 0, "source": 1, "incarnation": 1, "length": 4096}, beats)
    inputs = play(3 * flits, {5: Cycle(stimulus=stimulus(send={"destination": 1, "length": 4096}))})
    for i, data in enumerate(beats):
        inputs[6 + i] = Cycle(stimulus=[2, 0, 0, data, 0, 0])
    for i, flit in enumerate(message):
        inputs[20 + i] = inputs[20 + i]._replace(flit=(1, int(i == 0), int(i == len(message) - 1), flit))
    run = beside.directed_run(system, 0, "the longest payload", inputs)
    assert events(run, "SEND") and events(run, "DELIVER") and events(run, "TAKE")
    agrees(run)


# The comparison can fail

#: An error → where it is planted, and what takes the place of what is there.
ERRORS = {
    "a time is due a cycle early": (ni.Ni, "_passed", lambda self, due: not (self.time + 1 - due) >> 15 & 1),
    "one free place in a rung is enough for a SEND": (
        ni.Ladder, "room", lambda self, free: all(level <= self.depth - 1 for level in self.known),
    ),
    "levels of rungs are known at once": (
        ni.Ladder, "room", lambda self, free: all(len(rung) <= self.depth - free for rung in self.rungs),
    ),
    "the first rung has every turn": (ni.Ladder, "turn", lambda self: 0),
    "an acceptance is known at once": (ni.Ni, "_is_known", lambda self, number, after: self.slot[number].live),
    "a full queue takes one more": (ni.Queue, "level", property(lambda self: max(0, len(self.memory) - 1))),
    "the try of a header is always 0": (ni.Ni, "_echo", lambda self, tries: 0),
    "the set of a key is 0": (ni.Ni, "_set", lambda self, source, slot: self.table[0]),
    "control classes use the FIFO for data": (ni.Ni, "_fifo_of", lambda self, cls: 0),
    "a record that is too long is sent": (
        ni.Ni, "_refusal",
        lambda *of, refusal=ni.Ni._refusal: ni.NO_CAUSE if refusal(*of) == ni.LENGTH else refusal(*of),
    ),
    "a message overflows only by its records": (
        ni.DeliverFifo, "full", property(lambda self: self.records.level == self.records.depth),
    ),
    "a slot in transmission is taken": (ni.Ni, "_in_transmission", lambda self, slot: False),
    "the first delay is never exceeded": (ni.RoundTrips, "delay", lambda self, q, r, steps: self.timeout[q]),
    "a sample changes nothing": (ni.RoundTrips, "sample", lambda self, q, m: self.timeout[q]),
    "the successor of a rung is the rung": (ni.Ladder, "successor", lambda self, q: q),
    "every class may use the reserve": (ni.Ni, "_may_use_reserve", lambda self, cls: True),
    "control of any class is taken": (
        ni.Ni, "_refusal",
        lambda *of, refusal=ni.Ni._refusal: ni.NO_CAUSE if refusal(*of) == ni.CLASS else refusal(*of),
    ),
    "every slot goes to the data slots": (
        ni.Ni, "_free", lambda self, slot, generation: self.data.free.push((slot, generation)),
    ),
    "no REJECT ends a datagram": (ni.Ni, "_receive_reject", lambda self, fields: "REJECT_IGNORED"),
    "deliver records have no incarnation": (
        ni.Ni, "_delivered",
        lambda self, fields, delivered=ni.Ni._delivered: delivered(self, fields)._replace(incarnation=0),
    ),
    "a silent node gets no probe": (ni.Ni, "_is_probe", lambda self, record, *, repeat: False),
    "a best-effort datagram is a probe": (
        ni.Ni, "_is_probe",
        lambda self, record, *, repeat: not repeat and not self.silence.probed[record.destination],
    ),
    "an Ack leaves a node silent": (ni.Ni, "_hear", lambda self, node: None),
    "nothing is merged": (ni.Ni, "_merge", lambda self: self.merging.clear()),
    "the merge port asks for what is sent only": (
        ni.Ni, "_merge_offer",
        lambda self, offer=ni.Ni._merge_offer: (
            ((found := offer(self)) and self._is_known(found[0], 3) and found) or None
        ),
    ),
    "a service refuses nothing": (ni.Ni, "_refused", lambda self, fields, refusal: ni.DROP_NONE),
    "a service refuses control, too": (
        ni.Ni, "_refused", lambda self, fields, refusal: (0, 13, 14, 15)[refusal] if self.ni["acceptance"] else 0,
    ),
    "what is not sound is not announced": (
        ni.Ni, "_arrival",
        lambda self, arrival=ni.Ni._arrival: (
            ((flits := self.arrivals[5].message) and self.n.crc_is_good(flits) and arrival(self)) or None
        ),
    ),
    "a sweep finds what has just been written": (
        ni.Ni, "_found", lambda self, found=ni.Ni._found: (False, found(self)[1]),
    ),
    "a sweep ends with its first set": (
        ni.Ni, "_ends_sweep", lambda self: self.step_acts == self.cycle and self._found() == (False, None),
    ),
    "a sweep goes on after an entry": (
        ni.Ni, "_act_step",
        lambda self, act=ni.Ni._act_step: (
            act(self), setattr(self, "index", (self.index + (self._found()[1] is not None)) % len(self.table)),
        ),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def torments() -> list[beside.Run]:
    groups = (("hostile", 1), ("hostile", 7), ("ni32", 7), ("ni128", 7))
    plain = [beside.hostile_run(group(name), 0, seed, 2500, stalls=False) for name, seed in groups]
    # Twelve slots, so that short rungs have no room for each other's tokens.
    crowded = small(ni={"slots": 12, "ways": 4}, timers={"backoff_steps": 2, "timer_depth": 9})
    hooked = _with_options(16, sets=2, acceptance=True, sweep=True)
    return [*plain, *map(_with_options, (16, 200)), hooked, beside.hostile_run(crowded, 0, 0, 2500)]


def _with_options(mtu: int, **more) -> beside.Run:
    """All options at once (``more``: of services), in an NI whose peers answer seldom enough to be silent.

    With a large ``mtu`` a slot can be free again before its worm has left.
    """
    system = small(
        topology={"kind": "crossbar", "nodes": 3},
        wire={"mtu": mtu},
        ni={
            "slots": 5, "ways": 2, "control_classes": 2, "control_slots": 2, "reserved_slots": 1, "reserved_classes": 3,
            "reject": True, "source_incarnation": True, "merge_bits": 20,
            **more,
        },
        timers={"silent_after": 2, "silent_probe": 200},
    )  # fmt: skip
    return beside.hostile_run(system, 0, 4, 2500)


#: Those that the first runs show.
SOON = (
    "one free place in a rung is enough for a SEND",
    "the first rung has every turn",
    "levels of rungs are known at once",
    "a full queue takes one more",
    "control classes use the FIFO for data",
    "a record that is too long is sent",
    "the set of a key is 0",
    "the try of a header is always 0",
    "every class may use the reserve",
    "nothing is merged",
)


@pytest.mark.parametrize("error", but(SOON, ERRORS))
def test_a_planted_error_is_seen(error, torments, monkeypatch):
    where, name, instead = ERRORS[error]
    monkeypatch.setattr(where, name, instead, raising=False)
    assert any(_seen(run) for run in torments)


def _seen(run: beside.Run) -> str:
    try:
        return beside.difference(run)
    except AssertionError as broken:  # a queue that overflows is seen too
        return f"overflow {broken}"


def test_a_difference_is_told_in_full(torments, monkeypatch):
    monkeypatch.setattr(ni.Ni, "_receive_forget", lambda self, name, fields: "FORGET_IGNORED")
    told = beside.difference(torments[0])
    for part in ("hostile, seed 1, node 0, cycle ", "lane rx: model FORGOTTEN (detail 0, peer ", "[timers]"):
        assert part in told


def test_the_torments_reach_every_event(torments):
    seen = {word & 0xFF for run in torments for _, _, word, _ in run.lanes()}
    assert not {name for name, code in ni.EVENT.items() if code not in seen}

"""The third NI beside the golden model's: hostile stimuli recorded once, and how two sets of words are told apart."""

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lethe.spec import stages
from lethe.spec.config import ConfigError, System
from lethe.spec.toml import dump
from lethe_sim.golden import blocks
from lethe_sim.lockstep import hostile, matrix
from tests.third import derived, ni

Stimulus = list[int]
IDLE: Stimulus = [0] * 6


class Cycle(NamedTuple):
    """The inputs of one cycle, for either implementation."""

    flit: tuple[int, int, int, int] = (0, 0, 0, 0)
    stimulus: Stimulus = IDLE  # words that are not there are 0
    incarnation: int = 1
    reset: bool = False
    deliver_ready: list[tuple[int, int]] | None = None
    completion_ready: bool | None = None
    index: int = 0  # of a dump


class Shown(NamedTuple):
    """What the golden model showed in a cycle."""

    words: list[int]
    ports: tuple | None  # None in reset
    dumped: tuple | None  # None where no dump is taken


class Run(NamedTuple):
    """Inputs of an NI and what the golden model made of them."""

    text: str
    node: int
    what: str
    inputs: list[Cycle]
    shown: list[Shown]

    def lanes(self) -> Iterator[tuple[int, str, int, int]]:
        """(cycle, lane, first word, uid) of each event."""
        classes = derived.read(self.text).section["ni"]["control_classes"]
        places = [(i, name) for i, name in enumerate(ni.word_names(classes)) if name.startswith("lane ")][::2]
        for cycle, shown in enumerate(self.shown):
            for i, name in places:
                if shown.words[i]:
                    yield cycle, name, shown.words[i], shown.words[i + 1]


class Dumps:
    """The indices of dumps on their way from the choice to the action."""

    def __init__(self):
        self.clear()

    def clear(self) -> None:
        """None is on its way: the NI is reset."""
        self._chosen: deque[int | None] = deque([None] * stages.CHOSEN)

    @property
    def none(self) -> bool:
        return self._chosen.count(None) == len(self._chosen)

    def acts(self, chosen: int | None) -> int | None:
        """The index of the dump that acts in a cycle; ``chosen`` is that of one that is chosen in it."""
        self._chosen.append(chosen)
        return self._chosen.popleft()


class Model:
    """The golden model's NI, asked for everything it shows."""

    def __init__(self, system: System, node: int):
        self._ni, self._sizes, self._words = blocks.Ni(system, node), system.ni, system.layout.stimulus_words
        self._system = system
        self._dumps = Dumps()

    def step(self, cycle: Cycle) -> Shown:
        ports = dumped = None
        if not cycle.reset:
            bits = cycle.stimulus[0]
            refusal, sweep = hostile.services_words(self._system, _padded(cycle.stimulus, self._words))
            ports = self._ni.ports(
                cancel=bool(bits >> 2 & 1), quiesce=bool(bits >> 3 & 1), refusal=refusal, sweep=sweep
            )
            if not self._sizes.source_incarnation:  # the port has no such field
                records = [record and record._replace(incarnation=0) for record in ports.deliver]
                ports = ports._replace(deliver=records)
            ports = ports._replace(dump_ready=ports.dump_ready and self._dumps.none)
            index = self._dumps.acts(cycle.index if ports.dump_ready else None)
            if index is not None:
                slot = index if index < self._sizes.slots else None
                found = self._ni.dumped(slot or 0, index % self._sizes.sets)
                live = slot is not None and found.live
                dumped = (found.generation, found.destination) if live else None, found.entries
        else:
            self._dumps.clear()
        words = self._ni.step(
            blocks.Flit(*cycle.flit),
            _padded(cycle.stimulus, self._words),
            incarnation=cycle.incarnation,
            reset=cycle.reset,
            deliver_ready=cycle.deliver_ready,
            completion_ready=cycle.completion_ready,
        )
        return Shown([int(word) for word in words], ports, dumped)


def _padded(words: Stimulus, size: int) -> Stimulus:
    return words + [0] * (size - len(words))


def drawn(seed: int) -> System:
    """A system that the matrix never draws: few generations, options in odd sizes and together, odd widths."""
    chance = random.Random(f"third {seed}")
    while True:
        mtu, slots = chance.choice((5, 16, 70, 300)), chance.choice((2, 3, 5, 7, 16))
        topology = chance.choice(matrix.TOPOLOGIES)
        retry_limit = chance.choice((0, 1, 2, 200))
        sections = {
            "run": {"seed": 1 + seed},
            "topology": topology,
            "wire": {
                "flit_bits": chance.choice((16, 32, 64, 128)),
                "node_bits": chance.choice((0, 5)),
                "slot_bits": chance.choice((0, 5)),
                "generation_bits": chance.choice((1, 2, 3, 20)),
                "incarnation_bits": chance.choice((1, 2, 3)),
                "try_bits": chance.choice((1, 2, 8)),
                "class_bits": chance.choice((1, 2, 3, 8)),
                "mode_bits": chance.choice((1, 2, 4)),
                "ext_bits": chance.choice((1, 2, 16)),
                "mtu": mtu,
                "tag_bits": chance.choice((1, 7, 16)),
            },
            "router": {"latency": chance.choice((1, 2, 6)), "queue": chance.choice((0, 0, 1, 4))},
            "ni": {
                "slots": slots,
                "sets": chance.choice((1, 2, 8, 32)),
                "ways": chance.choice((1, 2, 5)),
                "reply_depth": chance.choice((2, 3, 7)),
                "deliver_records": chance.choice((2, 3, 9)),
                "deliver_flits": chance.choice((0, -(-mtu * 8 // 16))),
                "control_classes": chance.choice((0, 1, 2, 3)),
                "control_flits": chance.choice((0, 0, -(-mtu * 8 // 16), 300)),
                "control_records": chance.choice((0, 0, 2, 5)),
                "control_slots": chance.choice((0, 0, 1, slots - 1)),
                "reserved_slots": chance.choice((0, 1, slots - 1)),
                "reserved_classes": chance.choice((0, 0, 1, 3)),
                "reject": chance.choice((False, True)),
                "source_incarnation": chance.choice((False, True)),
                "merge_bits": chance.choice((0, 0, 1, 15, 16, 64)),
                "deadline_bits": chance.choice((8, 13, 32)),
            },
            "timers": {
                "slack": chance.choice((-2, -1, 0, 3)),
                "ceiling": chance.choice((-1, 0, 400, 3000)),
                "backoff_steps": chance.choice((0, 1, 2, 6)),
                "jitter_bits": chance.choice((0, 1, 7)),
                "timer_depth": chance.choice((0, 9, 10)),
                "ack_limit": chance.choice((0, 3, 9)) if retry_limit else 0,
                "quarantine": chance.choice((0, 300, 5000)) if retry_limit else 0,
                "wrap_guard": 0,
                "silent_after": chance.choice((0, 0, 1, 2, 7)),
                "silent_probe": chance.choice((1, 9, 100, 4096)),
            },
            "workload": {"min_length": 4, "max_length": 5, "retry_limit": retry_limit},
        }
        more = hostile.beside(chance)  # later than the others: the draws of those stay
        sections["ni"] |= {name: more.choice((False, True)) for name in ("acceptance", "sweep")}
        if not sections["router"]["queue"]:
            sections["router"]["pool"] = more.choice((0, 1, 5))
        try:
            return System.make(source=f"third seed {seed}", **sections)
        except ConfigError:
            continue


class Network(hostile.Network):
    """The hostile network, also where its incarnations need more bits than there are."""

    def _message(self) -> dict[str, int]:
        fields = super()._message()
        return {field.name: fields[field.name] & (1 << field.width) - 1 for field in self.form.send}


def hostile_run(system: System, node: int, seed: int, cycles: int, *, stalls: bool = True) -> Run:
    """The golden model's NI between the hostile network and host of the block lockstep; resets come now and then.

    With ``stalls`` the host also takes each stream in fits of its own.
    """
    chance = random.Random(f"third {seed}")
    model = Model(system, node)
    network, host = Network(chance, system, node), hostile.HostileHost(chance, system, node, stalls=stalls)
    taker = hostile.Taker(chance, system)
    inputs, shown, left = [], [], 0
    for _ in range(cycles):
        if left == 0 and chance.random() < 0.001:
            left = chance.choice((1, 2, 20))
            network.incarnation = (network.incarnation + 1) % (1 << system.wire.incarnation_bits) or 1
        takes = taker.next()
        cycle = Cycle(
            tuple(network.next()),
            host.next(),
            network.incarnation,
            left > 0,
            takes.deliver if chance.random() < 0.9 else None,  # else as section 8 says
            takes.completion,
            takes.index,
        )
        left = max(0, left - 1)
        inputs.append(cycle)
        shown.append(model.step(cycle))
        network.hear(shown[-1].words)
        host.hear(cycle.stimulus, shown[-1].words, cycle.reset)
    return Run(dump(system), node, f"hostile, seed {seed}", inputs, shown)


def directed_run(system: System, node: int, what: str, inputs: Iterable[Cycle]) -> Run:
    """The golden model's NI with the inputs of a test."""
    model, inputs = Model(system, node), list(inputs)
    return Run(dump(system), node, what, inputs, [model.step(cycle) for cycle in inputs])


def difference(run: Run, made: Callable[[derived.Numbers, int], ni.Ni] = ni.Ni) -> str:
    """Where the third NI first differs from the golden model, for a reader; empty if nowhere."""
    numbers = derived.read(run.text)
    third, dumps = made(numbers, run.node), Dumps()
    names = ni.word_names(numbers.section["ni"]["control_classes"])
    for at, (cycle, shown) in enumerate(zip(run.inputs, run.shown, strict=True)):
        inputs = ni.from_stimulus(
            numbers,
            _padded(cycle.stimulus, ni.stimulus_words(numbers)),
            ni.Flit(*cycle.flit),
            incarnation=cycle.incarnation,
            deliver_ready=cycle.deliver_ready,
            completion_ready=cycle.completion_ready,
        )._replace(dump=1)
        ports = dumped = None
        if not cycle.reset:
            ports = third.ports(
                cancel=inputs.cancel, quiesce=inputs.quiesce, refusal=inputs.refusal, sweep=inputs.sweep
            )
            index = dumps.acts(cycle.index if ports.dump_ready else None)
            dumped = None if index is None else third.dumped(index, index)
        else:
            dumps.clear()
        words = third.step(inputs, cycle.reset)
        if (words, ports, dumped) != shown:
            lines = [f"{run.what}, node {run.node}, cycle {at}{' (reset)' if cycle.reset else ''}"]
            lines += [
                f"  {name}: model {_said(name, theirs)}, third {_said(name, mine)}"
                for name, theirs, mine in zip(names, shown.words, words, strict=True)
                if theirs != mine
            ]
            if ports != shown.ports:
                lines += [f"  ports: model {shown.ports}", f"         third {ports}"]
            if dumped != shown.dumped:
                lines += [f"  dump: model {shown.dumped}, third {dumped}"]
            return "\n".join([*lines, "configuration:", run.text])
    return ""


def _said(name: str, word: int) -> str:
    if not name.startswith("lane ") or name.endswith("uid") or word == 0:
        return hex(word)
    names = {code: name for name, code in ni.EVENT.items()}
    fields = f"detail {word >> 8 & 0xFF}, peer {word >> 16 & 0xFFFF}, length {word >> 32 & 0xFFFF}, extra {word >> 48}"
    return f"{names.get(word & 0xFF, word & 0xFF)} ({fields})"

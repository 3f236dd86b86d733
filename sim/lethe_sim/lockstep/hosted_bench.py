"""The cocotb bench behind `hosted.hold`; runs inside the simulator, reads its job from ``$LETHE_JOB``."""

import json
import os
import random
from collections import Counter
from pathlib import Path

import cocotb
import numpy as np

from lethe.spec import trace
from lethe.spec.config import System, parse
from lethe.spec.events import LANE_ACCEPT, Event
from lethe.spec.wire import unpack_uid
from lethe_sim.golden.model import Golden

from .divergence import DivergenceError
from .hostile import HostileHost
from .lockstep import Lockstep


class Tormented(Lockstep):
    """Lockstep whose stimulus is made cycle by cycle, by a host for each node that hears what came of it."""

    def __init__(self, dut, system: System, seed: int, *, reproduce: str):
        super().__init__(dut, system, reproduce=reproduce, chunk=1)
        self.golden = Golden(system, external=True)
        self._scripted = True
        self._stimulus = np.zeros((1, system.nodes * system.layout.stimulus_words), np.uint64)
        self._hosts = [
            HostileHost(random.Random(f"{seed} {node}"), system, node, stalls=True) for node in range(system.nodes)
        ]
        self._resets = [(reset.node, reset.start, reset.start + reset.cycles) for reset in system.node_resets]
        self._last = (1 << system.wire.generation_bits) - 1
        self._generations: dict[tuple[int, int], int] = {}
        self.seen: Counter[str] = Counter()

    async def _chunk(self, size: int, until_drained: bool) -> int:
        assert size == 1 and not until_drained and self._stimulus is not None
        cycle = self.golden.cycle
        offered = [host.next() for host in self._hosts]
        self._stimulus[0] = [word for words in offered for word in words]
        ran = await super()._chunk(1, False)
        rows, layout = self._rows[0].tolist(), self.system.layout
        for node, host in enumerate(self._hosts):
            words = rows[layout.ni_words * node :][: layout.ni_words]
            words += rows[layout.service_base + layout.service_words * node :][: layout.service_words]
            reset = any(node == which and start <= cycle < end for which, start, end in self._resets)
            host.hear(offered[node], words, reset)
            self._count(node, words, reset)
        return ran

    def _count(self, node: int, words: list[int], reset: bool) -> None:
        """What happened, by name, and slots whose generations came round since the last reset."""
        happened = [trace.at_lane(words, lane)[0] for lane in range(trace.LANES)]
        first = self.system.layout.ni_words
        for service in self.system.services:
            happened += words[first : first + service.flags : 2]
            first += service.words
        self.seen.update(Event(trace.EVENT.of(word)).name for word in happened if word)
        if reset:
            self._generations = {key: seen for key, seen in self._generations.items() if key[0] != node}
            return
        accepted, uid = trace.at_lane(words, LANE_ACCEPT)
        if accepted:
            _, _, slot, generation = unpack_uid(uid)
            if generation == 0 and self._generations.get((node, slot)) == self._last:
                self.seen["GENERATIONS COME ROUND"] += 1
            self._generations[node, slot] = generation


@cocotb.test()
async def hold(dut):
    """Every seed in turn, until one differs; the outcome goes to ``outcome.json`` beside the job."""
    job_path = Path(os.environ["LETHE_JOB"])
    job = json.loads(job_path.read_text())
    system = parse(job["toml"], job["source"])
    seen: Counter[str] = Counter()
    report, ran, differ = "", 0, []
    for seed in range(job["seeds"]):
        bench = Tormented(dut, system, seed, reproduce=job["reproduce"].format(seeds=seed + 1))
        try:
            await bench.start()
            await bench.run(job["cycles"])
            await bench.settle()
            await bench.compare_counters()
        except DivergenceError as divergence:
            report = report or f"seed {seed}: {divergence}"
            differ.append(seed)
        ran += bench.golden.cycle
        seen += bench.seen
        if differ and not job["every"]:
            break
    outcome = {"report": report, "cycles": ran, "seen": seen, "differ": differ}
    job_path.with_name("outcome.json").write_text(json.dumps(outcome))

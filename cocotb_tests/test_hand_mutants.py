"""Changes made by hand that the lockstep of blocks once missed, or saw with one seed of one group only.

Each is a change of the text, in a copy of the RTL.  It must be seen with two seeds at least.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

import pytest

from lethe_sim.lockstep.block_groups import GROUPS
from tests.helpers import ROOT

HDL = "hdl/lethe"
#: Runs in the copy: for each (group, block) of the arguments, the seeds of the quick test that differ.
FIND = """
import json, sys
from lethe_sim.lockstep import block_groups as groups
from lethe_sim.lockstep.block_python import first_difference
found = []
for group, name, patient in json.loads(sys.argv[1]):
    (block,) = groups.blocks_of(group, [name]).values()
    block.patient = patient
    seeds = groups.PATIENT_SEEDS if patient else groups.SEEDS[group]
    cycles = groups.PATIENT_CYCLES[group] if patient else groups.CYCLES[group]
    found += [[group, seed] for seed in range(seeds) if first_difference(block, seed, cycles) is not None]
print(json.dumps(found))
"""


@dataclass(frozen=True, kw_only=True)
class Change:
    """``old`` becomes ``new`` in ``file``.

    The blocks (group, name) are those that have what it changes; ``patient``: they are played so.
    """

    file: str
    old: str
    new: str
    blocks: tuple[tuple[str, str], ...]
    patient: bool = False


CHANGES = {
    "Sends' tries wrap": Change(
        file=f"{HDL}/ni/action.py",
        old="Mux(soon.tries == 255, last, soon.tries + 1)",
        new="Mux((soon.tries == 255) & ~soon.repeating, last, soon.tries + 1)",
        blocks=(("ni32", "ni 32"),),
        patient=True,
    ),
    "Acks' tries wrap": Change(
        file=f"{HDL}/ni/action.py",
        old="Mux(soon.tries == 255, last, soon.tries + 1)",
        new="Mux((soon.tries == 255) & ~soon.acking, last, soon.tries + 1)",
        blocks=(("ni32", "ni 32"),),
        patient=True,
    ),
    "the quarantine's tail does not come round": Change(
        file=f"{HDL}/ni/completion.py",
        old="tail.eq(step(tail, slots))",
        new="tail.eq(tail + 1)",
        blocks=(("ni64", "ni 64"), ("ni128", "ni 128")),
    ),
    "a Send or BE of one flit is judged by its length": Change(
        file=f"{HDL}/ni/receiver.py",
        old="Mux(single, is_answer | is_forget, is_answer | is_forget | is_data)",
        new="is_answer | is_forget | is_data",
        blocks=(("ni128", "ni 128"),),
    ),
    "a wrong last is good": Change(
        file=f"{HDL}/traffic/checker.py",
        old="second.ends != second.clip",
        new="0",
        blocks=(("small", "checker 64, 32"),),
    ),
    "beats beyond the length begin a key": Change(
        file=f"{HDL}/traffic/checker.py",
        old="(first.at == part) & ~late",
        new="first.at == part",
        blocks=(("small", "checker 64, 32"),),
    ),
    "the payload comes round after 512 bytes": Change(
        file=f"{HDL}/traffic/payload.py", old="Cat(*[number[:8]] * 4)", new="Cat(*[number[:7], 0] * 4)",
        blocks=(("small", "generator 128, 4096"),),
    ),
    "a deadline is over one cycle late": Change(
        file=f"{HDL}/ni/send_side.py",
        old="(minus_one & (passed[0] | self.advance))",
        new="(minus_one & passed[0] & self.advance)",
        blocks=(("ni16", "ni 16"), ("ni64", "ni 64")),
    ),
    "an Ack of any node releases": Change(
        file=f"{HDL}/ni/send_side.py",
        old="to_source.eq(row.destination[: form.node_bits] == later.source)",
        new="to_source.eq(1)",
        blocks=(("ni16", "ni 16"),),
    ),
    "a repeat sends best effort": Change(
        file=f"{HDL}/ni/transmitter.py",
        old="stray.eq(is_repeat & finishes)",
        new="stray.eq(is_repeat & record.refused)",
        blocks=(("ni16", "ni 16"),),
    ),
    "measured time-outs double beyond the steps": Change(
        file=f"{HDL}/ni/round_trip.py",
        old="Mux(step > most, most, step) for most in doublings",
        new="most for most in doublings",
        blocks=(("ni16", "ni 16"), ("ni128", "ni 128")),
    ),
    "measured time-outs double beyond the ceiling": Change(
        file=f"{HDL}/ni/round_trip.py",
        old="Mux(step > most, most, step) for most in doublings",
        new="step for most in doublings",
        blocks=(("ni16", "ni 16"), ("ni128", "ni 128")),
    ),
    "the first round of eight is not drawn": Change(
        file=f"{HDL}/fabric/router.py",
        old="turn = draw[: (rule.ports - 1).bit_length()]",
        new="turn = draw[: (rule.ports - 1).bit_length()] & 3",
        blocks=(("wide routers", "fly of 8"),),
    ),
    "the first round of sixteen is not drawn": Change(
        file=f"{HDL}/fabric/router.py",
        old="turn = draw[: (rule.ports - 1).bit_length()]",
        new="turn = draw[: (rule.ports - 1).bit_length()] & 7",
        blocks=(("wide routers", "6-ary tree level 0, latency 4"),),
    ),
    "up-ports are drawn a cycle ahead of their heads": Change(
        file=f"{HDL}/fabric/router.py",
        old="setattr(now, name, _registered(m, value, name, cut))",
        new='setattr(now, name, value if name == "turn_up" else _registered(m, value, name, cut))',
        blocks=(("routers", "3-ary tree level 1, latency 4"),),
    ),
    "an output is freed a cycle ahead of the last flit": Change(
        file=f"{HDL}/fabric/router.py",
        old="setattr(now, name, _registered(m, value, name, cut))",
        new='setattr(now, name, value if name == "holds" else _registered(m, value, name, cut))',
        blocks=(("routers", "mesh middle, latency 2"),),
    ),
    "a REJECT ends whatever is live": Change(
        file=f"{HDL}/ni/send_side.py",
        old="answerable & (soon.ack | soon.reject if rejects else soon.ack)",
        new="((answerable & soon.ack) | soon.reject if rejects else answerable & soon.ack)",
        blocks=(("ni options", "ni 64"),),
    ),
    "a silent node is heard after one repeat more": Change(
        file=f"{HDL}/ni/misses.py",
        old="Mux(old == most, most, old + 1)",
        new="old + 1",
        blocks=(("ni options", "ni 64"), ("ni options", "ni 16")),
    ),
    "a node that answers is still silent": Change(
        file=f"{HDL}/ni/misses.py",
        old="Mux(third.answer, 0, ",
        new="Mux(0, 0, ",
        blocks=(("ni options", "ni 64"),),
    ),
    "a slot lingers from two cycles after the end on": Change(
        file=f"{HDL}/ni/linger.py",
        old="lingered | (self.follows & doubts)",
        new="lingered",
        blocks=(("ni paths", "ni 64"),),
    ),
    "the first path is taken that is not left out, whichever is wanted": Change(
        file=f"{HDL}/ni/paths.py",
        old=" >> route.wanted",
        new="",
        blocks=(("ni paths", "ni 64"),),
    ),
    "a path is left out until an Ack comes on it": Change(
        file=f"{HDL}/ni/paths.py",
        old="m.d.sync += out.eq(0)",
        new="m.d.sync += out.eq(out)",
        blocks=(("ni paths", "ni 64"),),
    ),
    "a node is probed twice in a period": Change(
        file=f"{HDL}/ni/transmitter.py",
        old="~(probes & ~judge.probed)",
        new="~probes",
        blocks=(("ni options", "ni 64"), ("ni options", "ni 16")),
    ),
    "a BE is a probe": Change(
        file=f"{HDL}/ni/transmitter.py",
        old="is_new & ~record.best_effort",
        new="is_new",
        blocks=(("ni options", "ni 64"), ("ni options", "ni 16")),
    ),
    "repeats go before control": Change(
        file=f"{HDL}/ni/transmitter.py",
        old="repeats_first.eq(self.repeats.valid & ~control)",
        new="repeats_first.eq(self.repeats.valid)",
        blocks=(("ni options", "ni 64"),),
    ),
    "control takes any class": Change(
        file=f"{HDL}/ni/accept.py",
        old="record.cls < (1 << form.class_bits) - system.ni.control_classes",
        new="0 * record.cls",
        blocks=(("ni options", "ni 64"),),
    ),
    "data do not yield to control": Change(
        file=f"{HDL}/ni/accept.py",
        old="may = ~self.yields if self._yields else 1",
        new="may = 1",
        blocks=(("ni options", "ni 64"),),
    ),
    "the reserve is a slot larger": Change(
        file=f"{HDL}/ni/accept.py",
        old="self.waiting < system.ni.reserved_slots",
        new="self.waiting <= system.ni.reserved_slots",
        blocks=(("ni options", "ni 64"),),
    ),
    "bits beyond the length are merged": Change(
        file=f"{HDL}/ni/transmitter.py",
        old="self.merge_mask & Cat(bit.replicate(8) for bit in within)[:bits]",
        new="self.merge_mask",
        blocks=(("ni options", "ni 64"),),
    ),
    "all flits are merged": Change(
        file=f"{HDL}/link/serialiser.py",
        old="early.opens.eq(~self.start & in_payload & ~begun)",
        new="early.opens.eq(~self.start & in_payload)",
        blocks=(("ni options", "ni 64"),),
    ),
    "word and mask are read a cycle late": Change(
        file=f"{HDL}/ni/transmitter.py",
        old="m.d.sync += [left.eq(sent), fresh.eq(left)]",
        new="late = Signal()\n        m.d.sync += [left.eq(sent), late.eq(left), fresh.eq(late)]",
        blocks=(("ni options", "ni 64"),),
    ),
    "arrivals of control are told": Change(
        file=f"{HDL}/ni/receiver.py",
        old='own = fifo_of(self._system, fields["class"]) == 0 if len(self.fill) > 1 else 1',
        new="own = 1",
        blocks=(("ni options", "ni 64"), ("ni options", "ni 16")),
    ),
    "bits beyond the length arrive": Change(
        file=f"{HDL}/ni/receiver.py",
        old='(fields["length"] > byte).replicate(8)',
        new='(fields["length"] >= byte).replicate(8)',
        blocks=(("ni options", "ni 64"), ("ni options", "ni 16")),
    ),
    "what is refused has an entry": Change(
        file=f"{HDL}/ni/receive_side.py",
        old="delivery & ~(fifos[0] & refused), commits[0] & ~refused",
        new="delivery, commits[0] & ~refused",
        blocks=(("ni options", "ni 64"), ("ni options", "ni 16")),
    ),
    "control is refused": Change(
        file=f"{HDL}/ni/receive_side.py",
        old="delivery & ~(fifos[0] & refused)",
        new="delivery & ~refused",
        blocks=(("ni options", "ni 64"), ("ni options", "ni 16")),
    ),
    "whatever is refused is rejected": Change(
        file=f"{HDL}/ni/receive_side.py",
        old="(self.refusal == ACCEPTANCE.index(Drop.NOT_OPEN))",
        new="self.refusal[0]",
        blocks=(("ni options", "ni 64"), ("ni options", "ni 16")),
    ),
    "a sweep takes a set as it was read": Change(
        file=f"{HDL}/ni/receive_side.py",
        old="vague.eq(unsure | (near & changes))",
        new="vague.eq(near & changes)",
        blocks=(("ni options", "ni 64"), ("ni options", "ni 16")),
    ),
    "a sweep goes on after an entry": Change(
        file=f"{HDL}/ni/receive_side.py",
        old="stays.eq(matched.any() | vague)",
        new="stays.eq(vague)",
        blocks=(("ni options", "ni 64"), ("ni options", "ni 16")),
    ),
    "a step of a sweep does not wait for the one before": Change(
        file=f"{HDL}/ni/choose.py",
        old="steps = Signal(CHOSEN) if sweep_too else Const(0)",
        new="steps = Signal(CHOSEN - 1) if sweep_too else Const(0)",
        blocks=(("ni options", "ni 64"), ("ni options", "ni 16")),
    ),
    "with credits the last that got an output gets it again": Change(
        file=f"{HDL}/fabric/credits.py",
        old="behind.eq(Cat(wins[:n].any() for n in range(len(asks))))",
        new="behind.eq(Cat(wins[: n + 1].any() for n in range(len(asks))))",
        blocks=(("credit routers", "tree level 0, 4 flits"),),
    ),
    "a flit passes without a credit": Change(
        file=f"{HDL}/fabric/credits.py",
        old=".any() & credit.any())",
        new=".any())",
        blocks=(("credit routers", "3-ary tree level 1, 5 flits"),),
    ),
    "a credit that comes while one is used is one more": Change(
        file=f"{HDL}/fabric/credits.py",
        old="with m.If(self.credits[o] & ~going):",
        new="with m.If(self.credits[o]):",
        blocks=(("credit routers", "mesh middle, 16 flits"),),
    ),
    "a head asks again that has its output": Change(
        file=f"{HDL}/fabric/credits.py",
        old="head & wanted & ~won",
        new="head & wanted",
        blocks=(("credit routers", "tree top, 2 flits"),),
    ),
    "a worm of one flit keeps its output": Change(
        file=f"{HDL}/fabric/credits.py",
        old="held.eq((held | some) & ~(going & ends))",
        new="held.eq(some | (held & ~(going & ends)))",
        blocks=(("credit routers", "tree level 0, 4 flits"),),
    ),
    "the generator offers in a reset": Change(
        file=f"{HDL}/traffic/generator.py",
        old="self.send.ready & ~self.node_reset",
        new="self.send.ready",
        blocks=(("small", "generator 64, 512"),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_to_be_found(change):
    """The text that it changes is there, once; and so are its blocks."""
    assert (ROOT / change.file).read_text().count(change.old) == 1
    assert all(block in GROUPS[group]() for group, block in change.blocks)


@pytest.mark.full
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_two_seeds_see_it(change, tmp_path):
    """Of those of the quick tests, in the blocks that have what is changed."""
    shutil.copytree(ROOT / "hdl", tmp_path / "hdl", ignore=shutil.ignore_patterns("__pycache__"))
    changed = tmp_path / change.file
    changed.write_text(changed.read_text().replace(change.old, change.new))
    wanted = [(*block, change.patient) for block in change.blocks]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "hdl")}
    done = subprocess.run(
        [sys.executable, "-c", FIND, json.dumps(wanted)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)) >= 2, done.stdout

"""`scripts/kills`: deaths of relays cost no message, and a run in which one is missing is told."""

import numpy as np
import pytest

from lethe.spec import trace
from lethe.spec.events import Event
from lethe_sim.golden.model import Golden


@pytest.fixture(scope="module")
def kills(script):
    return script("kills")


@pytest.mark.parametrize("node", [0, 1, 6, 14])
@pytest.mark.parametrize("cycle", [150, 900])
def test_no_message_is_lost_with_a_relay(kills, node, cycle):
    found = kills.run(kills.Kill(node, cycle, 1))
    assert not found.found and found.messages == found.posted > 100


@pytest.mark.parametrize("event", [Event.RELAY_POST, Event.RELAY_END, Event.RELAY_SEND])
def test_what_is_missing_is_told(kills, event):
    golden = Golden(kills.drawn(kills.Kill(1, 500, 1)), record=True)
    golden.run(15_000)
    events = golden.take_events()
    ours = np.flatnonzero(trace.EVENT.of(events["word"]) == event)
    found = kills.judged(golden, np.delete(events, ours[len(ours) // 2]))
    assert found.found and found.cases and found.bad == [kills.Kill(1, 500, 1)]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("--node", "15"), "must be 0 to 14"), (("--step", "0"), "must be at least 1"),
        (("--first", "9", "--until", "9"), "--first must be below --until"), (("--seed", str(1 << 32)), "below 2^32"),
        (("--json", "nowhere/sums.json"), "nowhere/sums.json"), (("--json", "."), "is no file"),
        (("--toml", "/dev/null"), "cannot be a directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)  # fmt: skip
def test_arguments_are_checked(kills, capsys, wrong, said):
    with pytest.raises(SystemExit) as ended:
        kills.main([*wrong])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err.splitlines()[-1]

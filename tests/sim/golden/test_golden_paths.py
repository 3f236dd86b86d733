"""Paths that a sender chooses, slots that linger (sections 3.3, 4.18, 4.19): each rule where another would differ."""

import pytest

from lethe.spec.config import System
from lethe.spec.events import LANE_COMPLETE, LANE_RX, LANE_TX, Event, Kind
from lethe.spec.pin import by_path
from lethe.spec.sections import wire
from lethe.spec.stages import ACTS
from lethe.spec.toml import dump
from lethe.spec.trace import NI_FLAGS
from lethe_sim import cli
from lethe_sim.golden.blocks import Ni, Router
from lethe_sim.golden.ni import paths
from tests.helpers.golden_block_steps import events
from tests.helpers.golden_steps import offer, run, sent, worm
from tests.helpers.golden_systems import make

PATHS = 2


def system(**sections) -> System:
    """A tree with four paths; time-outs are fixed, short, and without jitter."""
    timers = {"jitter_bits": 0, "slack": 0, "backoff_steps": 0, "ceiling": 0}
    return make("tree", wire={"path_bits": PATHS}, timers=timers, **sections)


def awake(made: System) -> Ni:
    """Node 3, Ready."""
    ni = Ni(made, 3)
    run(ni, made.initial + 10)
    return ni


def fields(made: System, flits: list[int]) -> dict[str, int]:
    """The header of a message of one flit or more."""
    return {field.name: flits[0] >> field.offset & (1 << field.width) - 1 for field in made.format.common}


def message(made: System, kind: Kind, **given):
    """The arriving flits of a message to node 3 from node 6."""
    base = {"kind": kind, "destination": 3, "source": 6, "incarnation": 1, "peer_incarnation": 1}
    if kind == Kind.SEND:
        base["peer_incarnation"] = 0
    return worm(made.format.flits(base | given))


def datagram(ni: Ni, path: int = 0, **record) -> list:
    """Offer one to node 6; returns the words of that cycle."""
    words = offer(6, 0, **record)
    words[2] |= path << 48
    return [ni.step(None, words)]


def test_a_router_takes_the_up_port_of_the_path():
    """The example of 3.3: path 2 of four, two up-ports: 0, 1, 0."""
    made = make("tree", wire={"path_bits": PATHS})
    assert [by_path(2, PATHS, level, 2) for level in range(3)] == [0, 1, 0]
    for level in range(made.graph.levels - 1):
        for path in range(1 << PATHS):
            router = Router(made, level * made.graph.width)
            (head,) = worm(made.format.flits({"kind": Kind.ACK, "destination": 7, "source": 0, "path": path}))
            router.step([head, *[type(head)()] * 3])
            shown, _ = router.step([type(head)()] * 4)
            assert [port for port, flit in enumerate(shown) if flit.valid] == [2 + by_path(path, PATHS, level, 2)]


def test_the_second_repeat_takes_the_next_path():
    """The example of 4.18."""
    made = system()
    rows = datagram(ni := awake(made), path=3) + run(ni, 6 * made.delays[-1])
    launched = [fields(made, flits)["path"] for flits in sent(rows)]
    assert launched[:5] == [3, 3, 0, 0, 1]


def test_an_ack_takes_the_path_of_its_send_and_goes_on_from_there():
    made = system()
    ni = awake(made)
    rows = run(ni, 6 * made.delays[-1], arrivals=message(made, Kind.SEND, path=2))
    assert [fields(made, flits)["path"] for flits in sent(rows)][:5] == [2, 2, 3, 3, 0]
    rows = run(ni, 20, arrivals=message(made, Kind.SEND, path=1))
    assert fields(made, sent(rows)[0])["path"] == 1  # the duplicate's


def test_a_forget_takes_the_path_of_its_ack():
    made = system()
    rows = run(awake(made), 20, arrivals=message(made, Kind.ACK, path=1))
    assert [(fields(made, flits)["kind"], fields(made, flits)["path"]) for flits in sent(rows)] == [(Kind.FORGET, 1)]


@pytest.mark.parametrize(("bits", "after"), [(0, 255), (1, 252), (2, 248), (6, 128)])
def test_tries_go_round_where_there_are_paths(bits, after):
    k = Ni(make("tree", wire={"path_bits": bits}), 0).k
    assert (paths.next_tries(k, 254), paths.next_tries(k, 255)) == (255, after)


def kinds(rows, lane) -> list[int]:
    return [event for _, event, _ in events(rows, lane)]


LINGER = 300


def doubted() -> tuple[System, Ni, int]:
    """One slot that lingers: its NI, and for how many cycles it does so still."""
    made = system(ni={"linger": LINGER, "slots": 2})
    ni = awake(made)
    rows = datagram(ni) + run(ni, made.delays[-1] + 40)
    assert Event.REPEAT in kinds(rows, LANE_RX)
    rows = run(ni, 40, arrivals=message(made, Kind.ACK))
    assert kinds(rows, LANE_RX) == [Event.RELEASE] and not sent(rows)
    ((taken, event, _),) = events(rows, LANE_COMPLETE)
    assert event == Event.COMPLETE
    return made, ni, LINGER - (40 - taken)


def test_what_was_repeated_leaves_its_slot_in_doubt():
    """RELEASE and COMPLETE at once; but no Forget, for an Ack that comes again neither."""
    made, ni, _ = doubted()
    rows = run(ni, 20, arrivals=message(made, Kind.ACK))
    assert kinds(rows, LANE_RX) == [Event.ACK_IGNORED] and not sent(rows)
    for other in ({"generation": 1}, {"incarnation": 2}, {"slot": 1}):
        rows = run(ni, 20, arrivals=message(made, Kind.ACK, **other))
        assert kinds(rows, LANE_TX) == [Event.FORGET], other


@pytest.mark.parametrize(("late", "answered"), [(0, False), (1, True)])
def test_a_slot_lingers_to_the_cycle(late, answered):
    made, ni, left = doubted()
    run(ni, left + late - ACTS)
    rows = run(ni, 20, arrivals=message(made, Kind.ACK))
    assert (kinds(rows, LANE_TX) == [Event.FORGET]) == answered


def test_a_slot_that_lingers_is_not_taken():
    _, ni, left = doubted()
    datagram(ni)  # the other slot
    assert not any(words[NI_FLAGS] >> 4 & 1 for words in run(ni, left - 10))
    assert any(words[NI_FLAGS] >> 4 & 1 for words in run(ni, 20))


def test_what_was_sent_once_is_not_held_up():
    made = system(ni={"linger": -1, "slots": 2})
    ni = awake(made)
    datagram(ni)
    rows = run(ni, 20) + run(ni, 20, arrivals=message(made, Kind.ACK))
    assert kinds(rows, LANE_RX) == [Event.RELEASE]
    assert Event.FORGET in kinds(rows, LANE_TX)


def test_a_node_takes_no_part_until_its_life_before_is_over():
    """R30: initialisation lasts as long as a message can live."""
    made = system(ni={"linger": -1})
    assert made.initial == made.linger == made.packet_life + 6
    longer = system(ni={"linger": 777})
    ni = Ni(longer, 3)
    ready = [bool(words[NI_FLAGS] >> 4 & 1) for words in run(ni, 790)]
    assert ready.index(True) == 777


def failing(after: int, probe: int) -> tuple[System, Ni]:
    """An NI that leaves a path out after so many repeats on it."""
    timers = {"jitter_bits": 0, "slack": 0, "backoff_steps": 0, "path_after": after, "path_probe": probe}
    made = make("tree", wire={"path_bits": PATHS}, timers=timers)
    return made, awake(made)


def first_path(made: System, ni: Ni, path: int) -> int:
    """The path of a datagram's first Send; its Ack comes at once, on the same."""
    datagram(ni, path)
    rows = run(ni, 20)
    header = fields(made, sent(rows)[0])
    run(
        ni,
        20,
        arrivals=message(made, Kind.ACK, slot=header["slot"], generation=header["generation"], path=header["path"]),
    )
    return header["path"]


def test_a_path_that_fails_is_left_out_and_comes_back_with_an_ack():
    made, ni = failing(2, 1 << 20)
    launched = [fields(made, flits)["path"] for flits in sent(datagram(ni, path=1) + run(ni, 9 * made.delays[-1]))]
    assert launched[:6] == [1, 1, 2, 2, 3, 3]  # as ever: it goes on before paths 1 and 2 are left out
    assert [first_path(made, ni, path) for path in range(4)] == [0, 0, 0, 0]


def test_a_path_that_is_left_out_is_tried_again_once_in_a_period():
    made, ni = failing(1, 4000)
    datagram(ni, path=1)
    run(ni, made.delays[-1] + 40)
    run(ni, 20, arrivals=message(made, Kind.ACK, path=2))
    assert first_path(made, ni, 1) == 2
    run(ni, 4000)
    assert first_path(made, ni, 1) == 1  # and it came through
    assert first_path(made, ni, 1) == 1


CROWDED = {
    "topology": {"kind": "tree", "arity": 4, "levels": 2},
    "wire": {"path_bits": 2},
    "router": {"queue": 4, "max_wait": 400},
    "workload": {"load": 0.6, "count": 100},
    "faults": {"loss": 0.02},
}


@pytest.mark.parametrize("lingers", [True, False])
def test_only_slots_that_linger_bear_unequal_paths(lingers, monkeypatch, tmp_path, capsys):
    """Worms wait in long queues on four paths.  Without linger, which is refused, one is delivered twice."""
    if not lingers:
        checked = wire._paths
        monkeypatch.setattr(
            wire,
            "_paths",
            lambda system, fail: checked(system, lambda key, *said: key == "ni.linger" or fail(key, *said)),
        )
    made = System.make(**CROWDED, ni={"linger": -1 if lingers else 0})
    file = tmp_path / "crowded.toml"
    file.write_text(dump(made))
    code = cli.main(["run", str(file)])
    out = capsys.readouterr().out
    assert ("doubled" in out) == (not lingers), out
    assert code == (0 if lingers else 1)

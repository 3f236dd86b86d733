"""What both implementations of relay compute from a configuration: notices, the words of the tree player, numbers."""

import pytest

from lethe.spec.config import System
from lethe.spec.overlay import Overlay
from lethe.spec.services import RELAY, relay
from tests.helpers.relay_systems import deaths, relay_system


def test_the_header_has_sixteen_bytes():
    """RELM-20."""
    assert sum(bits for _, bits in relay.HEADER) == 128
    for flit_bits, beats in ((16, 8), (32, 4), (64, 2), (128, 1)):
        system = relay_system(wire={"flit_bits": flit_bits, "mtu": 64}, ni={"slots": 8})
        assert (system.relay_header_beats, system.relay_mtu) == (beats, 48)


@pytest.mark.parametrize(("slots", "window", "found"), [(16, 0, 4), (2, 0, 1), (16, 9, 9)])
def test_the_window_is_a_quarter_of_the_slots(slots, window, found):
    assert relay_system(relay={"slots": slots, "window": window}).relay_window == found


def test_the_port_above():
    system = relay_system()
    port = system.top_port
    assert system.services == (RELAY,) and port.slots == 16 + 16 + 1 and port.tree
    assert port.delivers == ("deliver", "deliver_relay") and not port.control
    assert System.make().top_port.tree is False


def test_every_other_node_is_told_of_a_death():
    system = relay_system(faults=deaths((1, 300), (6, 100)), relay={"notice": 1000, "spread": 200})
    for node, told in enumerate(system.relay_notices):
        assert [dead for _, dead in told] == [dead for dead in (6, 1) if dead != node]
        for cycle, dead in told:
            start = {1: 300, 6: 100}[dead]
            assert start + 1000 <= cycle <= start + 1200
    cycles = {cycle for told in system.relay_notices for cycle, _ in told}
    assert len(cycles) > 8  # they are drawn
    again = relay_system(faults=deaths((1, 300), (6, 100)), relay={"notice": 1000, "spread": 200})
    assert again.relay_notices == system.relay_notices
    other = relay_system(faults=deaths((1, 300), (6, 100)), relay={"notice": 1000, "spread": 200}, run={"seed": 7})
    assert other.relay_notices != system.relay_notices


def test_a_notice_can_be_given_and_can_be_false():
    rows = [
        {"node": 2, "died": 1, "start": 70},
        {"node": 2, "died": 1, "start": 50},
        {"node": 3, "died": 5, "start": 9},
    ]
    system = relay_system(faults=deaths((1, 300)) | {"notices": rows}, relay={"spread": 0, "notice": 10})
    assert system.relay_notices[2] == ((50, 1),)
    assert system.relay_notices[3] == ((9, 5), (310, 1))
    assert system.relay_notices[1] == ()


def test_the_words_of_a_tree_player_say_the_tree():
    """RELM-27, RELM-28, RELM-32."""
    system = relay_system(faults=deaths((1, 300), (0, 900)), relay={"spread": 0, "notice": 100})
    for node in (2, 3, 5, 7):
        words = system.relay_words(node)
        trees = [words[at : at + 9] for at in range(0, 27, 9)]
        assert len(words) == 27
        dead: list[int] = []
        for number, (*routes, notice) in enumerate(trees):
            tree = Overlay(nodes=8, radix=2, dead=frozenset(dead := [[], [1], [1, 0]][number]))
            assert {word.cycle for word in (*routes, notice)} == {(0, 400, 1000)[number]}
            assert [word.target for word in routes] == list(range(8))
            for word in routes:
                hop = tree.route(node, word.target)
                assert word.code == 0 and word.hop == (node if hop < 0 else hop)
                if word.hop == node:
                    way = 0
                elif word.hop == tree.parent(node):
                    way = 1
                else:
                    way = 2 + tree.children(node).index(word.hop)
                assert word.way == way
            assert (notice.code, notice.target) == (1, dead[-1] if dead else node)
            assert notice.depth == tree.depth(node)
            before = Overlay(nodes=8, radix=2, dead=frozenset(dead[:-1]))
            assert notice.promoted == int(bool(dead) and tree.place[node] != before.place[node])


def test_without_a_tree_every_way_is_direct():
    words = relay_system(relay={"radix": 0}).relay_words(3)
    assert [(word.hop, word.way) for word in words[:-1]] == [(node, 0) for node in range(8)]
    assert words[-1].depth == 0

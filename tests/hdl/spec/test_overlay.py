"""The overlay of relay: a tree over the living, whoever dies; a death changes what it must, and nothing else."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.spec.overlay import NOWHERE, Change, Overlay

#: (nodes, radix): of each, every set of deaths is tried.
SMALL = ((1, 2), (2, 2), (3, 2), (5, 2), (7, 2), (9, 2), (6, 1), (8, 3), (9, 4), (7, 64))
small = pytest.mark.parametrize(("nodes", "radix"), SMALL, ids=lambda value: str(value))


def deaths(nodes: int):
    """Every set of dead nodes."""
    return (frozenset(dead) for count in range(nodes + 1) for dead in combinations(range(nodes), count))


def holders(nodes: int, radix: int, dead: frozenset[int]) -> dict[int, int]:
    """Which node has which place, by the words of the rule: the first living one of a subtree that has no place yet."""

    def below(place: int) -> list[int]:
        first, width = 0, 1
        while place >= first + width:
            first, width = first + width, width * radix
        return [child for k in range(1, radix + 1) if (child := place + k * width) < nodes]

    def order(place: int) -> list[int]:
        return [place, *(one for child in reversed(below(place)) for one in order(child))]

    found: dict[int, int] = {}

    def fill(place: int) -> None:
        left = [node for node in order(place) if node not in dead and node not in found.values()]
        if left:
            found[place] = left[0]
        for child in reversed(below(place)):
            fill(child)

    fill(0)
    return found


def check(tree: Overlay) -> None:
    """What holds in every tree."""
    assert {node for node in range(tree.nodes) if tree.place[node] != NOWHERE} == set(tree.living)
    assert all(tree.holder[tree.place[node]] == node for node in tree.living)
    seen, front = set(), [tree.root] if tree.living else []
    while front:
        node = front.pop()
        assert node not in seen, "once in the tree"
        seen.add(node)
        assert len(tree.children(node)) <= tree.radix
        for child in tree.children(node):
            assert tree.parent(child) == node and tree.depth(child) == tree.depth(node) + 1
            assert tree.ancestors(child) == (node, *tree.ancestors(node))
            front.append(child)
    assert seen == set(tree.living), "connected"
    for node in tree.living:
        for target in tree.living:
            path = tree.path(node, target)
            assert path[0] == node and path[-1] == target and len(set(path)) == len(path)
            assert all(b in tree.neighbours(a) for a, b in pairwise(path))
            assert path == tuple(reversed(tree.path(target, node)))


def check_death(before: Overlay, node: int) -> None:
    """What a single death does."""
    change = before.change([node])
    after = change.after
    way = [before.place[node]]
    while nodes := before.children(before.holder[way[-1]]):
        way.append(before.place[nodes[-1]])
    assert change.promoted == tuple(sorted(before.holder[place] for place in way[1:]))
    for one in after.living:
        moved = one in change.promoted
        assert after.depth(one) == before.depth(one) - moved
        if moved:
            assert set(change.new_neighbours(one)) == set(after.neighbours(one))
            continue
        assert after.place[one] == before.place[one]
        lost = set(before.neighbours(one)) - set(after.neighbours(one))
        gained = set(change.new_neighbours(one))
        touched = {node, *change.promoted}
        assert gained <= touched and lost <= touched and len(gained) <= len(lost)
        assert set(change.rerouted(one)) <= {
            target
            for target in after.living
            if target in touched or before.route(one, target) in touched or after.route(one, target) in touched
        }


@small
def test_every_set_of_deaths_gives_a_tree_of_the_living(nodes, radix):
    """And it is the tree of the rule: a place has the first living node of its subtree that has none further up."""
    for dead in deaths(nodes):
        tree = Overlay(nodes=nodes, radix=radix, dead=dead)
        check(tree)
        assert {place: node for place, node in enumerate(tree.holder) if node != NOWHERE} == holders(nodes, radix, dead)


@small
def test_a_death_changes_only_what_it_must(nodes, radix):
    for dead in deaths(nodes):
        tree = Overlay(nodes=nodes, radix=radix, dead=dead)
        for node in tree.living:
            check_death(tree, node)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 50), st.integers(2, 7), st.randoms(use_true_random=False))
def test_larger_trees_and_any_order_of_deaths(nodes, radix, random):
    dead = random.sample(range(nodes), random.randrange(min(nodes, 8)))
    tree = step = Overlay(nodes=nodes, radix=radix, dead=frozenset(dead))
    check(tree)
    step = Overlay(nodes=nodes, radix=radix)
    for node in dead:
        check_death(step, node)
        step = step.without(node)
    assert (step.place, step.holder, step.routes) == (tree.place, tree.holder, tree.routes)


def test_the_example_of_the_module():
    tree = Overlay(nodes=7, radix=2)
    assert [tree.children(node) for node in range(3)] == [(1, 2), (3, 5), (4, 6)]
    assert tree.path(3, 4) == (3, 1, 0, 2, 4) and tree.depth(4) == 2 and tree.ancestors(4) == (2, 0)
    first = tree.change([1])
    assert first.promoted == (5,) and first.after.children(0) == (5, 2) and first.after.children(5) == (3,)
    assert first.new_neighbours(5) == (0, 3) and first.new_neighbours(0) == (5,) and first.new_neighbours(2) == ()
    second = first.after.change([0])
    assert second.promoted == (2, 6) and second.after.root == 2
    assert second.after.children(2) == (5, 6) and second.after.children(6) == (4,)
    assert second.after.path(3, 4) == (3, 5, 2, 6, 4) and second.rerouted(5) == (2, 4, 6)
    assert second.after.routes[5] == (NOWHERE, NOWHERE, 2, 3, 2, 5, 2)


def test_layers_are_numbered_as_those_of_prrte():
    """The children of a node are one, two, … widths of its layer further on, in a tree of 64 with radix 3."""
    tree = Overlay(nodes=64, radix=3)
    assert tree.children(0) == (1, 2, 3) and tree.children(2) == (5, 8, 11) and tree.children(5) == (14, 23, 32)
    assert tree.parent(63) == 36 and tree.depth(63) == 4 and tree.root == 0


def test_radix_0_is_direct():
    tree = Overlay(nodes=4, radix=0, dead=frozenset((2,)))
    assert tree.routes == ((0, 1, -1, 3), (0, 1, -1, 3), (-1, -1, -1, -1), (0, 1, -1, 3))
    assert tree.root == NOWHERE and tree.parent(1) == NOWHERE and tree.children(0) == () and tree.depth(3) == 0
    assert tree.neighbours(1) == (0, 3) and tree.path(0, 3) == (0, 3) and tree.ancestors(3) == ()
    assert tree.change([3]).promoted == () and tree.change([3]).new_neighbours(1) == ()


def test_what_is_dead_has_no_place():
    tree = Overlay(nodes=7, radix=2, dead=frozenset((1,)))
    assert tree.place[1] == NOWHERE and tree.depth(1) == NOWHERE and tree.parent(1) == NOWHERE
    assert tree.children(1) == tree.neighbours(1) == tree.ancestors(1) == tree.path(0, 1) == tree.path(1, 0) == ()
    assert tree.route(0, 1) == tree.route(1, 0) == tree.route(1, 1) == NOWHERE
    assert Overlay(nodes=2, radix=2, dead=frozenset((0, 1))).root == NOWHERE


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"nodes": 0, "radix": 2}, "nodes must be 1 to 65536, not 0"),
        ({"nodes": 4, "radix": -1}, "radix must be 0 to 65535, not -1; 0 is no tree"),
        ({"nodes": 4, "radix": 2, "dead": {7, 4}}, "dead must be nodes 0 to 3, not 4"),
        (
            {"nodes": 65, "radix": 1},
            "radix = 1: 65 nodes are 64 layers deep, and the header counts to 63; raise the radix",
        ),
    ],
)
def test_an_error_says_what_is_wrong(keys, said):
    with pytest.raises(ValueError) as found:
        Overlay(**keys)
    assert str(found.value) == said


def test_errors_of_questions():
    tree = Overlay(nodes=4, radix=2)
    with pytest.raises(ValueError, match="node must be 0 to 3, not 4"):
        tree.route(0, 4)
    with pytest.raises(ValueError, match="after must have the dead of before: node 1 cannot return"):
        Change(before=tree.without(1), after=tree)
    with pytest.raises(ValueError, match="before and after must have the same nodes and the same radix"):
        Change(before=tree, after=Overlay(nodes=4, radix=3))


def test_a_chain_of_64_is_the_deepest():
    assert Overlay(nodes=64, radix=1).depth(63) == 63
    assert Overlay(nodes=65536, radix=2).depth(65535) == 16

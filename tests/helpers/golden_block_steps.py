"""Single blocks of the golden model, step by step."""

from lethe.spec.events import Event, Kind
from lethe_sim.golden.blocks import Flit, Ni
from tests.helpers.golden_steps import run, worm
from tests.helpers.golden_systems import make

READY = 40  # cycles after which every NI of these tests is Ready

SYSTEM = make("tree", wire={"flit_bits": 64})

FORM = SYSTEM.format


def ready(node, system=SYSTEM):
    """An NI that is Ready."""
    ni = Ni(system, node)
    run(ni, READY)
    return ni


def events(rows, lane=1):
    """(cycle after the first row, event, detail) of a lane, without the Acks that are due again."""
    found = [(i, row[2 * lane] & 0xFF, row[2 * lane] >> 8 & 0xFF) for i, row in enumerate(rows) if row[2 * lane]]
    return [event for event in found if event[1] != Event.ACK_REPEAT]


def message(kind, *, length=0, **fields):
    """The arriving flits of a message to node 3 from node 6, unless ``fields`` says otherwise."""
    base = {"kind": kind, "destination": 3, "source": 6, "generation": 5, "incarnation": 1}
    base |= {"mode": int(kind == Kind.BE)} if kind in (Kind.SEND, Kind.BE) else {}
    base |= {"length": length} if length else {}
    return worm(FORM.flits(base | fields, bytes(length)))


def head(router_system, destination, last=0):
    """A head for a node."""
    return Flit(1, 1, last, destination << router_system.format.common[1].offset)


BODY, TAIL = Flit(1, 0, 0, 1), Flit(1, 0, 1, 1)


def step(router, **flits):
    """One cycle with flits on inputs ``p0``, ``p1`` …; returns (outputs with a flit, events by input)."""
    shown, words = router.step([flits.get(f"p{port}", Flit()) for port in range(router.ports)])
    return [p for p, flit in enumerate(shown) if flit.valid], {p: word & 0xFF for p, word in enumerate(words) if word}

"""Walks (7.12) and the tree (7.13): what a notice of a death, or a neighbour's PULL, has to be done for."""

from lethe.spec.events import RELAY_RELAYS, Cause, Event, Status
from lethe.spec.services.relay import RecordState, RelayJob, Type
from lethe_sim.golden.compile import apart, jit
from lethe_sim.golden.events import event_word
from lethe_sim.golden.lib.bits import U0
from lethe_sim.golden.services import site

from . import records, tell
from .state import (
    Phase,
    cell_at,
    entry_at,
    give_free,
    other_route_at,
    relation,
    route_at,
    slot_at,
    to_at,
)

# What a walk is for.
FOR_PULL, FOR_NOTICE = 1, 2
# Its phases.
NODES, SLOTS, RECORDS, CELLS = 1, 2, 3, 4


@jit
def wanted(relay):
    """Whether a walk is under way or wanted."""
    return relay.walking or relay.notice_wanted or relay.pulled


@jit
def may_begin(s, relay):
    """Whether a walk begins: not while a word of the tree is offered."""
    if relay.walking or relay.job == RelayJob.TREE or s.above.drives.tree_valid:
        return False
    return relay.notice_wanted or relay.pulled


@jit
def uses(relay, phase, row):
    """Whether a row needs a job."""
    if phase == SLOTS:
        return slot_at(relay, row).live != 0
    if phase == RECORDS:
        return entry_at(relay, row).valid != 0
    if phase == CELLS:
        return cell_at(relay, row).parked != 0
    return relation(relay, row) > 0


@jit
def used(s, relay):
    """Whether the row whose turn it is does, as of the start of the cycle before."""
    if relay.stepped == s.cycle - 1:
        return relay.row_used != 0
    return uses(relay, relay.walk_phase, relay.walk_row)


@jit
def phase_size(relay, phase):
    """How many rows a phase has."""
    return (relay.nodes, relay.slots, relay.entries, relay.cells)[phase - 1]


@jit
def uses_next(relay):
    """Whether the row behind does, if there is one."""
    phase, row = relay.walk_phase, relay.walk_row + 1
    if row == phase_size(relay, phase):
        phase, row = phase + 1, 0
    return phase <= CELLS and uses(relay, phase, row)


@jit
def first_phase(relay):
    """The one that a walk would begin with."""
    return NODES if relay.notice_wanted and relay.radix > 0 else SLOTS


@jit
def begin(relay):
    """A walk begins, from the next cycle on."""
    relay.walking = FOR_NOTICE if relay.notice_wanted else FOR_PULL
    relay.walk_phase = first_phase(relay)
    relay.notice_wanted, relay.walk_row = 0, 0


@apart
def act(s, relay):
    """A row is looked at; a stream to the dead is ended in further steps."""
    if relay.phase == Phase.FREE:
        end_next(s, relay)
    elif relay.walk_phase == SLOTS:
        slot(s, relay, slot_at(relay, relay.walk_row))
    elif relay.walk_phase == RECORDS:
        record(s, relay, entry_at(relay, relay.walk_row))
    elif relay.walk_phase == CELLS:
        cell(s, relay)
    else:
        node(s, relay)
    if relay.phase == Phase.FIRST:
        go_on(relay)


@jit
def go_on(relay):
    """The next row, or the end."""
    relay.walk_row += 1
    if relay.walk_row < phase_size(relay, relay.walk_phase):
        return
    relay.walk_row = 0
    relay.walk_phase += 1
    if relay.walk_phase > (RECORDS if relay.walking == FOR_PULL else CELLS):
        if relay.walking == FOR_NOTICE:
            relay.for_all = 0
        relay.walking = 0


@jit
def moved(relay, target):
    """Whether what goes to a node goes another way, or was asked for."""
    route = route_at(relay, target)
    if relay.asking >> route.way & 1:
        return True
    return relay.walking == FOR_NOTICE and (relay.for_all or route.hop != other_route_at(relay, target).hop)


@jit
def slot(s, relay, slot):
    """An own message (M26, M29)."""
    if not slot.live:
        return
    if route_at(relay, slot.target).hop == s.node:
        relay.job_number = slot.target
        end_next(s, relay)
    elif moved(relay, slot.target):
        out = tell.of_slot(s, relay, Type.LINK, slot)
        out.slot, out.depth = relay.walk_row, relay.depth
        tell.told_to(s, relay, slot.target)


@jit
def end_next(s, relay):
    """The first message to the dead ends."""
    records.free_head(s, relay, relay.job_number, Status.UNKNOWN, Cause.SILENT)
    relay.phase = Phase.FREE if to_at(relay, relay.job_number).live > 0 else Phase.FIRST


@jit
def record(s, relay, entry):
    """A message that passes (M26, M28)."""
    if not entry.valid:
        return
    up, down = route_at(relay, entry.source).hop, route_at(relay, entry.target).hop
    if relay.walking == FOR_NOTICE and (s.node in (up, down) or up == down):
        records.end(s, relay, entry, Event.RELAY_FORGOT)
        return
    if entry.state != RecordState.ACKED and moved(relay, entry.target) and not records.is_told(relay, entry):
        out = tell.of_entry(relay, Type.LINK, entry)
        out.depth = relay.depth
        records.told(relay, relay.walk_row, tell.told_to(s, relay, entry.target))


@jit
def cell(s, relay):
    """A message that is parked (M16)."""
    cell = cell_at(relay, relay.walk_row)
    if cell.parked and route_at(relay, cell.source).hop == s.node:
        cell.parked = 0
        relay.parked -= 1
        give_free(relay, relay.free_cells[0], relay.walk_row)


@jit
def node(s, relay):
    """A node that may be a new neighbour (M27)."""
    node = relay.walk_row
    before = other_route_at(relay, node)
    knew = before.hop == node and before.way > 0
    if relation(relay, node) > 0 and (relay.for_all or not knew):
        out = tell.blank(relay, Type.PULL)
        out.source = out.target = s.node
        tell.told(s, relay, node)


# The tree


@jit
def begin_tree(s, relay):
    """The word is taken."""
    offered, word = s.above.drives, relay.key[0]
    word.type, word.target, word.hop = offered.tree_code, offered.tree_target, offered.tree_hop
    word.cls, word.depth, word.more = offered.tree_way, offered.tree_depth, offered.tree_promoted


@apart
def tree(s, relay):
    """A route is written, or a death told of."""
    word = relay.key[0]
    if word.target >= relay.nodes:
        return
    if relay.walking == FOR_NOTICE or relay.notice_wanted:
        relay.for_all = 1
    if word.type == 0:
        route = other_route_at(relay, word.target)
        sound = word.hop < relay.nodes
        route.hop, route.way = word.hop if sound else s.node, word.cls if sound else 0
        return
    relay.bank = 1 - relay.bank
    records.rise(relay)
    relay.host_waits = 0
    relay.told, relay.depth = 1, word.depth
    if word.target != s.node:
        to_at(relay, word.target).dead = 1
        if word.more:
            relay.for_all = 1
        if relay.walking == FOR_NOTICE:
            relay.walking = 0
        relay.notice_wanted, relay.cancel_walk, relay.cancel_row = 1, 1, 0
    site.tell(s, RELAY_RELAYS, event_word(Event.RELAY_NOTICE, word.more, word.target, 0), U0, 0)

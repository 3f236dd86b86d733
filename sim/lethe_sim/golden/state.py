"""Where everything is kept: the parameters of a system, and the columns of an NI's row.

`parameters` turns a `System` into one array ``k`` of whole numbers, read as ``k[SLOTS]``.  The state of
an NI is two rows: ``ni`` (whole numbers: registers in named columns, then queues, slots, tables and ladders
at places that depend on the sizes) and ``data`` (64-bit words: payloads and messages as bit strings).  What
is never used is never touched, so 65,536 nodes fit in memory.
"""

import numpy as np

from lethe.spec.config import System
from lethe.spec.random import UNIT_SALT, seed_for
from lethe.spec.sections.study import PATHS
from lethe.spec.topology import KINDS

NEVER = 1 << 62
NONE = -1

# Parameters: indices of `k`.
(
    NODES, FLIT_BITS, WORDS, HEADER_FLITS, CRC_FLITS, CONTROL_FLITS, MAX_FLITS, ONE_FLIT, MTU, SLOTS, SLOT_FLITS,
    SLOT_WORDS, SETS_LOG, WAYS, REPLY_DEPTH, DELIVER_FLITS, DELIVER_RECORDS, FIFOS, FIRST_CONTROL, TOP_CLASS, RESERVED,
    QUARANTINE, JITTER, ACK_LIMIT, STEPS, CLASSES, RUNGS, TIMER_DEPTH, INITIAL, SLOT_BITS, GENERATION_MASK,
    INCARNATION_MASK, TRY_MASK, TAG_MASK, CLASS_MASK, DEADLINE_MASK, TOPOLOGY, ARITY, LEVELS, COLUMNS, ROWS, WIDTH,
    NODE_OFFSET, NODE_BITS, LOSS, FLIP, LATENCY, PHASES, HOST, MIN_LENGTH, LENGTHS, COUNT, STOP, DEADLINE_GIVEN,
    RETRY_GIVEN, TX_RING, RX_WORDS, DATA_RING, WORD_LINKS,
    AT_QUEUES, AT_FIFOS, AT_LAST, AT_SLOTS, AT_TABLE, AT_RUNGS, AT_TOKENS, AT_TX, AT_MESSAGES, AT_PAYLOAD, AT_DATA,
    AT_TX_DATA, AT_RX, AT_HEADER, NI_WIDTH, DATA_WIDTH, ROUTER_COUNT, PORT_COUNT, LINK_COUNT,
    FLIT_SHIFT, ARITY_SHIFT, WHOLE, INPUT_WORMS, INPUT_RING, MAX_WAIT, SALT,
    CREDIT_FLITS, CREDIT_DELAY, RETURN_PHASES, SOURCE_RING, ROUTE_DELAY, GRANT_DELAY, PINNED,
    CEILING, SLACK, TIME_MASK, AT_TRIPS,
    PER_DESTINATION, REPLIES_LAST, PATH, DILATION, AT_TAKEN,
    PARAMETERS,
) = range(102)  # fmt: skip
FIELD_OFFSET = PARAMETERS  # offset and width of each header field, in the order of FIELDS
FIELD_WIDTH = FIELD_OFFSET + 12
DELAY = FIELD_WIDTH + 12  # of each rung
GAP = DELAY + 48
QUEUE = GAP + 256  # place and ring size of each queue
FIELDS = (
    "kind", "destination", "source", "slot", "generation", "incarnation", "peer_incarnation", "try",
    "length", "class", "mode", "extension",
)  # fmt: skip
(
    KIND, DESTINATION, SOURCE, SLOT, GENERATION, INCARNATION, PEER_INCARNATION, TRY, LENGTH, CLASS, MODE, EXTENSION,
) = range(12)  # fmt: skip
COMMON_FIELDS = 8

# k[TOPOLOGY], k[HOST] and k[PATH].
WIRE, CROSSBAR, FLY, TREE, MESH = range(len(KINDS))
EXTERNAL, GENERATOR, SCRIPT = range(3)
FREE_PATH, BLIND, PINNED_PATH = range(3)

# Columns of an NI's row.
(
    NUMBER, INCARNATION_NOW, RANDOM, READY_FROM, TIME_ZERO, IN_RESET, STALLED, BUSY, ENTRIES, REPLIES_DROPPED,
    ACCEPT_SLOT, ACCEPT_BEATS, ACCEPT_BEAT,
    NEXT_GRANT, TX_CLEAR, TX_SLOT, TX_FROM, TX_UNTIL, TX_END, TX_LISTED, LAUNCH, FINISH_FROM, FINISH,
    UNDER_WAY, RX_COUNT, RX_TAG, RX_STATE, RX_STATE_BEFORE, RX_FLIT, RX_FIFO, RX_PAYLOAD, OFFERED, UNCOMMITTED,
    OVERFLOW, REQUEST, REQUEST_A, REQUEST_B,
    HOST_STATE, HOST_NUMBER, HOST_UNTIL, HOST_DESTINATION, HOST_LENGTH, HOST_BEAT, GENERATOR_RANDOM,
    CHECK_STATE, CHECK_BEAT, CHECK_LENGTH, CHECK_KEY, CHECK_WRONG,
    SENT, SENT_SUM, RECEIVED, RECEIVED_SUM, WRONG, ITEMS_END,
    COLUMNS_NAMED,
) = range(56)  # fmt: skip
STAGE = COLUMNS_NAMED  # what the receiver does in cycle c, at STAGE + c mod 4
LADDER = STAGE + 4  # HOLD … OVER of the Send ladder, then of the Ack ladder
NI_COLUMNS = LADDER + 10

# Bits of STAGE.
OFFER, END, FRAGMENTED, OFFER_LAST, OFFER_FIFO = 1, 2, 4, 8, 4  # the FIFO's number from bit 4 on
# A queue's header: columns from k[AT_QUEUES] + 3·queue, and the same for a data queue at k[AT_FIFOS].
HEAD, LEVEL, VISIBLE = range(3)
# Queues; the record queue of deliver FIFO f is DELIVER + f.
FREE, NEW, REPEATS, REPLY, COMPLETION, QUARANTINED, DELIVER = range(7)
# Fields of a slot.
(
    SLOT_GENERATION, LIVE, LAUNCHED, SLOT_DESTINATION, SLOT_CLASS, SLOT_MODE, SLOT_LENGTH, DEADLINE, RETRY_LIMIT, TAG,
    EXPECT, CAUSE, STAMP, STAMP_TRY, SLOT_FIELDS,
) = range(15)  # fmt: skip
# A message that has ended, waiting to act: FIELDS, then these.
MESSAGE_FLITS, MESSAGE_GOOD, MESSAGE_FIELDS = 12, 13, 14
# Fields of a ladder, and of a token.
HOLD, HOLD_A, HOLD_B, NEXT_DUE, OVER, LADDER_FIELDS = range(6)
SEND_LADDER, ACK_LADDER = range(2)
DUE, TOKEN_A, TOKEN_B, TOKEN_FIELDS = range(4)
# Fields of a rung: the place of its oldest token, how many there are, when the oldest is due (`NEVER` without one).
RUNG_HEAD, RUNG_LEVEL, RUNG_DUE, RUNG_FIELDS = range(4)
# What is known of the round trips to a distance class: eight means, four mean deviations, and the time-out.  Behind
# those of all classes, time-outs that are not yet used: the number of the oldest and how many there are, then a ring of
# from when, for which class, and what.
MEANS, DEVIATIONS, TIME_OUT, TRIP_FIELDS = range(4)
OLDEST_LATER, LATER_COUNT, LATER_RING = range(3)
LATER_FROM, LATER_CLASS, LATER_TIME_OUT, LATER_FIELDS = range(4)
LATER = 8
# What a transmitter shows in one cycle.
SHOW_FLAGS, SHOW_WORD, SHOW_UID, SHOW_FIELDS = range(4)
# Flit flags.
VALID, FIRST, LAST = 1, 2, 4
# A head in a transmitter's ring has the flits of its worm beside its flags; where worms travel whole (k[WHOLE]), a head
# on its way also has the node it comes from and its place there.
TAG_FLITS, TAG_NODE, TAG_PLACE = 3, 16, 32
TAG_FLITS_MASK, TAG_NODE_MASK = (1 << TAG_NODE - TAG_FLITS) - 1, (1 << TAG_PLACE - TAG_NODE) - 1
LONGEST_WAY = 64  # cycles in the fabric up to which a transmitter's ring keeps worms that travel whole
# Internal requests.
NO_REQUEST, FINISH_REQUEST, SEND_REQUEST, ACK_REQUEST, CANCEL_REQUEST = range(5)
# Columns of the fabric's tables, whose rows are routers, ports (of all routers, in the order of the trace words) and
# links.  A port's row is both the input's and the output's with that number.
FIRST_PORT, PORTS, ROUTER_NUMBER, DRAWS, EXTRA_FRAGMENTS, PLACE, PLACE_SHIFT, ABOVE, TOP, ROUTER_COLUMNS = range(10)
(
    ROUTER, OUT_LINK, INPUT_MODE, INPUT_COUNT, INPUT_OUT, INPUT_HEARD, INPUT_FLAGS, ASKS, FREE_FROM, PORT_COLUMNS,
) = range(10)  # fmt: skip
# An input's queue: HEAD, LEVEL and VISIBLE, then its back, when a flit was last pushed, how many heads are in it, how
# often the one in front was refused, and what that asks for.
BACK, BACK_COUNT, BACK_HEARD, PUSHED, WAITING, PATIENCE, WANTED, QUEUE_COLUMNS = range(3, 11)
# Of credits: an input's buffer and from when what is in front of it may act, where its credits go; an output's own
# credits, the number of the input that it prefers, the best that asks for it or has it; of a source
# queue also the most flits it has held.
(
    BUFFER_HEAD, BUFFER_LEVEL, SWITCH_FROM, UPSTREAM, CREDITS, TURN, BEST, DEEPEST, BUFFER_COLUMNS,
) = range(9)  # fmt: skip
SOURCE_FLITS, MOST_SOURCE_FLITS = 64, 1 << 17  # memory of a source queue: at first, and at most
TARGET, DEAD_COUNT, SWALLOWING, LOSS_RANDOM, FLIP_RANDOM, LINK_COLUMNS = range(6)


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def longest_way(system: System) -> int:
    """Cycles in which a flit is in routers on the longest way through the fabric."""
    graph = system.graph
    return system.router.latency * graph.class_hops(graph.distance_classes - 1)


def worms_stay_whole(system: System) -> bool:
    """Whether nothing can break a worm: its head then stands for all of it until it reaches an NI.

    What is lost on a link is lost from its head on.  Flips of `first` and `last`, links that die and nodes that are
    reset leave pieces, which travel flit by flit, as all do that wait in queues.
    """
    if system.queue or system.credits or system.flip_threshold or system.faults.links or system.faults.resets:
        return False
    return longest_way(system) <= LONGEST_WAY


def parameters(system: System, host: int) -> np.ndarray:
    """``k`` for a system whose hosts are of kind ``host``."""
    form, graph, ni, timers, load = system.format, system.graph, system.ni, system.timers, system.workload
    study = system.study
    fifos = 1 + ni.control_classes
    queues = DELIVER + fifos
    k = np.zeros(QUEUE + 2 * queues, np.int64)
    whole = worms_stay_whole(system)
    ring = form.max_flits + 4 + (longest_way(system) if whole else 0)
    words = 2 if form.flit_bits == 128 else 1
    slot_words = -(-system.slot_flits * form.flit_bits // 64)
    values = {
        NODES: system.nodes, FLIT_BITS: form.flit_bits, WORDS: words, HEADER_FLITS: form.header_flits,
        CRC_FLITS: form.crc_flits, CONTROL_FLITS: form.control_flits, MAX_FLITS: form.max_flits,
        ONE_FLIT: form.one_flit_control, MTU: form.mtu, SLOTS: ni.slots, SLOT_FLITS: system.slot_flits,
        SLOT_WORDS: slot_words, SETS_LOG: ni.sets.bit_length() - 1, WAYS: ni.ways, REPLY_DEPTH: ni.reply_depth,
        DELIVER_FLITS: system.deliver_flits, DELIVER_RECORDS: ni.deliver_records, FIFOS: fifos,
        FIRST_CONTROL: (1 << form.class_bits) - ni.control_classes, TOP_CLASS: (1 << form.class_bits) - 1,
        RESERVED: ni.reserved_slots, QUARANTINE: timers.quarantine, JITTER: (1 << timers.jitter_bits) - 1,
        ACK_LIMIT: timers.ack_limit, STEPS: timers.backoff_steps, CLASSES: graph.distance_classes,
        RUNGS: system.rungs, TIMER_DEPTH: system.timer_depth, INITIAL: max(ni.slots, ni.sets),
        SLOT_BITS: form.slot_bits, GENERATION_MASK: (1 << form.generation_bits) - 1,
        INCARNATION_MASK: (1 << form.incarnation_bits) - 1, TRY_MASK: (1 << form.try_bits) - 1,
        TAG_MASK: (1 << system.wire.tag_bits) - 1, CLASS_MASK: (1 << form.class_bits) - 1,
        DEADLINE_MASK: (1 << ni.deadline_bits) - 1, TOPOLOGY: KINDS.index(graph.kind), ARITY: graph.arity,
        LEVELS: graph.levels, COLUMNS: graph.columns, ROWS: graph.rows, WIDTH: graph.width,
        NODE_OFFSET: form.common[1].offset, NODE_BITS: form.node_bits, LOSS: system.loss_threshold,
        FLIP: system.flip_threshold, LATENCY: system.router.latency, PHASES: _power(system.router.latency + 1),
        HOST: host, MIN_LENGTH: load.min_length, LENGTHS: load.max_length - load.min_length + 1, COUNT: load.count,
        STOP: load.stop, DEADLINE_GIVEN: load.deadline, RETRY_GIVEN: load.retry_limit,
        WHOLE: whole, TX_RING: _power(ring), RX_WORDS: -(-form.max_flits * form.flit_bits // 64) + 1,
        DATA_RING: system.deliver_flits + 1, FLIT_SHIFT: form.flit_bytes.bit_length() - 1,
        ARITY_SHIFT: graph.arity.bit_length() - 1 if graph.arity.bit_count() == 1 else NONE,
        INPUT_WORMS: system.queue, INPUT_RING: system.queue * form.max_flits + 1,
        MAX_WAIT: system.router.max_wait, SALT: seed_for(system.run.seed, UNIT_SALT, 0) & 0xFFFF,
        CREDIT_FLITS: system.credits, CREDIT_DELAY: system.router.credit_delay, SOURCE_RING: SOURCE_FLITS, PINNED: 1,
        RETURN_PHASES: _power(system.router.credit_delay + 1), CEILING: system.ceiling, SLACK: system.slack,
        TIME_MASK: (1 << system.time_bits) - 1, PER_DESTINATION: study.per_destination,
        REPLIES_LAST: study.replies == "last", PATH: PATHS.index(study.path), DILATION: graph.dilation,
    }  # fmt: skip
    for index, value in values.items():
        k[index] = value
    for i, field in enumerate(form.send):
        k[FIELD_OFFSET + i], k[FIELD_WIDTH + i] = field.offset, field.width
    k[DELAY : DELAY + system.rungs] = system.delays
    if host == GENERATOR:
        k[GAP : GAP + 256] = system.gaps

    at = NI_COLUMNS

    def area(index: int, size: int):
        nonlocal at
        k[index] = at
        at += size

    area(AT_QUEUES, 3 * queues)
    area(AT_FIFOS, 3 * fifos)
    area(AT_MESSAGES, 4 * MESSAGE_FIELDS)
    area(AT_TX, SHOW_FIELDS * int(k[TX_RING]))
    area(AT_LAST, fifos * int(k[DATA_RING]))
    depths = [ni.slots, ni.slots, ni.slots, ni.reply_depth, ni.slots, ni.slots] + [ni.deliver_records] * fifos
    for queue, depth in enumerate(depths):
        k[QUEUE + 2 * queue + 1] = depth + 1
        area(QUEUE + 2 * queue, 2 * (depth + 1))
    area(AT_SLOTS, ni.slots * SLOT_FIELDS)
    area(AT_TABLE, ni.sets * ni.ways)
    area(AT_RUNGS, 2 * RUNG_FIELDS * system.rungs)
    area(AT_TRIPS, TRIP_FIELDS * graph.distance_classes + LATER_RING + LATER * LATER_FIELDS if system.measured else 0)
    area(AT_TAKEN, ni.slots if study.per_destination else 0)
    area(AT_TOKENS, 2 * system.rungs * system.timer_depth * TOKEN_FIELDS)
    k[NI_WIDTH] = at
    at = 0
    area(AT_HEADER, 5)
    area(AT_TX_DATA, words * int(k[TX_RING]))
    area(AT_RX, int(k[RX_WORDS]))
    area(AT_DATA, fifos * int(k[DATA_RING]) * words)
    area(AT_PAYLOAD, ni.slots * slot_words)
    k[DATA_WIDTH] = at
    return k

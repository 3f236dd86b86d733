"""The systems that are searched, and what becomes of each when a rule of `docs/design/relay-model.md` is taken away."""

from tests.model.relay_rules import Setting
from tests.model.trials import Trial

#: Two ends below a root, which passes their messages on and may die.
_ROOT = Setting(mortal=(0,), deaths=1)
_ROOT_ALONE = Setting(mortal=(0,), deaths=1, watch=False)
_ROOT_RECORDS = Setting(mortal=(0,), deaths=1, watch=False, fifo=True)
#: A relay with another node below it, which takes its place and knows nothing.
_RELAY = Setting(nodes=6, streams=((0, 3),), mortal=(1,), deaths=1)
_RELAY_ALONE = Setting(nodes=6, streams=((0, 3),), mortal=(1,), deaths=1, watch=False)
_RELAY_FORGETS = Setting(nodes=6, streams=((0, 3),), mortal=(1,), deaths=1, expire=True)
_RELAY_FIFO = Setting(nodes=6, streams=((0, 3),), mortal=(1,), deaths=1, watch=False, fifo=True)
#: Two relays in a row.
_ROW_ALONE = Setting(nodes=4, radix=1, streams=((3, 0),), mortal=(1,), deaths=1, watch=False)
_ROW_DOWN = Setting(nodes=4, radix=1, streams=((0, 3),), mortal=(1,), deaths=1, watch=False)
_ROW_SUSPECTED = Setting(nodes=4, radix=1, streams=((0, 3),), suspects=(1,), suspicions=1, watch=False)
_ROW_FIFO = Setting(nodes=4, radix=1, streams=((0, 3),), mortal=(1, 2), deaths=2, watch=False, fifo=True)
_TWO = Setting(messages=2)
_DROPS = Setting(drops=1)
_LOSES = Setting(messages=2, drops=1)
_ROW_DROPS = Setting(nodes=4, radix=1, streams=((0, 3),), drops=2)
_FULL_ALONE = Setting(messages=2, cells=1, watch=False)
_STALLED = Setting(messages=2, cells=1, drops=1, reader=False)
_QUIET = Setting(messages=2, window=1, modulus=8, stride=5, mortal=(0,), deaths=1)
_WRAPS = Setting(messages=5, window=1, modulus=4)
_RESTARTS = Setting(messages=3, restarts=(1,))
_DEAD = Setting(messages=2, mortal=(1,), deaths=1)
_NO_BUFFER = Setting(buffers=False, watch=False)

#: Searched in the quick tests: name → (setting, states, moves).
QUICK: dict[str, tuple[Setting, int, int]] = {
    "direct, a full Post, losses": (
        Setting(nodes=2, radix=0, streams=((0, 1),), messages=2, cells=1, drops=1), 973, 3558,
    ),
    "one relay, everything forgotten at any time": (
        Setting(evict=True, expire=True, buffers=False, drops=2), 773, 2749,
    ),
    "one relay, two messages, losses": (Setting(messages=2, drops=1), 276, 510),
    "one relay, a watch that asks too early": (Setting(eager=True), 1489, 5546),
    "the root dies": (_ROOT, 345, 946),
    "the root dies, its notice is walked": (Setting(mortal=(0,), deaths=1, walk=True), 1007, 3399),
    "the root dies, everything forgotten at any time": (
        Setting(mortal=(0,), deaths=1, evict=True, expire=True, buffers=False, drops=1), 3703, 18613,
    ),
    "any two die, any is suspected": (
        Setting(mortal=(0, 1, 2), deaths=2, suspects=(0, 1, 2), suspicions=1), 6413, 31650,
    ),
    "a full Post, two messages, without a watch": (_FULL_ALONE, 603, 1505),
    "a full Post, three messages, without a watch": (
        Setting(messages=3, window=3, cells=2, watch=False), 7618, 26783,
    ),
    "a Post that is never read, losses": (_STALLED, 426, 867),
    "uids that come round": (Setting(messages=5, modulus=6), 698, 1607),
    "uids of a quiet pair, the root dies": (_QUIET, 680, 1879),
    "an origin that restarts": (_RESTARTS, 1288, 3000),
    "a relay dies, one that knows nothing takes its place": (_RELAY, 16073, 68891),
    "… without a watch": (_RELAY_ALONE, 8737, 36107),
    "two relays in a row, no buffers, data forgotten, losses": (
        Setting(nodes=4, radix=1, streams=((0, 3),), drops=2, evict=True, buffers=False), 12818, 54675,
    ),
}  # fmt: skip

#: Searched with `--full`.
FULL: dict[str, tuple[Setting, int, int]] = {
    "streams that cross, the root dies": (Setting(streams=((1, 2), (2, 1)), mortal=(0,), deaths=1), 17760, 79874),
    "two origins, one full Post, the root dies": (
        Setting(streams=((1, 2), (0, 2)), window=1, cells=1, mortal=(0,), deaths=1), 12325, 52599,
    ),
    "two origins, two messages each, one full Post, without a watch": (
        Setting(streams=((1, 2), (0, 2)), messages=2, cells=2, watch=False), 99436, 460745,
    ),
    "two messages, a full Post, the root dies, without a watch": (
        Setting(messages=2, cells=1, mortal=(0,), deaths=1, watch=False), 91036, 497674,
    ),
    "two messages, the root dies, losses": (Setting(messages=2, mortal=(0,), deaths=1, drops=1), 34815, 212172),
    "two messages, the root dies, no buffers, data forgotten, without a watch": (
        Setting(messages=2, mortal=(0,), deaths=1, evict=True, buffers=False, watch=False), 14214, 65887,
    ),
    "an origin that restarts, the root dies": (
        Setting(messages=2, restarts=(1,), mortal=(0,), deaths=1), 15725, 68928,
    ),
    "uids that come round, the root dies": (
        Setting(messages=5, window=1, modulus=4, mortal=(0,), deaths=1), 7253, 25518,
    ),
    "the destination is the root, its child dies": (
        Setting(nodes=6, streams=((3, 0),), mortal=(1,), deaths=1), 16073, 68891,
    ),
    "a relay dies, and the one that takes its place, without a watch": (
        Setting(nodes=6, streams=((0, 3),), mortal=(1, 5), deaths=2, watch=False), 23745, 122056,
    ),
    "three relays over the root, which dies, without a watch": (
        Setting(nodes=5, streams=((3, 4),), mortal=(0,), deaths=1, watch=False), 52708, 262874,
    ),
    "two relays in a row, one is suspected": (
        Setting(nodes=4, radix=1, streams=((3, 0),), suspects=(1,), suspicions=1), 74920, 372879,
    ),
    "two relays in a row, both die, without a watch": (
        Setting(nodes=4, radix=1, streams=((3, 0),), mortal=(1, 2), deaths=2, watch=False), 32219, 168021,
    ),
    "… and notices are walked": (
        Setting(nodes=4, radix=1, streams=((3, 0),), mortal=(1, 2), deaths=2, watch=False, walk=True), 66097, 337081,
    ),
    "two relays in a row, both die, no buffers, data forgotten, without a watch": (
        Setting(
            nodes=4, radix=1, streams=((3, 0),), mortal=(1, 2), deaths=2, buffers=False, evict=True, watch=False
        ),
        93944, 566964,
    ),
    "two relays in a row, one dies, losses": (
        Setting(nodes=4, radix=1, streams=((3, 0),), mortal=(1,), deaths=1, drops=1), 178952, 1166375,
    ),
    "two relays in a row, one dies, everything forgotten at any time": (
        Setting(nodes=4, radix=1, streams=((3, 0),), mortal=(1,), deaths=1, expire=True, evict=True), 162624, 1039034,
    ),
}  # fmt: skip

TRIALS = (
    Trial("M1", "prev names the message before only while that is live", ("M1",), _TWO, "L1", 6),
    Trial("M2", "the slot is free when the next hop has the data", ("M2",), Setting(), "S2", 2),
    Trial("M3", "the slot in an ACKED is believed", ("M3",), Setting(messages=3), "S2", 11),
    Trial(
        "M4",
        "a relay answers an unknown ACKED by ACKACKED (RELM-34)",
        ("M4 relay",),
        _RELAY_ALONE,
        reason="the mark (M9) protects; the ACKED is lost, so the watch or a later LINK must ask again",
    ),
    Trial("M4", "… and the destination remembers by records", ("M4 relay", "M9"), _RELAY_FIFO, "S1", 19),
    Trial(
        "M4",
        "only an ACKED that leaves nothing live is answered",
        ("M4 unknown",),
        _RELAY,
        reason="records end by time (M25); without it each ACKED that was overtaken costs an ACKACKED",
    ),
    Trial("M5", "*more* means nothing to the origin", ("M5",), _FULL_ALONE, "L1", 4),
    Trial("M5", "*more* asks for the head once", ("M5 until drained",), _FULL_ALONE, "L1", 7),
    Trial("M6", "the origin does not answer a REQUESTED", ("M6",), _ROOT, "L1", 2),
    Trial("M7", "no watch, and a message of a hop is lost", ("M7",), _DROPS, "L1", 2),
    Trial("M7", "no watch, and records end early", ("M7",), _RELAY_FORGETS, "L1", 8),
    Trial("M7", "the LINK of the watch stops at holders", ("M7 thru",), _DROPS, "L1", 3),
    Trial(
        "M7",
        "the watch asks for every live message",
        ("M7 head",),
        _LOSES,
        reason="what is behind it costs messages only",
    ),
    Trial("M8", "a uid is given while a record has it", ("M8",), _WRAPS, "S2", 23),
    Trial("M9", "posted if the uid is above the mark", ("M9 mark",), _TWO, "S1", 4),
    Trial(
        "M9", "the destination remembers by records; hops do not keep order", ("M9", "M17 any"), _ROOT_ALONE, "S1", 11
    ),
    Trial("M9", "… hops keep order, an ACKACKED dies", ("M9", "M17 any"), _ROOT_RECORDS, "L2", 6),
    Trial("M9", "… hops keep order, two deaths", ("M9", "M17 any"), _ROW_FIFO, "S1", 21),
    Trial("M10", "a duplicate is not answered", ("M10",), _RELAY_ALONE, reason="a LINK for it is answered (M14)"),
    Trial(
        "M11",
        "what is above the mark is dropped",
        ("M11",),
        _TWO,
        reason="it is asked for when its turn comes; parking saves a round trip for each",
    ),
    Trial("M12", "the last cell may be taken by what is parked", ("M12",), _FULL_ALONE, "L1", 4),
    Trial("M13", "what has no room is acknowledged", ("M13",), _FULL_ALONE, "S2", 8),
    Trial("M13", "the origin is not told of room", ("M13 more",), _FULL_ALONE, "L1", 4),
    Trial(
        "M13",
        "a LINK is answered by REQUESTED although there is no room",
        ("M13 quiet",),
        _FULL_ALONE,
        reason="the data come, and find no room again",
    ),
    Trial("M14", "a LINK for what is posted is not answered", ("M14",), _ROOT, "L1", 4),
    Trial("M14", "… while the source is hungry", ("M14 hungry",), _STALLED, "L1", 7),
    Trial("M14", "a head whose uid seems to be below the mark is said to be posted", ("M14 head",), _QUIET, "L1", 7),
    Trial("M15", "the Post does not compare incarnations", ("M15",), _RESTARTS, "S1", 8),
    Trial("M15", "the origin does not", ("M15 ACKED",), _RESTARTS, "S2", 7),
    Trial("M16", "data of a source that is held for dead are taken", ("M16",), _DEAD, "L2", 6),
    Trial("M16", "what is parked of a dead source stays", ("M16 park",), _DEAD, "L2", 5),
    Trial(
        "M17",
        "a relay takes data from any sender",
        ("M17",),
        _RELAY_ALONE,
        reason="ends are hard; the message takes a way that nobody would choose",
    ),
    Trial(
        "M17",
        "the destination takes data only from its next hop to the origin",
        ("M17 any",),
        _RELAY_ALONE,
        reason="what is not taken is asked for",
    ),
    Trial(
        "M18",
        "a message goes back to where it came from",
        ("M18",),
        _ROW_ALONE,
        reason="no system of this size has such a message; the rule says so without a proof for larger ones",
    ),
    Trial("M19", "a relay that knows of the ACKED does not answer by it", ("M19 answer",), _ROW_SUSPECTED, "L1", 7),
    Trial(
        "M19",
        "an ACKED climbs again and again",
        ("M19 once",),
        _RELAY_ALONE,
        reason="a relay that is ACKED answers a LINK itself; the second ACKED costs messages only",
    ),
    Trial("M20", "an ACKACKED ends no record", ("M20",), _ROOT, reason="records end by time (M25)"),
    Trial("M20", "… nor does time", ("M20", "M25"), Setting(), "L2", 1),
    Trial("M21", "a relay without the data drops a REQUESTED", ("M21",), _RELAY, "L1", 2),
    Trial(
        "M21",
        "a REQUESTED climbs again and again",
        ("M21 once",),
        _RELAY_ALONE,
        reason="the next LINK makes it climb again (M23); more costs messages only",
    ),
    Trial("M22", "a relay does not ask for what it dropped", ("M22",), _NO_BUFFER, "L1", 2),
    Trial("M23", "a relay that merely knows stops a LINK", ("M23",), _DROPS, "L1", 3),
    Trial("M23", "a LINK goes on where the data were asked for", ("M23 asks",), _ROW_DROPS, "L1", 8),
    Trial(
        "M23",
        "a relay passes a LINK on again and again",
        ("M23 once",),
        _RELAY_ALONE,
        reason="a new way is told of by walks (M26, M27); more costs messages only",
    ),
    Trial(
        "M24",
        "a LINK of any depth is taken",
        ("M24",),
        _RELAY_ALONE,
        reason="ends are hard; a LINK of an old tree costs messages only",
    ),
    Trial(
        "M24",
        "… and nothing but new neighbours and new ways counts after a promotion",
        ("M24", "M26 all", "M27 all"),
        _ROW_DOWN,
        reason="what a promoted node does for all (M26, M27) only makes up for this rule",
    ),
    Trial("M25", "records do not end by time", ("M25",), _RELAY_ALONE, "L2", 13),
    Trial("M26", "a notice sends no LINK", ("M26",), _RELAY_ALONE, "L1", 4),
    Trial(
        "M26",
        "a promoted node sends LINKs only for what goes another way",
        ("M26 all",),
        _ROW_DOWN,
        reason="its neighbours ask for them by PULL",
    ),
    Trial("M27", "a notice sends no PULL", ("M27",), _RELAY_ALONE, "L1", 4),
    Trial("M27", "a promoted node sends PULLs only to neighbours it did not have", ("M27 all",), _ROW_DOWN, "L1", 6),
    Trial("M28", "records off their path stay", ("M28",), _ROW_ALONE, reason="records end by time (M25)"),
    Trial("M29", "messages to a dead destination stay", ("M29",), Setting(mortal=(2,), deaths=1), "L2", 2),
    Trial(
        "M30",
        "a walk tells again what was told since the notice",
        ("M30",),
        Setting(mortal=(0,), deaths=1, walk=True),
        reason="more costs messages only",
    ),
)

#: Trials whose counter-examples the page shows.
SHOWN = {
    (trial.rule, trial.how)
    for trial in TRIALS
    if trial.without
    in (
        ("M4 relay", "M9"),
        ("M5 until drained",),
        ("M8",),
        ("M9", "M17 any"),
        ("M12",),
        ("M14 hungry",),
        ("M14 head",),
        ("M16",),
        ("M19 answer",),
        ("M23",),
        ("M25",),
        ("M27",),
        ("M27 all",),
    )
}

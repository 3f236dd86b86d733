"""The systems that are searched, and what becomes of each when a rule of `docs/design/protocol.md` is taken away."""

import dataclasses

from tests.model.protocol_rules import Setting
from tests.model.trials import Trial

_EITHER_END = {"incarnations": 2, "resets": (0, 1)}
_SMALL = {"generations": 2, "acks": 1}
_LINGER = {"order": "", "linger": True}

#: Searched in the quick tests, but for two: name → (setting, states, moves).
QUICK: dict[str, tuple[Setting, int, int]] = {
    "one slot, everything": (
        Setting(**_SMALL, **_EITHER_END, reply_depth=0, cancel=True, give_up=True, quarantine=True),
        196480, 1046312,
    ),
    "two slots, one entry": (Setting(**_SMALL, slots=2, channel=1), 199268, 1156144),
    "two slots, order of a slot only": (
        Setting(**_SMALL, slots=2, channel=1, reply_depth=0, order="slot"), 106212, 632040,
    ),
    "two receivers, cancel": (Setting(**_SMALL, nodes=3, paths=((0, 1), (0, 2)), cancel=True), 188010, 1401574),
    "both send": (Setting(generations=2, paths=((0, 1), (1, 0)), channel=1, reply_depth=0), 49248, 307424),
    "expected incarnations": (
        Setting(**_SMALL, incarnations=2, resets=(1,), expects=True, give_up=True), 59152, 328464,
    ),
    "best effort, orphans, worms that leave": (
        Setting(**_SMALL, best_effort=True, orphans=True, leaving=True, give_up=True, cancel=True), 19926, 111704,
    ),
    "restarts that are told, silent nodes, cancel": (
        Setting(
            **_SMALL, incarnations=2, resets=(1,), expects=True, reject=True, silent=True, cancel=True, give_up=True,
            reply_depth=0,
        ),
        30260, 153880,
    ),
    "messages overtake, slots linger": (
        Setting(**_SMALL, **_LINGER, give_up=True, cancel=True, reply_depth=0), 1694, 8326,
    ),
}  # fmt: skip

#: Searched with `--full`.
FULL: dict[str, tuple[Setting, int, int]] = {
    "one slot, everything, two messages back": (
        Setting(generations=2, **_EITHER_END, reply_depth=0, cancel=True, give_up=True, quarantine=True),
        512888, 2893624,
    ),
    "expected incarnations, resets of either end": (
        Setting(generations=2, **_EITHER_END, reply_depth=0, expects=True, give_up=True), 369440, 1861480,
    ),
    "two slots, one entry, two messages each way": (Setting(generations=2, slots=2), 758044, 4776464),
    "two slots, order of a slot only, replies wait": (
        Setting(**_SMALL, slots=2, channel=1, order="slot"), 1005192, 6927432,
    ),
    "messages overtake, slots linger, resets of either end": (
        Setting(**_SMALL, **_EITHER_END, **_LINGER, reply_depth=0), 24512, 129840,
    ),
}  # fmt: skip

_ONE = Setting(acks=1)
_LIMIT = Setting(acks=1, give_up=True)
_RESETS = Setting(**_SMALL, **_EITHER_END, reply_depth=0)
_RECEIVER_RESETS = Setting(acks=1, incarnations=2, resets=(1,))
_TWO = QUICK["two slots, one entry"][0]
_RESTARTS = Setting(**_SMALL, incarnations=2, resets=(1,), expects=True, reject=True, give_up=True, reply_depth=0)
_LIVES = Setting(**_SMALL, **_EITHER_END, channel=1, expects=True, reject=True, reply_depth=0)
_LINGERS = QUICK["messages overtake, slots linger"][0]
_SILENT = Setting(**_SMALL, reply_depth=0, silent=True)


TRIALS = (
    Trial(
        "R1",
        "every datagram of a slot has the same generation",
        ("R1", "E1"),
        _LIMIT,
        "S2",
        8,
        "R1 is how E1 is met, so E1 goes with it",
    ),
    Trial(
        "R2",
        "a reset of the sender does not count",
        ("R2", "E1"),
        Setting(acks=1, incarnations=2, resets=(0,)),
        "S2",
        7,
        "E1 goes with it: after a reset generations begin at 0",
    ),
    Trial("R2", "a reset of the receiver does not count", ("R2",), _RECEIVER_RESETS, "S2", 6),
    Trial(
        "R3",
        "a slot is free as soon as its datagram has ended",
        ("R3",),
        _LIMIT,
        reason="no message tells when the host takes a completion; the slot holds its tag until then",
    ),
    Trial(
        "R4",
        "a slot is taken while a worm of it is leaving",
        ("R4",),
        Setting(acks=1, leaving=True, cancel=True),
        "S6",
        7,
    ),
    Trial(
        "R5",
        "no quarantine",
        ("R5",),
        Setting(acks=1, give_up=True, quarantine=True),
        reason="a Send of the next generation replaces what is left (R6); a rest only makes E1 hold for longer",
    ),
    Trial(
        "R6",
        "an entry stays until its Forget, beside it another is needed",
        ("R6",),
        _LIMIT,
        reason="the Ack of the old entry is answered by a Forget (R16), which then makes room; it only takes longer",
    ),
    Trial("R7", "a Send is not repeated", ("R7",), _ONE, "L2", 2),
    Trial("R8", "delivered without an entry, when the table is full", ("R8",), _TWO, "S1", 9),
    Trial("R9", "acknowledged although dropped, when the table is full", ("R9",), _TWO, "S2", 9),
    Trial("R10", "another slot's entry is evicted", ("R10",), _TWO, "S1", 9),
    Trial("R11", "a duplicate is delivered", ("R11",), _ONE, "S1", 6),
    Trial("R11", "… found without comparing the generation", ("R11 generation",), _ONE, "S2", 11),
    Trial("R11", "… found without comparing the incarnation", ("R11 incarnation",), _RESETS, "S2", 8),
    Trial("R12", "a duplicate is not acknowledged", ("R12",), _ONE, reason="the entry's timer does it (R13), later"),
    Trial("R13", "an Ack is not repeated", ("R13",), _LIMIT, "L2", 6),
    Trial("R14", "an expected incarnation is not compared", ("R14",), QUICK["expected incarnations"][0], "S5", 4),
    Trial("R15", "an Ack may be for a datagram that has ended", ("R15 live",), _LIMIT, "S4", 6),
    Trial("R15", "an Ack's generation is not compared", ("R15 generation",), _LIMIT, "S2", 8),
    Trial("R15", "an Ack's incarnation is not compared", ("R15 incarnation",), _RESETS, "S2", 6),
    Trial(
        "R15",
        "an Ack's source is not compared",
        ("R15 destination",),
        Setting(**_SMALL, nodes=3, paths=((0, 1), (0, 2)), cancel=True, reply_depth=0),
        reason="with E1 a UID has had one destination; it guards against what the CRC lets pass",
    ),
    Trial(
        "R15",
        "a datagram's mode is not compared",
        ("R15 mode",),
        Setting(acks=1, best_effort=True),
        reason="with E1 nobody acknowledges the UID of what is not exactly once; as above",
    ),
    Trial("R16", "only the Ack that ends a datagram is answered", ("R16",), _ONE, "L2", 7),
    Trial("R17", "a Forget's generation is not compared", ("R17",), _ONE, "S1", 14),
    Trial("R18", "a Forget's incarnation is not compared", ("R18",), _RESETS, "S1", 12),
    Trial(
        "R19",
        "the incarnation of the receiver that a Forget names is not compared",
        ("R19",),
        _RESETS,
        reason="a Forget leaves only after its datagram has ended, so whichever life it meets may forget",
    ),
    Trial("R20", "best effort is repeated", ("R20",), Setting(acks=1, best_effort=True, give_up=True), "S1", 6),
    Trial("R21", "a cancelled datagram always ends as NEVER_SENT", ("R21",), Setting(acks=1, cancel=True), "S3", 4),
    Trial("R22", "a Send whose datagram has ended leaves all the same", ("R22",), _ONE, "S1", 10),
    Trial("R23", "the receive table survives a reset", ("R23",), _RECEIVER_RESETS, "S2", 7),
    Trial(
        "R24",
        "a message waits while its reply has no room",
        ("R24",),
        _ONE,
        reason="the reply queue always empties, since the network never holds it up; dropping keeps Acks "
        "and Forgets from waiting behind it",
    ),
    Trial(
        "R25",
        "an orphan is reclaimed while its sender may repeat",
        ("R25",),
        Setting(acks=1, give_up=True, orphans=True),
        "S1",
        7,
    ),
    Trial("R26", "a REJECT is not sent", ("R26",), dataclasses.replace(_RESTARTS, give_up=False), "L2", 3),
    Trial("R26", "a REJECT ends its datagram as NEVER_SENT", ("R26 unknown",), _RESTARTS, "S3", 8),
    Trial("R26", "a REJECT may be for a datagram that has ended", ("R26 live",), _RESTARTS, "S4", 6),
    Trial("R26", "a REJECT's generation is not compared", ("R26 generation",), _RESTARTS, "S7", 8),
    Trial(
        "R26",
        "a REJECT's incarnation is not compared",
        ("R26 incarnation",),
        _LIVES,
        "S7",
        7,
    ),
    Trial(
        "R26",
        "a REJECT's source is not compared",
        ("R26 destination",),
        Setting(
            **_SMALL,
            nodes=3,
            paths=((0, 1), (0, 2)),
            incarnations=2,
            resets=(1,),
            channel=1,
            expects=True,
            reject=True,
            reply_depth=0,
        ),
        reason="with E1 a UID has had one destination; it guards against what the CRC lets pass",
    ),
    Trial(
        "R26",
        "a datagram's mode is not compared",
        ("R26 mode",),
        dataclasses.replace(_RESTARTS, best_effort=True),
        reason="with E1 nobody rejects the UID of what is not exactly once; as above",
    ),
    Trial("R27", "a repeat to a silent node ends as NEVER_SENT", ("R27 unheard",), _SILENT, "S3", 6),
    Trial("R27", "a new datagram to a silent node leaves, and ends as NEVER_SENT", ("R27 unsent",), _SILENT, "S3", 4),
    Trial("R28", "a slot is used again while a Send of its last datagram is under way", ("R28",), _LINGERS, "S1", 10),
    Trial("R29", "an Ack is answered while its slot lingers", ("R29",), _LINGERS, "S1", 8),
    Trial(
        "R30",
        "a node takes part while a Send of its life before a reset is under way",
        ("R30",),
        Setting(acks=1, generations=2, incarnations=3, resets=(0,), **_LINGER, reply_depth=0),
        "S1",
        9,
    ),
    Trial("N1", "a flip changes a generation, and passes", ("N1",), _ONE, "S6", 3),
    Trial("N2", "a copy of a message arrives later", ("N2",), _ONE, "S1", 9),
    Trial("N3", "messages overtake each other", ("N3",), _ONE, "S1", 10),
    Trial(
        "N3",
        "only Acks overtake each other",
        ("N3 Acks",),
        Setting(),
        reason="an Ack means the same whenever it comes; only what a sender sends needs order",
    ),
    Trial(
        "N3",
        "only Acks and REJECTs overtake each other",
        ("N3 Acks",),
        dataclasses.replace(_RESTARTS, acks=2, give_up=False),
        reason="a REJECT means the same whenever it comes, too; so it may take another way than the Acks of its slot",
    ),
    Trial("N4", "every message of a kind may be lost for ever", ("N4",), _ONE, "L2", 2),
    Trial(
        "N5",
        "a Send may find the table full for ever",
        ("N5",),
        Setting(**_SMALL, slots=2, channel=1, reply_depth=0),
        "L1",
        2,
        "no entry is reserved for anyone; everything drains all the same once nothing new comes",
    ),
    Trial(
        "E1",
        "generations come round while something of them is left",
        ("E1",),
        Setting(**_SMALL, give_up=True),
        "S2",
        12,
    ),
    Trial(
        "E1",
        "… and every datagram is repeated until its Ack comes",
        ("E1",),
        Setting(**_SMALL),
        "S1",
        20,
        "a stale Forget, which a newer Send has overtaken in its own node, erases the new entry",
    ),
    Trial("E2", "incarnations come round while something of them is left", ("E2",), _RESETS, "S2", 6),
)

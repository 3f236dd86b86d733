"""The systems that are searched, and what becomes of each when a rule of `docs/design/flow-model.md` is taken away."""

from tests.model.flow_rules import Setting
from tests.model.trials import Trial

#: Searched in the quick tests: name → (setting, states, moves).
QUICK: dict[str, tuple[Setting, int, int]] = {
    "nothing but data": (Setting(), 138, 288),
    "cancels": (Setting(cancel=True), 4986, 19320),
    "cancels, a reader that never takes": (Setting(cancel=True, reader=False), 4170, 13758),
    "cancels, credits, two late messages": (Setting(cancel=True, credits=True, cells=3, late=2), 38982, 194928),
    "credits, UNKNOWN control": (Setting(credits=True, retries=True), 5112, 23478),
    "congestion, UNKNOWN control": (Setting(congestion=True, retries=True), 4416, 20496),
    "opening again, cancels, UNKNOWN control": (
        Setting(leave=True, numbers=2, cancel=True, retries=True), 85804, 828498,
    ),
    "opening again, B closes, credits, watch": (
        Setting(leave=True, close=True, credits=True, watch=True, numbers=2), 26472, 158082,
    ),
    "B closes, congestion, watch": (Setting(close=True, congestion=True, numbers=1, watch=True), 27090, 138992),
    "resets of either end, cancels": (Setting(resets="AB", numbers=2, cancel=True), 16526, 113780),
    "resets of either end, everything but credits": (
        Setting(resets="AB", numbers=1, retries=True, leave=True, close=True, watch=True), 20414, 197677,
    ),
    "resets of B, B closes, credits, watch": (
        Setting(resets="B", numbers=1, close=True, credits=True, watch=True), 16790, 101703,
    ),
    "messages in parts, cancels": (Setting(parts=True, cancel=True, cells=4), 20442, 84030),
    "messages in parts, opening again, B closes": (
        Setting(parts=True, cells=4, leave=True, close=True, numbers=3), 2510, 10947,
    ),
    "messages in parts, another stream in the port": (Setting(parts=True, other=True, cells=2), 222, 468),
    "resets of A, old receive entries": (Setting(resets="A", wraps=True, numbers=2), 742, 2601),
    "death of B, watch": (Setting(death=True, watch=True, numbers=2), 1769, 5456),
}  # fmt: skip

#: Searched with `--full`.
FULL: dict[str, tuple[Setting, int, int]] = {
    "a window of 3, cancels, credits": (
        Setting(window=3, modulus=8, cells=3, cancel=True, credits=True), 145456, 720280,
    ),
    "opening again, congestion, UNKNOWN control": (
        Setting(leave=True, congestion=True, numbers=1, retries=True), 115608, 1044966,
    ),
    "opening again, B closes, credits, watch, UNKNOWN control": (
        Setting(leave=True, close=True, credits=True, watch=True, numbers=1, retries=True), 346558, 3957424,
    ),
    "resets of either end, everything but credits, cancels, two numbers": (
        Setting(resets="AB", numbers=2, retries=True, leave=True, close=True, watch=True, cancel=True),
        961418, 13749803,
    ),
    "resets of either end, B closes, credits, watch": (
        Setting(resets="AB", numbers=1, close=True, credits=True, watch=True), 77786, 559066,
    ),
    "messages in parts, another stream, cancels": (
        Setting(parts=True, other=True, cells=4, cancel=True), 33894, 161256,
    ),
    "resets of either end, congestion, watch": (
        Setting(resets="AB", numbers=1, congestion=True, watch=True), 74636, 572608,
    ),
}  # fmt: skip

_CANCEL = Setting(cancel=True)
_AGAIN = Setting(leave=True, numbers=2)
_AGAIN_UNKNOWN = Setting(leave=True, numbers=2, retries=True)
_AGAIN_CANCEL = Setting(leave=True, numbers=2, cancel=True)
_CLOSE = Setting(close=True, numbers=2)
_BLOCKED = Setting(close=True, credits=True, watch=True, numbers=2)
_RESETS_A = Setting(resets="A", numbers=2)
_RESETS_B = Setting(resets="B", numbers=2)
_CREDITS = QUICK["credits, UNKNOWN control"][0]
_CONGESTION = QUICK["congestion, UNKNOWN control"][0]
_DEATH = Setting(death=True, watch=True, numbers=1)
_PARTS = QUICK["messages in parts, cancels"][0]
_PORT = QUICK["messages in parts, another stream in the port"][0]

TRIALS = (
    Trial("F1", "the number of a datagram that ended as UNKNOWN is given once more", ("F1",), _CANCEL, "S3", 8),
    Trial("F2", "a number beyond the window is given", ("F2",), Setting(), "S5", 4),
    Trial("F3", "a number is finished when its VOID is sent", ("F3",), _CANCEL, "S5", 7),
    Trial("F4", "what ends as UNKNOWN is not voided", ("F4",), _CANCEL, "S5", 7),
    Trial("F4", "what ends as NEVER_SENT is not voided", ("F4 never sent",), _CANCEL, "S5", 6),
    Trial("F5", "a VOID names a number whose datagram has not ended", ("F5",), _CANCEL, "S3", 6),
    Trial(
        "F5",
        "several VOIDs are under way",
        ("F5 one",),
        _CANCEL,
        reason="a VOID means the same whenever it comes; one at a time bounds the control messages",
    ),
    Trial("F6", "a message lives for any time", ("F6",), _CANCEL, "S1", 20),
    Trial("F7", "accepted above the expected number, which follows (`>` for `=`)", ("F7",), Setting(), "S2", 3),
    Trial("F8", "a number that is placed or void is placed", ("F8",), _CANCEL, "S2", 7),
    Trial(
        "F8",
        "a number below the expected one is not acknowledged",
        ("F8 below",),
        _CANCEL,
        reason="only a message whose datagram has ended is below, and nothing repeats it",
    ),
    Trial("F9", "B closes the source of a number outside", ("F9",), _CANCEL, "S5", 12),
    Trial("F10", "a VOID takes back what was placed", ("F10",), _CANCEL, "S4", 7),
    Trial("F11", "what has no room is acknowledged and dropped", ("F11",), Setting(), "S3", 7),
    Trial("F12", "the last cell may be taken by a parked number", ("F12",), Setting(cells=1), "L2", 4),
    Trial("F13", "data open a source", ("F13",), Setting(close=True, numbers=3), "S5", 12),
    Trial("F13", "no REJECT answers data from a source that is not open", ("F13 REJECT",), _CLOSE, "L2", 8),
    Trial("F14", "a PONG without boot and round", ("F14",), _AGAIN_UNKNOWN, "S1", 12),
    Trial("F15", "A opens again while its datagrams live", ("F15",), _AGAIN, "S1", 11),
    Trial("F15", "… its VOIDs live", ("F15 VOID",), _AGAIN_CANCEL, "S4", 13),
    Trial(
        "F15",
        "… its PING lives",
        ("F15 PING",),
        _AGAIN_UNKNOWN,
        reason="an older PING is ignored (F20); to end it keeps the 8 bits of a round from coming round",
    ),
    Trial("F16", "A opens again without silence", ("F16",), _AGAIN, "S1", 12),
    Trial("F16", "… while a VOID is under way", ("F16 VOID",), _AGAIN_CANCEL, "S4", 14),
    Trial(
        "F16",
        "… while a PING is under way",
        ("F16 PING",),
        _AGAIN_UNKNOWN,
        reason="as for F15",
    ),
    Trial(
        "F16",
        "… while a PING is under way, and an older PING opens",
        ("F16 PING", "F20 older"),
        _AGAIN_UNKNOWN,
        "S1",
        18,
    ),
    Trial("F17", "no silence after a reset of A", ("F17",), _RESETS_A, "S1", 11),
    Trial(
        "F17",
        "no silence after a reset of B",
        ("F17",),
        _RESETS_B,
        reason="a PONG bears boot and round, WINDOW and MAP expect an incarnation; B is silent for its own datagrams",
    ),
    Trial("F18", "each opening has the same round", ("F18",), _AGAIN, "S1", 15),
    Trial("F19", "a newer round clears nothing", ("F19",), _AGAIN, "S3", 19),
    Trial("F19", "what is parked is thrown away", ("F19 hand over",), _AGAIN, "S6", 15),
    Trial("F20", "a PING of the stored round clears", ("F20",), Setting(leave=True, watch=True, numbers=2), "L2", 16),
    Trial(
        "F20",
        "an older PING opens",
        ("F20 older",),
        _AGAIN_UNKNOWN,
        reason="no older PING is under way when a newer one is sent (F15, F16, F17)",
    ),
    Trial("F21", "a PING of the stored round, of a source that B closed, is ignored", ("F21",), _CLOSE, "L2", 3),
    Trial("F21", "… opens the source", ("F20 closed",), Setting(close=True, watch=True, numbers=2), "L2", 17),
    Trial("F22", "entries of an earlier boot stay", ("F22",), Setting(resets="A", wraps=True, numbers=2), "S3", 12),
    Trial("F23", "data expect no incarnation", ("F23",), _RESETS_B, "S1", 9),
    Trial(
        "F24",
        "another boot in a PONG is ignored",
        ("F24",),
        Setting(resets="B", credits=True, watch=True, numbers=1),
        "L2",
        11,
        "only what is blocked needs it: data under way would get a REJECT",
    ),
    Trial(
        "F25",
        "A is UP before its PING has ended",
        ("F25",),
        Setting(resets="AB", leave=True, numbers=2),
        reason="a PING of the stored round clears nothing (F20), and ends before the next opening (F15)",
    ),
    Trial("F26", "a reset counts no boot", ("F26",), _RESETS_A, "S1", 8),
    Trial(
        "F27",
        "a VOID that ended as UNKNOWN is told again in any case",
        ("F27 VOID",),
        Setting(cancel=True, retries=True),
        reason="a VOID means the same twice; ERROR is how A finds out that B is silent",
    ),
    Trial("F27", "a PING that ended as UNKNOWN is sent again in any case", ("F27 PING",), _DEATH, "L1", 8),
    Trial(
        "F27",
        "what B has accepted meanwhile does not count",
        ("F27 heard",),
        Setting(cancel=True, retries=True),
        reason="A leaves a B that lives, and connects anew: what was under way ends as UNKNOWN, and nothing breaks",
    ),
    Trial("F28", "a WINDOW that ended as UNKNOWN is not told again", ("F28 WINDOW",), _CREDITS, "L2", 7),
    Trial("F28", "a MAP that ended as UNKNOWN is not told again", ("F28 MAP",), _CONGESTION, "L2", 4),
    Trial(
        "F28",
        "a PONG that ended as UNKNOWN is not told again",
        ("F28 PONG",),
        Setting(leave=True, numbers=1, retries=True),
        reason="the next PING asks for it",
    ),
    Trial("F29", "no PING while a datagram is old", ("F29",), _DEATH, "L1", 8),
    Trial("F29", "no PING while A may not send", ("F29 blocked",), _BLOCKED, "L2", 11),
    Trial("F30", "a WINDOW tells an addition, and tells it again", ("F30",), _CREDITS, "S7", 9),
    Trial("F30", "a WINDOW tells an addition once", ("F30", "F28 WINDOW"), _CREDITS, "L2", 7),
    Trial("F31", "any limit is believed", ("F31",), _CREDITS, "L2", 14),
    Trial("F32", "a MAP is told again while an earlier one is under way", ("F32",), _CONGESTION, "L2", 8),
    Trial(
        "F33",
        "a MAP before the PONG is ignored",
        ("F33",),
        Setting(leave=True, congestion=True, numbers=1),
        "L2",
        10,
    ),
    Trial("F34", "a FIRST is accepted although its LAST has no cell", ("F34",), _PORT, "L2", 4),
    Trial("F34", "… and its LAST is accepted all the same", ("F34 reserved",), _PORT, "S9", 5),
    Trial("F35", "a void inside a message does not end it", ("F35 void",), _PARTS, "S8", 11),
    Trial("F35", "a FIRST inside a message does not end it", ("F35 FIRST",), _PARTS, "S8", 10),
    Trial("F35", "a LAST without its FIRST is delivered", ("F35 LAST",), _PARTS, "S8", 7),
)

#: Trials whose counter-examples the page shows.
SHOWN = {
    (trial.rule, trial.how)
    for trial in TRIALS
    if trial.rule in ("F6", "F9", "F21", "F22", "F32") or trial.without in (("F19 hand over",), ("F29 blocked",))
}

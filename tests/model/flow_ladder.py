"""Counter-examples of flow as people read them: one line for each step."""

from tests.model.flow_network import Move
from tests.model.flow_rules import DROP, OUTSIDE, PLACE, Setting
from tests.model.graph import PERHAPS, Violation

_ALONE = {
    "SPEAK": "the silence after the reset is over",
    "AGAIN": "CONNECTING again, with the next round",
    "LEAVE": "leaves UP",
    "CLOSE": "closes the source",
    "RESET": "RESET",
    "DIE": "dies",
    "TAKE": "the reader takes one",
}
_VERDICTS = {PLACE: "is placed", DROP: "is acknowledged and dropped", OUTSIDE: "is outside"}


def ladder(path: list[Move], violation: Violation | None, setting: Setting) -> str:
    """The steps of a path, numbered; numbers come round after M."""
    del setting
    lines = [f"{number:3}  {move.node}: {_line(move)}" for number, move in enumerate(path, 1)]
    if violation:
        lines.append(f"{'':5}{violation.broken}: {violation.text}")
    return "\n".join(lines)


def _name(move: Move) -> str:
    numbers = ", ".join(str(number) for number in move.body)
    late = "late " if move.free == PERHAPS or move.event == "LOST" else ""
    if move.what == "DATA":
        return f"{late}number {move.body[0]}" + ("", " (FIRST)", " (LAST)")[move.body[2]]
    if move.what == "VOID":
        return f"{late}VOID of {numbers}"
    if move.what == "WINDOW":
        return f"{late}WINDOW, limit {numbers}"
    if move.what == "MAP":
        return f"{late}MAP, {'congested' if move.body[0] else 'not congested'}"
    return late + move.what


def _line(move: Move) -> str:
    if move.event in _ALONE:
        return _ALONE[move.event]
    if move.event == "CONGESTED":
        return "is congested" if move.detail == "True" else "is congested no more"
    if move.event == "OTHER":
        return f"the {move.detail} of another stream's message is placed"
    name = _name(move)
    if move.event == "END":
        status, _, cause = move.detail.partition(" ")
        return f"{name} ends as {status}" + (f" ({cause})" if cause else "")
    if move.event in ("GIVE", "SEND", "LAUNCH"):
        return f"{move.event} {name}"
    if move.event == "LOST":
        return f"{name} is lost"
    if move.event == "REJECTED":
        return f"{name} is rejected ({move.detail})"
    how = _VERDICTS.get(move.detail, f"arrives ({move.detail})" if move.detail else "arrives")
    return f"{name} {how}"

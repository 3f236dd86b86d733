"""Counter-examples of relay as people read them: one line for each step."""

from tests.model.graph import Violation
from tests.model.relay_network import Move
from tests.model.relay_rules import DONE, LINK, PULL, Hop, Setting

_ALONE = {
    "DIE": "dies",
    "SUSPECT": "is taken for dead, and lives on",
    "RESTART": "forgets everything, and begins its next incarnation",
    "TAKE": "the host takes a message",
    "FEED": "has room again",
    "WALK": "walks its records",
}


def ladder(path: list[Move], violation: Violation | None, setting: Setting) -> str:
    """The steps of a path, numbered, each at its node."""
    lines = [f"{number:3}  {move.node}: {_line(move, setting)}" for number, move in enumerate(path, 1)]
    if violation:
        lines.append(f"{'':5}{violation.broken}: {violation.text}")
    return "\n".join(lines) + ("" if path else "\n")


def _message(stream: int, index: int, setting: Setting) -> str:
    if len(setting.streams) == 1:
        return f"message {index}"
    origin, target = setting.streams[stream]
    return f"message {index} of {origin} to {target}"


def _hop(hop: Hop, setting: Setting) -> str:
    name = hop.kind
    if hop.flag:
        name += {LINK: " with thru", DONE: " with more"}.get(hop.kind, "")
    if hop.kind == PULL:
        return f"{name} from {hop.sender}"
    what = _message(hop.stream, hop.index, setting) if hop.index >= 0 else "nothing"
    return f"{name} of {what} from {hop.sender}"


def _line(move: Move, setting: Setting) -> str:
    if move.event in _ALONE:
        return _ALONE[move.event]
    if move.event == "NOTICE":
        return f"notice: {move.index} is dead"
    if move.hop is not None:
        how = {"ARRIVES": "arrives", "NO BUFFER": "arrives, and finds no buffer", "DROP": "is dropped"}
        return f"{_hop(move.hop, setting)} {how.get(move.event, 'is lost')}"
    message = _message(move.stream, move.index, setting)
    return {
        "GIVE": f"GIVE {message}",
        "WATCH": f"the watch asks for {message}",
        "EVICT": f"forgets the data of {message}",
        "EXPIRE": f"forgets {message}",
        "ASK": f"has a buffer for {message}",
    }[move.event]

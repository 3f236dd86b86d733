"""Counter-examples as people read them: one line for each step."""

from tests.model.protocol_network import Move, Violation
from tests.model.protocol_rules import Datagram, Setting, Uid


def ladder(path: list[Move], violation: Violation | None, setting: Setting) -> str:
    """The steps of a path, numbered, with datagrams d0, d1, … in the order of their acceptance."""
    names: dict[Datagram, str] = {}
    lines = []
    accepted = 0
    for number, move in enumerate(path, 1):
        lines.append(f"{number:3}  {_line(move, names, setting, accepted)}")
        accepted += move.step.event == "ACCEPT"
    if violation:
        lines.append(f"{'':5}{violation.broken}: {violation.text}")
    return "\n".join(lines)


def _node(number: int) -> str:
    return "ABCDEFGH"[number]


def _name(uid: Uid, names: dict[Datagram, str], content: Datagram | None = None) -> str:
    """The datagram: by what it really is if the message carries it, else by its UID, which several may have had."""
    if content is not None:
        return names[content]
    known = [name for datagram, name in names.items() if datagram.uid == uid]
    return " or ".join(known) or f"({_node(uid.source)}, slot {uid.slot}, generation {uid.generation})"


def _uid(uid: Uid, setting: Setting) -> str:
    parts = [f"slot {uid.slot}"] * (setting.slots > 1) + [f"generation {uid.generation}"]
    return ", ".join(parts + [f"incarnation {uid.incarnation}"] * (setting.incarnations > 1))


def _line(move: Move, names: dict[Datagram, str], setting: Setting, counter: int) -> str:
    step, here = move.step, _node(move.node)
    if isinstance(step.about, int):
        return f"{here}: RESET, now {step.detail}"
    if step.event == "ACCEPT":
        live = step.node.slots[step.about.slot]
        assert live.datagram is not None
        names.pop(live.datagram, None)
        names[live.datagram] = f"d{counter}"
        to = _node(live.datagram.destination)
        expects = f", expects incarnation {live.expect}" if live.expect else ""
        mode = ", best effort" if live.mode == "best effort" else ""
        return f"{here}: ACCEPT {names[live.datagram]} for {to} ({_uid(step.about, setting)}{expects}{mode})"
    carried = move.heard or step.sent
    really = step.seen[1] if step.seen else carried.content if carried else None
    text = f"{here}: {step.event} {_name(step.about, names, really)}"
    if step.detail:
        text += f" ({step.detail.strip()})"
    if move.heard and move.heard.uid != step.about:
        text += f" as one of generation {step.about.generation}"
    if step.sent:
        sent = step.sent
        what = "" if step.event == sent.kind.upper() else f" {sent.kind} {_name(sent.uid, names, sent.content)}"
        text += f" →{what} to {_node(sent.receiver)}" + (", lost" if move.fate == "lost" else "")
    elif step.reply:
        text += f", its reply is {step.reply}"
    return text

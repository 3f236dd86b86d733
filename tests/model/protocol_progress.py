"""The progress that is demanded of the protocol's model."""

from collections.abc import Hashable, Iterable

from tests.model.graph import FREELY, PERHAPS, Goal
from tests.model.protocol_network import FREE_WILL, Move, Network
from tests.model.protocol_rules import LIVE


class Fair(Network):
    """A network of which some kinds of moves happen in fair runs."""

    def kind(self, move: Move) -> Hashable:
        step = move.step
        if step.event in FREE_WILL or step.detail in FREE_WILL:
            return FREELY
        if (
            step.event == "GIVE_UP"
            and step.detail == "RETRY_LIMIT"
            and (self.setting.reject or not self.setting.expects)
        ):
            return PERHAPS
        heard = move.heard.kind if move.heard else ""
        slot = step.about.slot if not isinstance(step.about, int) else 0
        full = heard == "Send" and step.detail == "TABLE_FULL"
        return (move.node, step.event, heard, slot), move.fate or step.reply, full

    def classes(self, kind: Hashable) -> tuple[set, set]:
        key, fate, full = kind  # type: ignore[misc]
        happens, arrives = ("happens", key), ("arrives", key)
        possible: set[tuple] = {happens, arrives} if fate and self.keeps("N4") else {happens}
        happening: set[tuple] = {happens, arrives} if fate in ("sent", "queued") else {happens}
        node, _, heard, slot = key
        if heard == "Send" and self.keeps("N5"):
            room = "room", node, slot
            possible.add(room)
            happening |= set() if full else {room}
        return possible, happening

    def goals(self, start: tuple) -> Iterable[Goal]:
        yield Goal("L2", "does not drain, although nothing new comes", lambda state: not self.drained(state), PERHAPS)
        for node in range(self.setting.nodes):
            for slot in range(len(self.node(start, node).slots)):
                yield Goal("L1", "a datagram never ends", lambda s, n=node, i=slot: self._lives(s, n, i), FREELY)

    def _lives(self, state: tuple, node: int, slot: int) -> bool:
        return self.node(state, node).slots[slot].place == LIVE

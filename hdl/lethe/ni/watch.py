"""The NI's trace words (cycle contract, section 7)."""

from amaranth.hdl import Cat, Const, Mux, Value, ValueLike

from lethe.spec.trace import WORD_BITS
from lethe.spec.wire import UID_GENERATION_SHIFT, UID_INCARNATION_SHIFT, UID_SLOT_SHIFT, UID_SOURCE_SHIFT

__all__ = ["event_word", "padded", "uid_word", "when"]


def padded(value, bits: int) -> Value:
    """``value`` zero-extended or cut to ``bits``."""
    value = Value.cast(value)
    return Cat(value, Const(0, bits - len(value))) if len(value) < bits else value[:bits]


def when(condition, word: Value) -> Value:
    """The word, or 0."""
    return Mux(condition, word, Const(0, WORD_BITS))


def _placed(parts) -> Value:
    """A word with values at bit positions, in rising order, without overlap."""
    pieces, at = [], 0
    for shift, value in parts:
        value = Value.cast(value)
        pieces += [Const(0, shift - at), value]
        at = shift + len(value)
    return Cat(*pieces, Const(0, WORD_BITS - at))


def event_word(
    event: ValueLike, *, detail: ValueLike = 0, peer: ValueLike = 0, length: ValueLike = 0, extra: ValueLike = 0
) -> Value:
    """First word of a lane."""
    return Cat(padded(event, 8), padded(detail, 8), padded(peer, 16), padded(length, 16), padded(extra, 16))


def uid_word(source, incarnation, slot, generation) -> Value:
    """Second word of a lane: the packed UID."""
    return _placed(
        (
            (UID_GENERATION_SHIFT, generation),
            (UID_SLOT_SHIFT, slot),
            (UID_INCARNATION_SHIFT, incarnation),
            (UID_SOURCE_SHIFT, source),
        )
    )

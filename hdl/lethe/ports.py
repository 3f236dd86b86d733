"""What passes between two host ports."""

from collections.abc import Sequence

from amaranth.hdl import Module
from amaranth.lib import data
from amaranth.lib.wiring import Out

__all__ = ["passed"]


def passed(m: Module, below, above, *, made: Sequence[str] = ()) -> None:
    """Everything that both ports have, but what is made, is at ``below`` what it is at ``above``."""
    for name, member in above.signature.members.items():
        if name in made or not hasattr(below, name):
            continue
        up, down = getattr(above, name), getattr(below, name)
        source, sink = (down, up) if member.flow == Out else (up, down)
        if member.is_port:
            m.d.comb += _assigned(sink, source)
        else:
            m.d.comb += [
                sink.valid.eq(source.valid),
                *_assigned(sink.payload, source.payload),
                source.ready.eq(sink.ready),
            ]


def _assigned(sink, source) -> list:
    """Assignments of a value, or of each field of a record, whose width may differ."""
    if isinstance(sink, data.View):
        return [sink[name].eq(source[name]) for name, _ in sink.shape()]
    return [sink.eq(source)]

"""Layouts of what travels on links, derived from `lethe.spec`."""

from amaranth.lib import data

from .spec.wire import Field, Wire

__all__ = ["field_of", "flit_layout"]


def flit_layout(wire: Wire) -> data.StructLayout:
    """A flit on a link: ``valid``, ``first``, ``last`` and ``flit_bits`` of data.

    When ``valid`` is 0 the other three are 0 (cycle contract, section 2).
    """
    return data.StructLayout({"valid": 1, "first": 1, "last": 1, "data": wire.flit_bits})


def field_of(field: Field, header):
    """The bits of one header field within a value that holds the header from bit 0 up."""
    return header[field.offset : field.offset + field.width]

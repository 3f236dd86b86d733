"""Presets: whole configurations by name, as the keys in which each differs from the defaults.

A configuration names one with ``preset = "small"`` before its first table, and then says only what it changes.
"""

import typing
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Preset:
    """One preset: what it is for, in words, and its tables."""

    about: str
    tables: Mapping[str, Mapping[str, typing.Any]]


PRESETS: dict[str, Preset] = {
    "tiny": Preset(
        about="the smallest network interface that is of use: four nodes on a mesh, for an iCE40",
        tables={
            "topology": {"kind": "mesh", "columns": 2, "rows": 2},
            "wire": {"flit_bits": 16, "tag_bits": 8},
            "ni": {
                "slots": 4,
                "sets": 4,
                "ways": 2,
                "reply_depth": 8,
                "deliver_records": 4,
                "deadline_bits": 14,
                "statistics": False,
            },
            "timers": {"backoff_steps": 0},
        },
    ),
    "small": Preset(
        about="many network interfaces on one device: 16 nodes on a fat tree, 32-bit flits",
        tables={
            "wire": {"flit_bits": 32},
            "ni": {"slots": 8, "sets": 8, "statistics": False},
        },
    ),
    "medium": Preset(about="the defaults: 16 nodes on a fat tree, 64-bit flits", tables={}),
    "large": Preset(
        about="many datagrams under way: 64 nodes on a fat tree, 256 slots and 1,024 receive entries",
        tables={
            "topology": {"levels": 3},
            "ni": {"slots": 256, "sets": 256},
            "timers": {"backoff_steps": 5, "timer_depth": 512},
        },
    ),
}


def over(preset: str, tables: Mapping[str, typing.Any]) -> dict[str, typing.Any]:
    """The tables of ``preset`` with ``tables`` laid over them key by key; raises `KeyError` for an unknown preset."""
    under = PRESETS[preset].tables
    merged = {name: dict(table) for name, table in under.items()} | dict(tables)
    for name in under.keys() & tables.keys():
        # What is no table stays, for its error.
        if isinstance(tables[name], dict):
            merged[name] = {**under[name], **tables[name]}
    return merged

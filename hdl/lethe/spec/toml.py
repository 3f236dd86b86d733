"""A `System` back to TOML text: how a run travels to another process, a trace's metadata or a bug report."""

import dataclasses

from .config import System, literal
from .sections import SECTIONS


def dump(system: System) -> str:
    """The TOML text of a system: the keys that differ from their defaults, and the name and seed of the run."""
    lines = []
    for section in dataclasses.fields(System):
        if section.name not in SECTIONS:
            continue
        value = getattr(system, section.name)
        plain, nested = [], []
        for key in dataclasses.fields(value):
            item = getattr(value, key.name)
            if isinstance(item, tuple):
                for entry in item:
                    nested.append(f"[[{section.name}.{key.name}]]")
                    nested += [f"{f.name} = {literal(getattr(entry, f.name))}" for f in dataclasses.fields(entry)]
            elif item != key.default or key.name in ("name", "seed", "kind"):
                plain.append(f"{key.name} = {literal(item)}")
        if plain or nested:
            lines += [f"[{section.name}]", *plain, *nested, ""]
    return "\n".join(lines)

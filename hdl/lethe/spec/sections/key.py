"""What the files of sections share: how a key is declared, and how a check says what is wrong."""

import typing
from collections.abc import Callable, Mapping
from dataclasses import field

#: ``fail(key, what is wrong, cure)`` raises.
Fail = Callable[[str, str, str], typing.NoReturn]
#: ``within(key, lowest, highest)`` raises unless the value of the key lies between.
Within = Callable[[str, float, float], None]


def key(default, about: str) -> typing.Any:
    """A key of a section: its default, and what it means."""
    return field(default=default, metadata={"about": about})


def refuse_settings(wanted: Mapping[str, int], what: str, service: str, fail: Fail) -> None:
    """Refuse keys of ``[ni]`` that do not go with a service: one message names them all, with the values that do.

    Parameters
    ----------
    wanted : {key: value}, empty if all is well
    what : what is wrong with the first one
    service : the key that, at 0, leaves the service out
    """
    told = {name: str(value).lower() for name, value in wanted.items()}
    for name, value in told.items():
        lines = ", ".join(f"{other} = {needed}" for other, needed in told.items())
        cure = f"set it to {value}, or" if len(told) == 1 else f"write {lines} in [ni], or set"
        fail(f"ni.{name}", what, f"{cure} {service} to 0")

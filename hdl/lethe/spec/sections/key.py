"""What the files of sections share: how a key is declared, and how a check says what is wrong."""

import typing
from collections.abc import Callable
from dataclasses import field

#: ``fail(key, what is wrong, cure)`` raises.
Fail = Callable[[str, str, str], typing.NoReturn]
#: ``within(key, lowest, highest)`` raises unless the value of the key lies between.
Within = Callable[[str, float, float], None]


def key(default, about: str) -> typing.Any:
    """A key of a section: its default, and what it means."""
    return field(default=default, metadata={"about": about})

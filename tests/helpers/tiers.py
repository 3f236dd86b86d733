"""Which values of a test are tried always, which with every push, and which with `--full` only."""

from collections.abc import Iterable
from typing import Any

import pytest


def but(quick: Iterable[Any], values: Iterable[Any], push: Iterable[Any] = ()) -> list[Any]:
    """Parameters for ``values``: those of ``push`` are marked `push`, all others ``but`` the ``quick`` ones `full`."""
    quick, values, push = list(quick), list(values), list(push)
    missing = [value for value in (*quick, *push) if value not in values]
    assert not missing, f"no such values: {missing}"
    one = [value if isinstance(value, tuple) else (value,) for value in values]

    def marks(value: Any) -> list[pytest.MarkDecorator]:
        return [] if value in quick else [pytest.mark.push if value in push else pytest.mark.full]

    return [pytest.param(*each, marks=marks(value)) for each, value in zip(one, values, strict=True)]

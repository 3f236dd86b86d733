"""Which values of a test are tried with every push, and which with `--full` only."""

from collections.abc import Iterable
from typing import Any

import pytest


def but(quick: Iterable[Any], values: Iterable[Any]) -> list[Any]:
    """Parameters for ``values``; all ``but`` the ``quick`` ones, which are among them, are marked `full`."""
    quick, values = list(quick), list(values)
    missing = [value for value in quick if value not in values]
    assert not missing, f"no such values: {missing}"
    one = [value if isinstance(value, tuple) else (value,) for value in values]
    return [
        pytest.param(*each, marks=[] if value in quick else [pytest.mark.full])
        for each, value in zip(one, values, strict=True)
    ]

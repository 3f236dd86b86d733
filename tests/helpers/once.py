"""What the workers of one run of the tests make once, whichever asks first."""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[], Any]) -> Any:
    """``make()``, which JSON can hold: made by the first worker to ask for ``name``, read by all others.

    The others wait meanwhile.  If ``make`` raises, the next one to ask tries again.
    """
    own = factory.getbasetemp()
    # A worker's directory is inside that of the run.
    place = Path(own.parent if "PYTEST_XDIST_WORKER" in os.environ else own, f"once-{name.replace(' ', '-')}")
    with place.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (text := file.read()):
            text = json.dumps(make())
            file.write(text)
    return json.loads(text)

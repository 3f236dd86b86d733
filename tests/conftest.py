"""What all tests share."""

import importlib.util
import signal
import sys
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from tests.helpers import ROOT

SCRIPTS = ROOT / "scripts"

# Who starts the tests in the background may have them ignore Ctrl-C, and every command they start would, too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def script() -> Iterator[Callable[[str], ModuleType]]:
    """Load a file of `scripts/`, which is no package."""
    loaded = []

    def load(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"script_{name}", SCRIPTS / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Dataclasses look their module up.
        sys.modules[spec.name] = module
        loaded.append(spec.name)
        with pytest.MonkeyPatch.context() as patch:  # what it shares with others lies beside it
            patch.syspath_prepend(SCRIPTS)
            spec.loader.exec_module(module)
        return module

    yield load
    for name in loaded:
        del sys.modules[name]

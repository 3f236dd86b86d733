"""How the golden model is compiled, and how to do without.

With the environment variable ``LETHE_NO_JIT`` set to anything but nothing, `jit` leaves functions as they
are: the model then runs in plain Python, a few hundred times slower and with the same results.

Compiled code is cached in a directory whose name is a digest of every source it could depend on: Numba
itself looks only at the file of the outermost function, and would miss a change in what that one calls.
"""

import enum
import hashlib
import os
import tempfile
from pathlib import Path

from lethe.spec import events, random, topology, trace, wire

JIT = not os.environ.get("LETHE_NO_JIT")


def _sources() -> str:
    """A digest of this package's sources and of the specification's constants, which are compiled in."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted(here.rglob("*.py")):
        digest.update(path.name.encode() + path.read_bytes())
    for module in (events, random, topology, trace, wire):
        for name, value in sorted(vars(module).items()):
            if isinstance(value, int | tuple | wire.Crc):
                digest.update(f"{name}={value}".encode())
            elif isinstance(value, enum.EnumType):
                digest.update(f"{name}={[int(member) for member in value]}".encode())
    return digest.hexdigest()[:16]


def _cache_directory() -> str:
    """The first place that can be written: the user's choice, the user's cache, a temporary directory."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    candidates = [Path(home) / "lethe", Path(tempfile.gettempdir()) / f"lethe-{os.getuid()}"]
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        candidates.insert(0, Path(chosen))
    for candidate in candidates:
        path = candidate / f"golden-{_sources()}"
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(path, os.W_OK):
            return str(path)
    return tempfile.mkdtemp(prefix="lethe-")


if JIT:
    import numba

    _DIRECTORY = _cache_directory()

    def jit(function):
        """``function`` compiled on first call and cached on disk."""
        kept, numba.config.CACHE_DIR = numba.config.CACHE_DIR, _DIRECTORY
        try:
            return numba.njit(cache=True, error_model="numpy")(function)
        finally:
            numba.config.CACHE_DIR = kept

else:

    def jit(function):
        """``function`` as it is: the compiler is off."""
        return function

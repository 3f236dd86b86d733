"""The processes of a test, found by a mark in their environment."""

from pathlib import Path


def running(mark: str) -> dict[int, str]:
    """The processes whose environment has ``mark``, with their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    return found

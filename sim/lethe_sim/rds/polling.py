"""Waiting for several sockets: as `select.poll` does, and as Python's `selectors` do (RDS-18, RDS-19)."""

import selectors
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .client import Client
from .constants import POLLIN, POLLOUT, POLLWRBAND
from .cycles import whole_cycles
from .socket import Socket

if TYPE_CHECKING:
    from .network import Sockets

__all__ = ["Poll", "RdsSelector"]


class Poll:
    """Sockets of one network, and what is awaited of each."""

    def __init__(self):
        self._wanted: dict[Socket, int] = {}

    def register(self, socket: Socket, bits: int = POLLIN | POLLOUT | POLLWRBAND) -> None:
        """Await these bits of a socket; a second time: these instead."""
        if self._wanted and socket.sockets is not next(iter(self._wanted)).sockets:
            raise ValueError(f"{socket!r} is of another network; sockets of one network are polled together")
        self._wanted[socket] = bits

    def modify(self, socket: Socket, bits: int) -> None:
        """Await other bits of a socket; KeyError if it is not registered."""
        if socket not in self._wanted:
            raise KeyError(socket)
        self._wanted[socket] = bits

    def unregister(self, socket: Socket) -> None:
        """Await nothing of a socket any more; KeyError if it is not registered."""
        del self._wanted[socket]

    def poll(self, cycles: int | None = None) -> list[tuple[Socket, int]]:
        """The sockets that are ready, with their bits; waits for at most so many cycles, None: for ever."""
        if not self._wanted:
            return []
        sockets = next(iter(self._wanted)).sockets
        ready = sockets.poll({socket.descriptor: bits for socket, bits in self._wanted.items()}, cycles)
        return [(socket, ready[socket.descriptor]) for socket in self._wanted if socket.descriptor in ready]


class RdsSelector(selectors.BaseSelector):
    """A selector of Python's `selectors` for sockets of one network.

    ``select`` waits for cycles.  With sockets of a `client.Client` it takes files of the system, too, for example
    the standard input: what comes first ends the wait.
    """

    def __init__(self):
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Await EVENT_READ, EVENT_WRITE or both."""
        if not events or events & ~(selectors.EVENT_READ | selectors.EVENT_WRITE):
            raise ValueError(f"events {events!r}: give EVENT_READ, EVENT_WRITE or both")
        if fileobj in self._keys:
            raise KeyError(f"{fileobj!r} is registered already")
        if isinstance(fileobj, Socket):
            number = fileobj.descriptor
            if any(fileobj.sockets is not other.sockets for other in self._sockets()):
                raise ValueError(f"{fileobj!r} is of another network; a selector is for sockets of one")
        else:
            number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        file: Any = fileobj
        self._keys[fileobj] = key = selectors.SelectorKey(file, number, events, data)
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Await nothing of it any more; KeyError if it is not registered."""
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """What is registered."""
        return dict(self._keys)

    def close(self) -> None:
        """Forget what is registered."""
        self._keys.clear()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; waits for at most so many cycles of the network, None: for ever, 0 or less: not at all.

        A number that is not whole is a `ValueError`, as for a socket: it may be meant as seconds.
        """
        cycles = None if timeout is None else whole_cycles(max(0, timeout))
        wanted = {key.fd: _bits(key.events) for file, key in self._keys.items() if isinstance(file, Socket)}
        sockets: Sockets | None = next((socket.sockets for socket in self._sockets()), None)
        files = {file: key.events for file, key in self._keys.items() if not isinstance(file, Socket)}
        if sockets is None:
            raise ValueError("no socket of a network is registered; for files alone take selectors.DefaultSelector")
        if files and not isinstance(sockets, Client):
            raise ValueError("files of the system need sockets of a Client; see docs/use/rds.md")
        others: dict[Any, int] = {}
        if files and isinstance(sockets, Client):
            ready, others = sockets.poll_with(wanted, cycles, files)
        else:
            ready = sockets.poll(wanted, cycles)
        found = []
        for file, key in self._keys.items():
            events = _events(ready.get(key.fd, 0)) if isinstance(file, Socket) else others.get(file, 0)
            if events & key.events:
                found.append((key, events & key.events))
        return found

    def _sockets(self) -> list[Socket]:
        return [file for file in self._keys if isinstance(file, Socket)]


def _bits(events: int) -> int:
    return (POLLIN if events & selectors.EVENT_READ else 0) | (POLLOUT if events & selectors.EVENT_WRITE else 0)


def _events(bits: int) -> int:
    return (selectors.EVENT_READ if bits & POLLIN else 0) | (selectors.EVENT_WRITE if bits & POLLOUT else 0)

"""A network that another process owns: the same sockets, over its server's Unix socket."""

import errno
import os
import selectors
import socket as system
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .addresses import rds_error
from .endpoint import ReadMessage
from .frames import FrameError, Frames, frame
from .info import Information
from .socket import Socket

__all__ = ["Client"]

_CHUNK = 1 << 16
#: Seconds without an answer after which what is connected to is taken for no server.
PATIENCE = 60.0


class Client:
    """A program's connection to a network.

    Parameters
    ----------
    path : of the server's Unix socket

    Calls of its sockets are done by the server, one at a time.  What is open when the program ends is closed.

    Raises
    ------
    OSError : nobody serves there; EPROTO, ETIMEDOUT: somebody does, but no network of Lethe's
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._path = path
        self._connection = system.socket(system.AF_UNIX, system.SOCK_STREAM)
        try:
            self._connection.connect(str(Path(path)))
        except OSError as error:
            self._connection.close()
            raise OSError(error.errno, f"{path}: {error.strerror}: no network is served there") from None
        self._frames = Frames()
        self._replies: dict[int, dict[str, Any]] = {}
        self._abandoned: set[int] = set()
        self._number = 0
        try:
            self.nodes = self._greet()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def close(self) -> None:
        """Leave the network; the server closes this program's sockets."""
        self._connection.close()

    # For users

    def socket(self, node: int) -> Socket:
        """A new socket of a node."""
        return Socket(self, node)

    @property
    def cycle(self) -> int:
        """Cycles of the network so far."""
        return self._ask("cycle")

    def information(self, node: int | None = None) -> Information:
        """What `rds-info` shows, of one node or all."""
        return Information.plain(self._ask("information", node=node))

    # For sockets

    def open(self, node: int) -> int:
        """A new socket's descriptor."""
        return self._ask("open", node=node)

    def call(self, descriptor: int, name: str, *arguments: Any, cycles: int | None = 0) -> Any:
        """A call of a socket, waiting for at most so many cycles; None: for ever."""
        value = self._ask("call", descriptor=descriptor, name=name, arguments=list(arguments), cycles=cycles)
        if name == "receive":
            return _taken(value)
        if name == "names":
            return tuple(None if one is None else tuple(one) for one in value)
        return value

    def poll(self, wanted: dict[int, int], cycles: int | None) -> dict[int, int]:
        """Which sockets are ready for what; waits for at most so many cycles."""
        return _bits(self._ask("poll", wanted=list(wanted.items()), cycles=cycles))

    def poll_with(
        self, wanted: dict[int, int], cycles: int | None, files: Mapping[Any, int]
    ) -> tuple[dict[int, int], dict[Any, int]]:
        """As `poll`, but files of the system end the wait, too; returns what of either is ready."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, selectors.EVENT_READ)
            for file, events in files.items():
                selector.register(file, events)
            number = self._begin("poll", wanted=list(wanted.items()), cycles=cycles)
            ready: dict[Any, int] = {}
            try:
                while number not in self._replies and not ready:
                    ready = {key.fileobj: events for key, events in selector.select()}
                    if ready.pop(self._connection, 0):
                        self._take()
            except BaseException:
                self._abandon(number)
                raise
        if number in self._replies:
            return _bits(self._end(number)), ready
        self._abandon(number)
        return {}, ready

    # The steps

    def _greet(self) -> int:
        """Ask for the number of nodes, which a server knows at once."""
        self._connection.settimeout(PATIENCE)
        try:
            nodes = self._ask("nodes")
        except TimeoutError:
            raise self._alien(errno.ETIMEDOUT) from None
        if type(nodes) is not int:
            raise self._alien()
        self._connection.settimeout(None)
        return nodes

    def _alien(self, number: int = errno.EPROTO) -> OSError:
        return OSError(number, f"{self._path}: {os.strerror(number)}: what serves there is no network of Lethe's")

    def _ask(self, request: str, **details: Any) -> Any:
        number = self._begin(request, **details)
        try:
            while number not in self._replies:
                self._take()
        except BaseException:
            self._abandon(number)
            raise
        return self._end(number)

    def _begin(self, request: str, **details: Any) -> int:
        if self._connection.fileno() < 0:
            raise rds_error(errno.ENETDOWN, "the network is closed")
        self._number += 1
        try:
            self._connection.sendall(frame({"number": self._number, "request": request, **details}))
        except (BrokenPipeError, ConnectionResetError):
            raise _gone() from None
        return self._number

    def _take(self) -> None:
        try:
            data = self._connection.recv(_CHUNK)
        except ConnectionResetError:
            data = b""
        if not data:
            raise _gone()
        try:
            replies = self._frames.feed(data)
        except FrameError:
            raise self._alien() from None
        for reply in replies:
            if not _is_reply(reply):
                raise self._alien()
            if reply["number"] in self._abandoned:
                self._abandoned.discard(reply["number"])
            else:
                self._replies[reply["number"]] = reply

    def _abandon(self, number: int) -> None:
        """Nobody waits for a reply any more."""
        if self._replies.pop(number, None) is not None:
            return
        self._abandoned.add(number)
        try:
            self._connection.sendall(frame({"number": number, "request": "abandon"}))
        except OSError:
            # The server is gone, and what it did for this client with it.
            return

    def _end(self, number: int) -> Any:
        reply = self._replies.pop(number)
        if "error" in reply:
            code, text = reply["error"]
            raise ValueError(text) if code is None else OSError(code, text)
        return reply["value"]


def _is_reply(reply: Any) -> bool:
    """A server says so: a value, or an errno (None: the question was wrong) and a text."""
    match reply:
        case {"number": int(), "error": [int() | None, str() | None]}:
            return True
        case {"number": int(), "value": _}:
            return "error" not in reply
    return False


def _gone() -> OSError:
    return rds_error(errno.ENETDOWN, "the process that owns the network is gone")


def _bits(pairs: list) -> dict[int, int]:
    return {descriptor: bits for descriptor, bits in pairs}


def _taken(value: dict) -> ReadMessage:
    ancdata = [(level, kind, data) for level, kind, data in value["ancdata"]]
    address = None if value["address"] is None else (value["address"][0], value["address"][1])
    return ReadMessage(value["data"], value["length"], ancdata, value["flags"], address, value["number"])

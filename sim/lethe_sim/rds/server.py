"""One process owns a network; others use it through a Unix socket (`client.Client`).

Time passes while a client waits for something that is under way or for cycles to be over.  While nobody waits, or all
wait for what somebody must send first, it stands still.
"""

import errno
import os
import secrets
import selectors
import socket as system
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .addresses import rds_error
from .endpoint import ReadMessage
from .frames import FrameError, Frames, frame
from .network import CALLS, RdsNetwork, Wait

__all__ = ["Server", "refuse_path"]

_CHUNK = 1 << 16
#: Bytes that a client may leave unread before it is asked no more.
_UNREAD = 1 << 23
#: Bytes of a name that is hardly taken, and how often a shorter one is drawn.
_BESIDE, _TRIES = 9, 64


class Connected:
    """A client: its sockets, and what it waits for."""

    def __init__(self, connection: system.socket):
        self.connection = connection
        self.frames = Frames()
        self.out = bytearray()
        self.descriptors: set[int] = set()
        self.waits: dict[int, tuple[str, Wait]] = {}


class Server:
    """Serves a network at a path.

    Parameters
    ----------
    network : stays the caller's: `close` does not close it
    path : of the Unix socket, which only this user may use; what a server that died left there is taken away

    Raises
    ------
    OSError : the path is in use, or cannot be made
    """

    def __init__(self, network: RdsNetwork, path: str | os.PathLike[str]):
        self.network, self.path = network, Path(path)
        self._listener = _listen(self.path)
        self._identity = _identity(self.path)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._woken, self._waker = system.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._clients: dict[system.socket, Connected] = {}
        self._stopped = self._full = False

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *unused) -> None:
        self.close()

    def close(self) -> None:
        """Leave the clients, and take the path away."""
        for client in list(self._clients.values()):
            self._leave(client)
        for one in (self._listener, self._woken, self._waker):
            one.close()
        self._selector.close()
        # Who took the path away may have begun another server there.
        if _identity(self.path) == self._identity:
            self.path.unlink(missing_ok=True)

    def stop(self) -> None:
        """End `serve`; from any thread."""
        self._stopped = True
        self._waker.send(b"x")

    def serve(self) -> None:
        """Serve until `stop`."""
        while not self._stopped:
            self.once(None)

    def once(self, seconds: float | None) -> None:
        """Take what clients ask, waiting for at most so long if there is nothing else to do, and let time pass once."""
        moving = self._moving()
        for key, events in self._selector.select(0 if moving else seconds):
            if key.fileobj is self._listener:
                self._meet()
            elif key.fileobj is self._woken:
                self._woken.recv(_CHUNK)
            elif (client := self._clients.get(key.fileobj)) is not None:  # pyrefly: ignore[bad-argument-type]
                if events & selectors.EVENT_READ:
                    self._read(client)
                if events & selectors.EVENT_WRITE:
                    self._write(client)
        if self._moving():
            self.network.go_on(min((end for end in self._ends() if end is not None), default=None))
            for client in list(self._clients.values()):
                for number in list(client.waits):
                    self._step(client, number)

    # Time

    def _ends(self) -> list[int | None]:
        return [wait.end for client in self._clients.values() for _, wait in client.waits.values()]

    def _moving(self) -> bool:
        """Time passes: somebody waits, and waiting helps."""
        waits = [wait for client in self._clients.values() for _, wait in client.waits.values()]
        return any(not wait.for_ever for wait in waits) or (bool(waits) and not self.network.idle)

    # Clients

    def _meet(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._clients:
                raise
            # There is no descriptor for one more: who comes now waits until one goes.
            self._selector.unregister(self._listener)
            self._full = True
            return
        connection.setblocking(False)
        self._clients[connection] = Connected(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _leave(self, client: Connected) -> None:
        if self._clients.pop(client.connection, None) is None:
            return
        for _, wait in client.waits.values():
            wait.give_up()
        for descriptor in client.descriptors:
            with suppress(OSError):
                self.network.call(descriptor, "close")
        self._selector.unregister(client.connection)
        client.connection.close()
        if self._full:
            self._full = False
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _read(self, client: Connected) -> None:
        try:
            data = client.connection.recv(_CHUNK)
            requests = client.frames.feed(data) if data else []
        except (ConnectionResetError, FrameError):
            data, requests = b"", []
        if not data or not all(
            isinstance(request, dict) and type(request.get("number")) is int for request in requests
        ):
            self._leave(client)
            return
        for request in requests:
            if client.connection not in self._clients:
                # It has gone before it was answered, and what it had open is closed.
                return
            self._request(client, request)

    def _reply(self, client: Connected, number: Any, **reply: Any) -> None:
        client.out += frame({"number": number, **reply})
        self._write(client)

    def _write(self, client: Connected) -> None:
        try:
            del client.out[: client.connection.send(client.out)]
        except BlockingIOError:
            pass
        except OSError:
            self._leave(client)
            return
        if client.connection in self._clients:
            full = len(client.out) > _UNREAD
            events = (0 if full else selectors.EVENT_READ) | (selectors.EVENT_WRITE if client.out else 0)
            self._selector.modify(client.connection, events)

    # Requests

    def _request(self, client: Connected, request: dict) -> None:
        number = request["number"]
        if request.get("request") == "abandon":
            if number in client.waits:
                client.waits.pop(number)[1].give_up()
                self._reply(client, number, error=[errno.EINTR, "abandoned"])
            return
        try:
            result = self._result(client, request)
            if isinstance(result, Generator):
                client.waits[number] = request["request"], Wait(result, request.get("cycles"), self.network.cycle)
                self._step(client, number)
            else:
                self._reply(client, number, value=result)
        except OSError as error:
            self._reply(client, number, error=[error.errno, error.strerror])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            # What no `Client` asks.
            self._reply(client, number, error=[None, str(error)])

    def _result(self, client: Connected, request: dict) -> Any:
        match request["request"]:
            case "nodes":
                return len(self.network.nodes)
            case "cycle":
                return self.network.cycle
            case "information":
                return asdict(self.network.information(request["node"]))
            case "open":
                descriptor = self.network.open(request["node"])
                client.descriptors.add(descriptor)
                return descriptor
            case "poll":
                wanted = {self._own(client, descriptor): bits for descriptor, bits in request["wanted"]}
                return self.network.watch(wanted)
            case "call":
                descriptor, name = self._own(client, request["descriptor"]), request["name"]
                if name not in CALLS:
                    raise ValueError(f"{name!r} is no call of a socket")
                if name == "close":
                    client.descriptors.discard(descriptor)
                arguments = [tuple(one) if isinstance(one, list) else one for one in request["arguments"]]
                return self.network.begin(descriptor, name, tuple(arguments))
        raise ValueError(f"{request['request']!r} is no request")

    def _own(self, client: Connected, descriptor: Any) -> int:
        if descriptor not in client.descriptors:
            raise rds_error(errno.EBADF, "the socket is closed, or another program's")
        return descriptor

    def _step(self, client: Connected, number: int) -> None:
        request, wait = client.waits[number]
        try:
            if not wait.over(self.network.cycle):
                return
            value = wait.value
            if request == "poll":
                value = list(value.items())
            elif isinstance(value, ReadMessage):
                value = asdict(value)
            del client.waits[number]
            self._reply(client, number, value=value)
        except (BlockingIOError, TimeoutError) as error:
            del client.waits[number]
            if request == "poll":
                self._reply(client, number, value=[])
            else:
                self._reply(client, number, error=[error.errno, error.strerror])
        except OSError as error:
            del client.waits[number]
            self._reply(client, number, error=[error.errno, error.strerror])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            del client.waits[number]
            self._reply(client, number, error=[None, str(error)])


def refuse_path(path: str | os.PathLike[str]) -> None:
    """Raise the `OSError` that `Server` would raise for ``path``, before a network is made; nothing is left there."""
    path = Path(path)
    with system.socket(system.AF_UNIX, system.SOCK_STREAM) as tried, _named(path):
        _bound_beside(tried, path).unlink()
        if os.path.lexists(path):
            _refuse_taken(path)


def _listen(path: Path) -> system.socket:
    """A listening Unix socket; one that nobody listens to any more is taken away first.

    It gets its name when it listens: who finds the path is not refused, and no server takes another for dead.
    """
    listener = system.socket(system.AF_UNIX, system.SOCK_STREAM)
    listener.setblocking(False)
    mask = os.umask(0o177)
    try:
        with _named(path):
            beside = _bound_beside(listener, path)
            try:
                listener.listen()
                try:
                    os.link(beside, path)
                except FileExistsError:
                    _refuse_taken(path)
                    path.unlink()
                    os.link(beside, path)
            finally:
                beside.unlink()
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(mask)
    return listener


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """An `OSError` of the block says which path is meant, and the cure."""
    try:
        yield
    except OSError as error:
        number, text = error.errno or errno.ENAMETOOLONG, error.strerror or error
        raise OSError(number, f"{path}: {text}; name another path") from None


def _refuse_taken(path: Path) -> None:
    """Raise `OSError` if ``path`` is no socket, or that of a server that lives."""
    if not path.is_socket() or _served(path):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _bound_beside(listener: system.socket, path: Path) -> Path:
    """The path beside ``path`` to which the listener is bound.

    Its name is as long as that of ``path`` at least, so that a path that is too long for a socket is refused here; it
    is not longer if such a one would not fit.
    """
    length = len(os.fsencode(path.name))
    refused = OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    for size in (max(length, _BESIDE), *[length] * _TRIES):
        name = f"{'.' * (size > 1)}{secrets.token_hex(4)}"[:size].ljust(size, "_")
        if name == path.name:
            continue
        try:
            listener.bind(str(path.parent / name))
            return path.parent / name
        except OSError as error:
            # Python itself refuses a path that is too long, and gives no number.
            if error.errno not in (None, errno.EADDRINUSE):
                raise
            refused = error
    raise refused


def _identity(path: Path) -> tuple[int, int] | None:
    """What tells a socket from one that has its path later; None: nothing is there."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _served(path: Path) -> bool:
    with system.socket(system.AF_UNIX, system.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            return True
    return True

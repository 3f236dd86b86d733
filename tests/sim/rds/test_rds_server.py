"""One process owns the network, others use it (the driver's server and client)."""

import errno
import json
import os
import selectors
import socket as system
import struct
import subprocess
import sys
import threading

import pytest

from lethe_sim.rds import RdsNetwork
from lethe_sim.rds import constants as rds
from lethe_sim.rds.client import Client
from lethe_sim.rds.frames import FrameError, Frames, frame
from lethe_sim.rds.polling import Poll, RdsSelector
from lethe_sim.rds.server import Server, refuse_path
from tests.helpers import ROOT
from tests.helpers.rds_sockets import bound, raises
from tests.helpers.rds_transport import ReferenceTransport

A, B = ("10.0.0.1", 4001), ("10.0.0.2", 4002)


@pytest.fixture
def served(tmp_path):
    """A network of 4 nodes, served by a thread; the path."""
    with RdsNetwork(ReferenceTransport(4)) as network, Server(network, tmp_path / "rds") as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        try:
            yield server
        finally:
            server.stop()
            thread.join(20)
            assert not thread.is_alive()


def program(name: str, path: os.PathLike) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.rds_programs", name, str(path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip


def test_two_processes_talk_through_one_network(served):
    echo = program("echo", served.path)
    assert echo.stdout is not None and echo.stdout.readline() == "ready\n"
    ask = program("ask", served.path)
    out, error = ask.communicate(timeout=60)
    assert (ask.returncode, error) == (0, "") and int(out.split()[1]) > 1000
    out, error = echo.communicate(timeout=60)
    assert (echo.returncode, error) == (0, "")


def test_a_client_has_the_calls_and_errors_of_the_network(served):
    with Client(served.path) as network, Client(served.path) as other:
        assert network.nodes == 4
        with raises(errno.EADDRNOTAVAIL, "is no address of node 0"):
            network.socket(0).bind(B)
        a, b = bound(network, 0, 4001), bound(other, 1, 4002)
        assert a.getsockname() == A
        with raises(errno.EADDRINUSE):
            bound(other, 0, 4017)
        with raises(errno.ENOTCONN):
            a.getpeername()
        a.connect(B)
        assert a.getpeername() == B
        with raises(errno.EAGAIN):
            b.recv(9, rds.MSG_DONTWAIT)
        b.settimeout(50)
        with pytest.raises(TimeoutError, match="not within 50 cycles"):
            b.recv(9)
        assert b.poll(rds.POLLIN, 50) == 0
        a.send(bytes(range(200)))
        b.settimeout(None)
        assert b.recvmsg(100) == (bytes(range(100)), [], rds.MSG_TRUNC, A)
        assert network.information(0).sockets == served.network.information(0).sockets
        assert network.information() == served.network.information()
        with pytest.raises(ValueError, match="node 4: there are 4; name one of 0 to 3"):
            network.socket(4)
        poll = Poll()
        poll.register(a, rds.POLLOUT)
        assert poll.poll() == [(a, rds.POLLOUT)]
        with pytest.raises(ValueError, match="is of another network"):
            poll.register(b)


def test_a_program_that_ends_frees_its_ports(served):
    with Client(served.path) as network:
        bound(network, 0, 4001)
    with Client(served.path) as network:
        for _ in range(100):
            try:
                bound(network, 0, 4001)
                break
            except OSError as error:
                # The server may not have seen its end.
                assert error.errno == errno.EADDRINUSE
        else:
            raise AssertionError("the port is still bound")


def test_who_goes_with_questions_left_leaves_nothing_open(tmp_path):
    """What is asked behind the first answer that cannot be given is not done any more."""
    with RdsNetwork(ReferenceTransport(2)) as network, Server(network, tmp_path / "rds") as server:
        with system.socket(system.AF_UNIX) as raw:
            raw.connect(str(server.path))
            calls = {"request": "call", "descriptor": 3, "name": "bind", "arguments": list(A), "cycles": None}
            requests = ({"request": "nodes"}, {"request": "open", "node": 0}, calls)
            raw.sendall(b"".join(frame({"number": number, **one}) for number, one in enumerate(requests)))
        for _ in range(4):
            server.once(0)
        assert network.information(0).sockets[1:] == []
        bound(network, 0, 4001)


def test_sockets_of_another_program_cannot_be_touched(served):
    with Client(served.path) as network, Client(served.path) as other:
        a = bound(network, 0, 4001)
        with raises(errno.EBADF, "another program's"):
            other.call(a.descriptor, "close")
        with raises(errno.EBADF):
            other.poll({a.descriptor: rds.POLLOUT}, 0)


def test_time_stands_still_while_nobody_waits(served):
    with Client(served.path) as network:
        a = bound(network, 0, 4001)
        a.sendto(b"x", B)
        before = network.cycle
        assert network.cycle == before
        a.drain()
        assert network.cycle > before


def test_who_waits_for_ever_is_woken_by_another_program(served):
    """Nothing is under way: the server sleeps, and nobody is told of a deadlock."""
    with Client(served.path) as one, Client(served.path) as other:
        a, b = bound(one, 0, 4001), bound(other, 1, 4002)
        got = []
        thread = threading.Thread(target=lambda: got.append(b.recv(9)))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        a.sendto(b"woken", B)
        a.drain()
        thread.join(20)
        assert got == [b"woken"]


def test_a_selector_waits_for_sockets_and_files(served):
    """As a chat does: what is typed, or what arrives."""
    with Client(served.path) as network, Client(served.path) as other, RdsSelector() as selector:
        a, b = bound(network, 0, 4001), bound(other, 1, 4002)
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb", 0) as typed, os.fdopen(writer, "wb", 0) as keyboard:
            selector.register(b, selectors.EVENT_READ, "arrived")
            selector.register(typed, selectors.EVENT_READ, "typed")
            assert selector.select(100) == []
            keyboard.write(b"!")
            assert [(key.data, events) for key, events in selector.select()] == [("typed", selectors.EVENT_READ)]
            typed.read(1)
            a.sendto(b"x", B)
            a.drain()
            assert [(key.data, events) for key, events in selector.select()] == [("arrived", selectors.EVENT_READ)]
            # What was asked before and is of no interest any more does not come in between.
            assert b.recv(9) == b"x" and b.poll(rds.POLLIN, 0) == 0


def test_a_call_that_is_interrupted_takes_nothing(served, monkeypatch):
    """Ctrl-C in a call: the next one gets the message."""
    with Client(served.path) as one, Client(served.path) as other:
        a, b = bound(one, 0, 4001), bound(other, 1, 4002)

        def interrupt(self):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(Client, "_take", interrupt)
            b.recv(9)
        a.sendto(b"x", B)
        a.drain()
        assert b.recv(9) == b"x"


def test_a_selector_that_is_interrupted_leaves_nothing_under_way(served, monkeypatch):
    """Else time would pass for a wait that nobody waits for."""
    with Client(served.path) as network, RdsSelector() as selector, system.socket() as file:
        a = bound(network, 0, 4001)
        selector.register(a, selectors.EVENT_READ)
        selector.register(file, selectors.EVENT_WRITE)
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("lethe_sim.rds.client.selectors", Interrupting)
            selector.select(1 << 40)
        assert a.getsockname() == A
        assert not any(one.waits for one in served._clients.values())


class Interrupting:
    """`selectors` for a client that is interrupted while it waits."""

    EVENT_READ = selectors.EVENT_READ

    class DefaultSelector(selectors.DefaultSelector):
        def select(self, timeout=None):
            raise KeyboardInterrupt


def test_who_finds_no_descriptor_free_waits_until_another_goes(tmp_path, monkeypatch):
    """The server stays, and so do those that it has."""
    with RdsNetwork(ReferenceTransport(2)) as network, Server(network, tmp_path / "rds") as server:
        first, later = (system.socket(system.AF_UNIX) for _ in range(2))
        with first, later:
            first.connect(str(server.path))
            server.once(0)
            later.connect(str(server.path))
            with monkeypatch.context() as patched:
                patched.setattr(system.socket, "accept", exhausted)
                for _ in range(2):
                    server.once(0)
            assert len(server._clients) == 1
            first.close()
            for _ in range(2):
                server.once(0)
            assert len(server._clients) == 1
            later.sendall(frame({"number": 1, "request": "nodes"}))
            server.once(0)
            assert Frames().feed(later.recv(99)) == [{"number": 1, "value": 2}]


def exhausted(listener):
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_server_that_goes_is_told(tmp_path):
    with RdsNetwork(ReferenceTransport(2)) as network, Server(network, tmp_path / "rds") as server:
        thread = threading.Thread(target=server.serve)
        thread.start()
        client = Client(server.path)
        a = client.socket(0)
        server.stop()
        thread.join(20)
    with raises(errno.ENETDOWN, "the process that owns the network is gone"):
        a.bind(A)
    with raises(errno.ENETDOWN), a:
        a.bind(A)
    client.close()
    with raises(errno.ENETDOWN, "the network is closed"):
        client.socket(0)
    with raises(errno.ENOENT, "no network is served there"):
        Client(tmp_path / "rds")


def test_a_path_is_served_once_and_taken_from_the_dead(tmp_path):
    path = tmp_path / "rds"
    with RdsNetwork(ReferenceTransport(2)) as network:
        with Server(network, path):
            with raises(errno.EADDRINUSE, "name another path"):
                Server(network, path)
            with raises(errno.EADDRINUSE, "name another path"):
                refuse_path(path)
        assert not path.exists()
        with system.socket(system.AF_UNIX) as dead:
            dead.bind(str(path))
        refuse_path(path)
        with Server(network, path):
            assert path.stat().st_mode & 0o777 == 0o600
        refuse_path(path)
        assert [*tmp_path.iterdir()] == []
        path.write_text("a file")
        for taken in (Server, lambda _, path: refuse_path(path)):
            with raises(errno.EADDRINUSE):
                taken(network, path)
            assert path.read_text() == "a file"
            with raises(errno.ENAMETOOLONG, "too long; name another path"):
                taken(network, tmp_path / ("x" * 108))
        assert [*tmp_path.iterdir()] == [path]


def test_a_path_that_another_server_has_by_now_stays(tmp_path):
    path = tmp_path / "rds"
    with RdsNetwork(ReferenceTransport(2)) as network:
        first = Server(network, path)
        path.unlink()
        with Server(network, path):
            first.close()
            assert path.is_socket()
        assert not path.exists()


@pytest.mark.parametrize("name", ["s", "at", ".a", "a.socket", "longer.socket"])
def test_a_path_that_just_fits_is_served(tmp_path, name):
    """107 bytes are the longest path of a socket; the name that the server has before is no longer."""
    room = 107 - len(os.fsencode(tmp_path)) - len(name) - 2
    folder = tmp_path / ("d" * room)
    folder.mkdir()
    with RdsNetwork(ReferenceTransport(2)) as network:
        with Server(network, folder / name) as server, system.socket(system.AF_UNIX) as client:
            assert len(os.fsencode(server.path)) == 107
            client.connect(str(server.path))
            assert [one.name for one in folder.iterdir()] == [name]
        assert not any(folder.iterdir())
        with raises(errno.ENAMETOOLONG, f"{name}x: AF_UNIX path too long; name another path"):
            Server(network, folder / f"{name}x")
        assert not any(folder.iterdir())


def test_a_name_that_is_taken_is_not_the_one_beside(tmp_path):
    """A name of one byte has few others beside it."""
    folder = tmp_path / ("d" * (107 - len(os.fsencode(tmp_path)) - 3))
    folder.mkdir()
    for taken in "0123456789":
        (folder / taken).touch()
    with RdsNetwork(ReferenceTransport(2)) as network, Server(network, folder / "s") as server:
        assert server.path.is_socket()


def test_who_finds_the_path_is_not_refused(tmp_path, monkeypatch):
    """A server that has not begun to listen is not there: neither for clients nor for a server at the same path."""
    path, others = tmp_path / "rds", []

    class Late(system.socket):
        def listen(self, *backlog):
            assert not path.exists()
            if not others:
                others.append(None)
                others[0] = Server(network, path)
            super().listen(*backlog)

    with RdsNetwork(ReferenceTransport(2)) as network:
        monkeypatch.setattr(system, "socket", Late)
        with raises(errno.EADDRINUSE):
            Server(network, path)
        monkeypatch.undo()
        with others[0], system.socket(system.AF_UNIX) as client:
            client.connect(str(path))
        assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.0\r\n\r\n",
        struct.pack(">II", 3, 0) + b"{}}",
        struct.pack(">II", 2, 0) + b"[]",
        frame({"request": "cycle"}),
        frame({"number": [1], "request": "cycle"}),
        frame(5),
        struct.pack(">II", 13, 0) + b'{"bytes": 12}',
        struct.pack(">II", 60000, 0) + b"[" * 60000,
    ],
)
def test_who_does_not_speak_like_a_client_is_left(served, nonsense):
    with system.socket(system.AF_UNIX) as raw:
        raw.connect(str(served.path))
        raw.sendall(nonsense)
        raw.settimeout(20)
        assert raw.recv(100) == b""
    with Client(served.path) as network:
        assert network.nodes == 4


@pytest.mark.parametrize(
    "request_",
    [
        {"request": "nothing"},
        {},
        {"request": "open", "node": "x"},
        {"request": "open", "node": 99},
        {"request": "poll", "wanted": 5, "cycles": 0},
        {"request": "poll", "wanted": [["x", 1]], "cycles": 0},
        {"request": "call", "descriptor": 5, "name": "bind", "arguments": []},
        {"request": "information", "node": []},
    ],
)
def test_requests_that_no_client_makes_are_errors(served, request_):
    with system.socket(system.AF_UNIX) as raw:
        raw.connect(str(served.path))
        raw.sendall(frame({"number": 1, **request_}))
        raw.settimeout(20)
        (reply,) = Frames().feed(raw.recv(10000))
        assert reply["number"] == 1 and "error" in reply


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("bind", ["10.0.0.1"]), ("bind", ["10.0.0.1", "x"]), ("send", ["text", ["10.0.0.2", 5], 0]),
     ("send", [b"x", ["a", 5], 0]), ("send", [b"x", ["10.0.0.2", 70000], 0]), ("send", [b"x", 5, 0]),
     ("send", [b"x", ["10.0.0.2", 5], "f"]), ("receive", ["x", 0, 0]), ("put", [1]), ("__init__", []),
     ("set_option", [1, 7, "x"]), ("connect", ["10.0.0.2", -1])],
)  # fmt: skip
def test_calls_with_wrong_arguments_hurt_nobody(served, name, arguments):
    with Client(served.path) as network:
        a = bound(network, 0, 4001)
        bound(network, 1, 4002).sendto(b"x", A)
        a.poll(rds.POLLIN)
        with pytest.raises((OSError, ValueError)):
            network.call(a.descriptor, name, *arguments, cycles=0)
        with pytest.raises(ValueError):
            network.call(a.descriptor, "receive", 1, 1, 0, cycles="soon")  # type: ignore[arg-type]
        assert a.sendto(b"fine", B) == 4
        a.drain()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack(">II", 3, 0) + b"{}}",
        frame([1, 2]),
        frame({"number": 1, "request": "nodes"}),
        frame({"number": [1], "value": 4}),
        frame({"number": 1, "value": "x"}),
        frame({"number": 1, "value": None}),
        frame({"number": 1, "error": 5}),
        frame({"number": 1, "error": ["x", "y"]}),
        frame({"number": 1, "error": [5, 6], "value": 4}),
    ],
)
def test_what_does_not_answer_like_a_server_is_told(tmp_path, answer):
    path = tmp_path / "other"
    with system.socket(system.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve():
            with listener.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(answer)
                connection.recv(1000)

        thread = threading.Thread(target=serve)
        thread.start()
        with raises(errno.EPROTO, f"{path}: Protocol error: what serves there is no network of Lethe's"):
            Client(path)
        thread.join(20)
        assert not thread.is_alive()


def test_what_does_not_answer_at_all_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("lethe_sim.rds.client.PATIENCE", 0.2)
    path = tmp_path / "other"
    with system.socket(system.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with raises(errno.ETIMEDOUT, "what serves there is no network of Lethe's"):
            Client(path)


@pytest.mark.parametrize("wrong", [10.5, float("nan"), -1, "soon", [1]])
def test_a_wrong_number_of_cycles_hurts_nobody(served, wrong):
    """Time is in whole cycles: the client is told, and the server serves on."""
    with Client(served.path) as network, Client(served.path) as other:
        a = bound(network, 0, 4001)
        with pytest.raises(ValueError, match="give a whole number, 0 or more"):
            a.poll(rds.POLLIN, wrong)
        with pytest.raises(ValueError, match="give a whole number, 0 or more"):
            network.call(a.descriptor, "receive", 1, 1, 0, cycles=wrong)
        assert other.nodes == 4 and a.poll(rds.POLLIN, 10) == 0


def test_frames_in_any_pieces():
    value = {"a": [b"one", b"", {"b": b"two"}], "n": None, "t": (1, 2)}
    data = frame(value) + frame("x")
    frames, got = Frames(), []
    for byte in data:
        got += frames.feed(bytes([byte]))
    assert got == [{"a": [b"one", b"", {"b": b"two"}], "n": None, "t": [1, 2]}, "x"]
    with pytest.raises(FrameError):
        Frames().feed(b"\xff" * 8)
    text = json.dumps({"bytes": 9}).encode()
    with pytest.raises(FrameError, match="too few bytes"):
        Frames().feed(struct.pack(">II", len(text), 3) + text + b"abc")

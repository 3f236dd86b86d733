"""`rds-ping`: empty messages to port 0 of a node, which answers each from there."""

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .constants import PING_PORT
from .socket import Socket

if TYPE_CHECKING:
    from .network import Sockets

__all__ = ["Answer", "lines", "ping", "told"]


@dataclass(frozen=True)
class Answer:
    """A ping's answer; ``cycles`` is the round trip, None: none came."""

    number: int
    cycles: int | None


def ping(
    sockets: "Sockets", node: int, own: str, to: str, *, count: int = 5, interval: int = 1000, patience: int = 20_000
) -> Iterator[Answer]:
    """Ping an address, one after the other.

    Parameters
    ----------
    node, own : from which node, and its address
    to : the address that is pinged
    interval : cycles from a ping to the next, if its answer comes sooner
    patience : cycles after which an answer is given up

    Raises
    ------
    OSError : EHOSTUNREACH: no node has the address
    """
    with Socket(sockets, node) as socket:
        socket.bind((own, 0))
        for number in range(1, count + 1):
            began = sockets.cycle
            socket.settimeout(patience)
            try:
                socket.sendto(b"", (to, PING_PORT))
                socket.settimeout(max(1, began + patience - sockets.cycle))
                socket.recvfrom(0)
            except TimeoutError:
                # An answer that comes later would be taken for the next one's.
                socket.cancel_sent_to((to, PING_PORT))
                yield Answer(number, None)
                _forget(socket, interval)
                continue
            took = sockets.cycle - began
            yield Answer(number, took)
            if number < count and took < interval:
                socket.poll(0, interval - took)


def _forget(socket: Socket, cycles: int) -> None:
    """Read what comes late."""
    socket.settimeout(cycles)
    try:
        while True:
            socket.recvfrom(0)
    except TimeoutError:
        return
    except OSError as error:
        if error.errno != errno.EAGAIN:
            raise


def told(answer: Answer) -> str:
    """A line for an answer."""
    return f"{answer.number:4}: " + ("no answer" if answer.cycles is None else f"{answer.cycles:,} cycles")


def lines(answers: list[Answer]) -> list[str]:
    """What is said at the end."""
    took = sorted(answer.cycles for answer in answers if answer.cycles is not None)
    text = f"{len(took)} of {len(answers)} pings answered"
    if not took:
        return [text]
    middle = sum(took[(len(took) - 1) // 2 : len(took) // 2 + 1]) / (2 - len(took) % 2)
    return [f"{text}; cycles: least {took[0]:,}, median {middle:,.0f}, most {took[-1]:,}"]

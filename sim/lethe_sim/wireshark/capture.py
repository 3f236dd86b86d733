"""A capture of links as pcapng: an interface for each link, a packet for each message, a cycle as a nanosecond.

The packets are of the user link type 0: the header of `lethe.spec.capture`, then the flits, each with its lowest byte
first.  What does not pass its link whole has a comment.
"""

import struct
from pathlib import Path
from typing import IO

from dpkt import pcapng

from lethe.spec.capture import LINK_TYPE, PACKING, VERSION, Mark, Passage, format_number
from lethe.spec.config import System
from lethe.spec.toml import dump
from lethe_sim.files import MARK
from lethe_sim.golden.model import Golden

from .messages import LinkMessage, Messages

# Options of blocks, as in the standard.
_USED_BY, _NAME, _ABOUT, _RESOLUTION, _FLAGS = 4, 2, 3, 9, 2
_INBOUND, _OUTBOUND = 1, 2
_BLOCK = 6
_LONGEST_OPTION = 0xFFFF


class CaptureWriter:
    """Writes what crosses the tapped links of a golden model; `take` after each piece of the run, then `finish`.

    Parameters
    ----------
    file : binary, to write to
    links : the numbers of the tapped links, in order
    """

    def __init__(self, file: IO[bytes], system: System, links: list[int]):
        self._file, self._messages = file, Messages(system, links)
        self._numbers = {link: number for number, link in enumerate(links)}
        self._names = {link: system.graph.link_name(link) for link in links}
        self._format, self._flit_bytes = format_number(system.format), system.format.flit_bytes
        self.written = 0
        self._failed: OSError | None = None
        #: Which way a link leads, seen from a node; a link between routers has none.
        self._ways = {}
        for link in links:
            end = system.graph.link(link)
            if end.source_is_node or end.target_is_node:
                self._ways[link] = _OUTBOUND if end.source_is_node else _INBOUND
        about = dump(system).encode()
        options = [(_USED_BY, MARK.encode())]
        if len(about) <= _LONGEST_OPTION:
            options.append((pcapng.PCAPNG_OPT_COMMENT, about))
        header = pcapng.SectionHeaderBlockLE(opts=[_option(*option) for option in (*options, (0, b""))])
        file.write(bytes(header))
        for link in links:
            named = [(_NAME, self._names[link].encode()), (_ABOUT, f"link{link}".encode()), (_RESOLUTION, b"\x09")]
            file.write(
                bytes(
                    pcapng.InterfaceDescriptionBlockLE(
                        linktype=LINK_TYPE, snaplen=0, opts=[_option(*option) for option in (*named, (0, b""))]
                    )
                )
            )

    def take(self, golden: Golden, events) -> None:
        """Write the messages that are complete; ``events`` are those of the run since the last call.

        An error of writing is raised by `finish`: the run goes on without its capture.
        """
        try:
            self._write(golden, events, over=False)
        except OSError as error:
            self._failed = error

    def finish(self, golden: Golden, events) -> None:
        """Write the rest.  Raises OSError if anything could not be written."""
        if self._failed is not None:
            raise self._failed
        self._write(golden, events, over=True)

    def _write(self, golden: Golden, events, *, over: bool) -> None:
        flits = golden.take_flits()
        if self._failed is not None:
            return
        for message in self._messages.take(flits, events, golden.cycle, over=over):
            self._file.write(self._packet(message))
            self.written += 1

    def _packet(self, message: LinkMessage) -> bytes:
        data = PACKING.pack(
            VERSION, message.passage, message.marks, message.fate, message.detail, self._flit_bytes, message.flits,
            message.reached, message.flips, message.link, self._format, message.cycle,
        ) + message.data  # fmt: skip
        options = b""
        if (way := self._ways.get(message.link)) is not None:
            options += struct.pack("<HHI", _FLAGS, 4, way)
        if comment := self._comment(message):
            text = comment.encode()
            options += struct.pack("<HH", pcapng.PCAPNG_OPT_COMMENT, len(text)) + _padded(text)
        if options:
            options += b"\0\0\0\0"
        padded = _padded(data)
        size = 32 + len(padded) + len(options)
        head = struct.pack(
            "<IIIIIII", _BLOCK, size, self._numbers[message.link], message.cycle >> 32, message.cycle & 0xFFFF_FFFF,
            len(data), len(data),
        )  # fmt: skip
        return head + padded + options + struct.pack("<I", size)

    def _comment(self, message: LinkMessage) -> str:
        """What became of a message that did not pass its link as it was; nothing if it did."""
        where = f"link{message.link} {self._names[message.link]}"
        match message.passage:
            case Passage.LOST:
                return f"lost on {where}"
            case Passage.DEAD:
                return f"{where} is dead: {message.reached} of {message.flits} flits passed"
        if message.marks & Mark.FLIPPED:
            return f"a bit of {'a flit' if message.flips == 1 else f'{message.flips} flits'} was flipped on {where}"
        return ""


def _option(code: int, data: bytes):
    return pcapng.PcapngOptionLE(code=code, data=data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def beside(path: Path) -> Path:
    """Where the dissector of a capture goes."""
    return path.with_suffix(".lua")

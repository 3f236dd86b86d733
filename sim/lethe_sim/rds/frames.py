"""What a client and its server say to each other: JSON, with the bytes of messages behind it.

A frame is two lengths of 32 bits, the highest byte first, then the JSON, then the bytes.  In the JSON ``{"bytes": n}``
is the next n bytes behind.
"""

import json
import struct
from typing import Any

__all__ = ["FrameError", "Frames", "frame"]

_LENGTHS = struct.Struct(">II")
#: Bytes of the longest part of a frame: more than the longest message, and than all tables of `information`.
LONGEST_PART = 1 << 24


class FrameError(Exception):
    """What came is no frame."""


def frame(value: Any) -> bytes:
    """A value of JSON, which may hold bytes, as a frame; a tuple becomes a list."""
    blobs: list[bytes] = []

    def plain(item: Any) -> Any:
        match item:
            case bytes() | bytearray() | memoryview():
                blobs.append(bytes(item))
                return {"bytes": len(item)}
            case list() | tuple():
                return [plain(one) for one in item]
            case dict():
                return {name: plain(one) for name, one in item.items()}
        return item

    text = json.dumps(plain(value)).encode()
    data = b"".join(blobs)
    return _LENGTHS.pack(len(text), len(data)) + text + data


class Frames:
    """Takes bytes as they come, and gives the values of whole frames."""

    def __init__(self):
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[Any]:
        """The values of the frames that are whole now.

        Raises
        ------
        FrameError : this is no frame
        """
        self._bytes += data
        values = []
        while len(self._bytes) >= _LENGTHS.size:
            text, blobs = _LENGTHS.unpack_from(self._bytes)
            if max(text, blobs) > LONGEST_PART:
                raise FrameError(f"a frame of {text + blobs:,} bytes")
            end = _LENGTHS.size + text + blobs
            if len(self._bytes) < end:
                break
            values.append(_value(bytes(self._bytes[_LENGTHS.size : end]), text))
            del self._bytes[:end]
        return values


def _value(data: bytes, text: int) -> Any:
    at = text

    def whole(item: Any) -> Any:
        nonlocal at
        match item:
            case {"bytes": int(length)} if len(item) == 1:
                if length < 0 or at + length > len(data):
                    raise FrameError("a frame with too few bytes")
                at += length
                return data[at - length : at]
            case list():
                return [whole(one) for one in item]
            case dict():
                return {name: whole(one) for name, one in item.items()}
        return item

    try:
        return whole(json.loads(data[:text]))
    except (ValueError, RecursionError) as error:
        raise FrameError(str(error)) from None

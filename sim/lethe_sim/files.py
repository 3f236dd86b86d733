"""Files that Lethe writes: whole or not at all, and never over what is not of their kind.

A file is written beside its place under a hidden name that ends in ``.part``, and renamed when it is complete: a full
disk or an interrupt leaves what was there.  Devices and pipes are written to as they are.
"""

import contextlib
import errno
import glob
import os
import platform
import re
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import lethe

#: The key of a trace's metadata in the footer of its file, and what holds the metadata of a trace of several files.
TRACE_KEY, MANIFEST = b"lethe.trace", "_trace.json"
#: Suffix of what is being written.
PART = ".part"
#: What Lethe's own texts begin with, after the sign that begins a comment.
MARK = f"Lethe {lethe.__version__}"

_PART_NAME = re.compile(r"cycles=\d{12,}-\d{12,}\.parquet")
_HEAD = 4096


class WriteError(OSError):
    """A file that could not be written to its end, for want of room, say.  ``file: what is wrong; cure``."""


# Kinds of files, and how each is recognised.


@dataclass(frozen=True, kw_only=True)
class FileKind:
    """A kind of output.

    Attributes
    ----------
    name : with its article, as messages have it
    known : whether a regular file or a directory, given by its path, is recognisably of this kind; None for a kind
        that nothing can be told by, whose files are never replaced unasked
    file, directory : what it may be
    tree : a directory of it is replaced as a whole, so that nothing else may lie in it
    kept : a file of another kind is left there, and nothing written
    """

    name: str
    known: Callable[[Path], bool] | None = None
    file: bool = True
    directory: bool = False
    tree: bool = False
    kept: bool = False

    def fits(self, path: Path) -> bool:
        """Whether what is at ``path`` may be replaced unasked: it is of this kind, or empty."""
        try:
            if path.is_dir():
                known = self.directory and self.known is not None and self.known(path)
                return known or not (self.file or any(path.iterdir()))
            return self.file and (path.stat().st_size == 0 or bool(self.known and self.known(path)))
        except OSError:
            return False


def _head(begins: str) -> Callable[[Path], bool]:
    """Whether a file's first 4 KB, after white space, match a regular expression."""
    pattern = re.compile(rb"\s*" + begins.encode(), re.DOTALL)

    def known(path: Path) -> bool:
        if path.is_dir():
            return False
        with path.open("rb") as file:
            return pattern.match(file.read(_HEAD)) is not None

    return known


def is_trace(path: Path) -> bool:
    """Whether a file or directory looks like a trace, and holds nothing else."""
    if path.is_dir():
        names = {entry.name for entry in path.iterdir()}
        return MANIFEST in names and all(_PART_NAME.fullmatch(name) for name in names - {MANIFEST})
    with path.open("rb") as file:
        if file.read(4) != b"PAR1":
            return False
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - 8, 0))
        length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
        if magic != b"PAR1" or length > size - 12:
            return False
        file.seek(size - 8 - length)
        # In the footer a text follows its length.
        return bytes([len(TRACE_KEY)]) + TRACE_KEY in file.read(length)


def is_sweep(path: Path) -> bool:
    """Whether a directory looks like that of a sweep."""
    return (path / "runs").is_dir() and ((path / "sweep.toml").is_file() or (path / ".lock").is_file())


#: What a directory of Lethe's has that nothing else tells apart, such as that of a bitstream.
STAMP = ".lethe"


def _stamped(path: Path) -> bool:
    return (path / STAMP).is_file()


def _is_registers(path: Path) -> bool:
    """Whether a directory looks like one of `lethe verilog --registers`."""
    return _stamped(path) and any(path.glob("*.rdl"))


#: The last columns of the numbers of a figure; before them is one for each axis.
FIGURE_COLUMNS = ("metric", "unit", "runs", "mean", "deviation", "low", "high")

TRACE = FileKind(name="a trace of Lethe", known=is_trace, directory=True, tree=True)
VCD = FileKind(name="a waveform of Lethe", known=_head(r"\$(comment|version) Lethe "))
#: Who saves the arrangement of a waveform in GTKWave keeps it.
SAVE_FILE = FileKind(name="a save file of Lethe", known=_head(r"\[\*\] Lethe "), kept=True)
#: The names of codes, for its viewer.
CODES = FileKind(name="the codes of a waveform of Lethe", known=_stamped, file=False, directory=True, tree=True)
#: Its first block says who wrote it.
CAPTURE = FileKind(name="a capture of Lethe", known=_head(r".{16,32}Lethe "))
DISSECTOR = FileKind(name="a dissector of Lethe", known=_head("-- Lethe "))
PAGE = FileKind(name="a page of Lethe", known=_head(r'<!doctype html>.*<meta name="generator" content="Lethe '))
SVG = FileKind(name="a picture of Lethe", known=_head("<svg .*<metadata>Lethe "))
CSV = FileKind(name="the numbers of a figure", known=_head(rf"[^\n]*{','.join(FIGURE_COLUMNS)}\n"))
VERILOG = FileKind(name="Verilog of Lethe", known=_head("// Lethe "))
WAIVERS = FileKind(name="waivers of Lethe", known=_head("// Lethe "))
HEADER = FileKind(name="a header of Lethe", known=_head(r"(//|/\*) Lethe "))
CONSTRAINTS = FileKind(name="constraints of Lethe", known=_head("# Lethe "))
LISTING = FileKind(name="a list of `lethe verilog`", known=_head(r'\{\s*"lethe verilog": "'))
JSON = FileKind(name="a report of `lethe fpga build`", known=_head(r'\{\s*"lethe": "'))
SWEEP = FileKind(name="the directory of a sweep", known=is_sweep, file=False, directory=True, tree=True)
FIGURES = FileKind(name="a directory of figures", known=Path.is_dir, file=False, directory=True)
BITSTREAM = FileKind(name="a directory of `lethe fpga build`", known=_stamped, file=False, directory=True, tree=True)
REGISTERS = FileKind(name="registers of Lethe", known=_is_registers, file=False, directory=True, tree=True)
#: A configuration is somebody's own work as soon as it is written.
CONFIGURATION = FileKind(name="a configuration")
#: Whatever a workload received.
ANYTHING = FileKind(name="anything")


# Where a file goes.


def is_stream(path: str | Path) -> bool:
    """Whether a path names what is written to as it is, not replaced: a device, a pipe, a socket, an open file.

    ``/dev/stdout`` is one even if the shell has sent it to a file.
    """
    return descriptor(path) is not None or (_mode(path) is not None and not _plain(path))


def _mode(path: str | Path) -> int | None:
    try:
        return os.stat(path).st_mode
    except OSError:
        return None


def _plain(path: str | Path) -> bool:
    mode = _mode(path)
    return mode is not None and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def descriptor(path: str | Path) -> int | None:
    """The number of the open file that a path stands for, as ``/dev/stdout`` does for 1; None for others."""
    at, ours = os.fspath(path), re.compile(rf"/proc/{os.getpid()}(/task/\d+)?/fd|/dev/fd")
    for _ in range(40):
        parent, name = os.path.realpath(os.path.dirname(at) or "."), os.path.basename(at)
        if ours.fullmatch(parent) and name.isdecimal():
            return int(name)
        full = os.path.join(parent, name)
        if not name or not os.path.islink(full):
            return None
        at = os.path.join(parent, os.readlink(full))
    return None


def place(path: str | Path) -> Path:
    """Where a file of this name really lies, links followed, so that a link stays one when its file is replaced."""
    return Path(os.path.realpath(path))


# Writing.


def part_prefix(path: Path) -> str:
    """The beginning of the hidden names beside ``path``; number of the process and `PART` follow."""
    name = path.name
    if len(os.fsencode(name)) > 100:
        name = os.fsdecode(os.fsencode(name)[:100])
    return f".{name}.{platform.node()[:60]}."


def part_path(path: Path) -> Path:
    """The hidden name beside ``path`` under which this process writes it."""
    return path.with_name(f"{part_prefix(path)}{os.getpid()}{PART}")


def sweep_parts(path: Path) -> None:
    """Remove what writers of ``path`` left that were killed on this machine."""
    prefix = part_prefix(path)
    for left in path.parent.glob(f"{glob.escape(prefix)}*{PART}"):
        pid = left.name[len(prefix) : -len(PART)]
        if pid.isdigit() and not _alive(int(pid)):
            remove(left)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True


def remove(path: Path) -> None:
    """Remove a file or a directory, if it can be."""
    with contextlib.suppress(OSError):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


#: For each place, the kind of file that may be replaced there.  `move` checks it at the end of a run, too.
_guarded: dict[Path, FileKind] = {}


def guard(outputs: dict[Path, FileKind]) -> None:
    """From now on `move` replaces a file at one of the places of ``outputs`` only if it is of the kind given there."""
    _guarded.clear()
    _guarded.update(outputs)


def move(new: Path, path: Path) -> None:
    """Give ``new`` the name ``path``; a file or directory of that name is replaced.

    Raises FileExistsError if something else came there since `guard`.
    """
    kind = _guarded.get(path)
    if kind is not None and path.exists() and not kind.fits(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    if not path.is_dir() and not (new.is_dir() and path.exists()):
        os.replace(new, path)
        return
    # A directory cannot be replaced in one step: the old one keeps its name until the new one is ready for it.
    old = path.with_name(f"{part_prefix(path)}{os.getpid()}.old{PART}")
    try:
        os.replace(path, old)
        os.replace(new, path)
    except BaseException:
        if not path.exists():
            os.replace(old, path)
        raise
    shutil.rmtree(old) if old.is_dir() else old.unlink()


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Errors of the system while ``path`` is written, told of ``path`` and not of what it is called meanwhile."""
    try:
        yield
    except WriteError:
        raise
    except OSError as error:
        if isinstance(error, BrokenPipeError) and descriptor(path) is not None:
            raise
        reason = os.strerror(error.errno) if error.errno else (str(error).splitlines() or ["it failed"])[0]
        cure = "name another" if is_stream(path) else "nothing is changed, make room or name another file"
        raise WriteError(f"{path}: cannot be written: {reason}; {cure}") from None


@contextlib.contextmanager
def whole(path: str | Path) -> Iterator[Path]:
    """A file to write, which gets the name ``path`` when it is complete; if it is not, ``path`` is left as it was.

    An existing file's permissions stay.  To a device or a pipe, what was written is copied at the end.  Raises
    `WriteError`.
    """
    if is_stream(path):
        with scratch() as directory:
            part = directory / "output"
            yield part
            copy_to_stream(part, path)
        return
    target = place(path)
    part = part_path(target)
    with writing(path):
        try:
            sweep_parts(target)
            yield part
            keep_permissions(target, part)
            move(part, target)
        finally:
            remove(part)


def keep_permissions(old: Path, new: Path) -> None:
    """Give ``new`` the permissions, and where that is allowed the owner, of the file that it is to replace."""
    try:
        before = old.stat()
    except OSError:
        return
    if not stat.S_ISREG(before.st_mode):
        return
    with contextlib.suppress(OSError):
        os.chown(new, before.st_uid, before.st_gid)
    with contextlib.suppress(OSError):
        os.chmod(new, before.st_mode & 0o777)


def write(path: str | Path, data: bytes | str) -> None:
    """Write a whole file, text as UTF-8, or to a device or pipe.  Raises `WriteError`."""
    if isinstance(data, str):
        data = data.encode()
    if is_stream(path):
        with writing(path), open_stream(path) as stream:
            stream.write(data)
        return
    with whole(path) as part, part.open("wb") as file:
        file.write(data)


def open_stream(path: str | Path) -> IO[bytes]:
    """A device, pipe or open file, to write to."""
    sys.stdout.flush()
    sys.stderr.flush()
    number = descriptor(path)
    if number is not None:
        # As it was opened: opening it anew would begin at the start of a file.
        return os.fdopen(os.dup(number), "wb")
    return os.fdopen(os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0)), "wb")


def copy_to_stream(file: Path, stream: str | Path) -> None:
    """Pass a finished file on to a device or a pipe."""
    with writing(stream), file.open("rb") as source, open_stream(stream) as sink:
        shutil.copyfileobj(source, sink, 1 << 20)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A directory for temporary files."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="lethe-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


@contextlib.contextmanager
def whole_directory(path: str | Path) -> Iterator[Path]:
    """A directory to fill, which gets the name ``path`` when all is well; an older one is replaced as a whole.

    It has `STAMP`, by which it is known again.  Raises `WriteError`.
    """
    target = place(path)
    part = part_path(target)
    with writing(path):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            sweep_parts(target)
            part.mkdir()
            (part / STAMP).write_text(f"{MARK}\n", encoding="utf-8")
            yield part
            move(part, target)
        finally:
            remove(part)

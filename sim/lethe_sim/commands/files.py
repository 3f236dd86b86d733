"""What a command reads and writes, known in one place and refused before anything runs.

No command writes over what it reads, over what it writes elsewhere, or over a file that is not of its own kind.
"""

import argparse
import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lethe.spec.config import System
from lethe_sim import files
from lethe_sim.files import SAVE_FILE, FileKind, is_stream

from .common import Mistake, note


@dataclass(frozen=True, kw_only=True)
class Input:
    """What a command reads: ``what`` says as what; if ``tree``, nothing may be written into the directory."""

    path: Path
    what: str
    tree: bool = False


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a command writes: ``named`` is the option that names it, or another name; the file itself if empty."""

    path: Path
    named: str
    kind: FileKind

    @property
    def told(self) -> str:
        return f"{self.named}: {_shown(self.path)}" if self.named else _shown(self.path)


class Files:
    """The files of one command: say each, then `check` them all.

    Parameters
    ----------
    force : whether ``--force`` was given; None if the command does not have it
    """

    def __init__(self, *, force: bool | None = None):
        self.force = force
        self.inputs: list[Input] = []
        self.outputs: list[Output] = []

    def reads(self, path: str | Path, what: str) -> None:
        """A file or a directory that is read; nothing may be written into a directory."""
        path = Path(path)
        self.inputs.append(Input(path=path, what=what, tree=_is_dir(path)))

    def reads_config(self, system: System) -> None:
        """A configuration, and the file that its workload reads."""
        self.reads(system.source, "the configuration")
        self.reads_workload(system)

    def reads_workload(self, system: System) -> None:
        from lethe_sim.workloads import input_path

        if (path := input_path(system)) is not None:
            self.reads(path, f"workload.path of {system.source}")

    def writes_if(self, path: str | Path | None, named: str, kind: FileKind) -> Path | None:
        """A file that is written if it is named."""
        return None if path is None else self.writes(path, named, kind)

    def writes(self, path: str | Path, named: str, kind: FileKind) -> Path:
        """A file that is written; returns its path."""
        if str(path) == "-":
            raise Mistake(f"{named}: -: does not go to stdout; name a file, or ./- for one of that name")
        if str(path) == "":
            raise Mistake(f"{named or 'FILE'}: is empty; name a file")
        self.outputs.append(Output(path=Path(path), named=named, kind=kind))
        return Path(path)

    def check(self) -> None:
        """Raise `Mistake` for the first output that must not be written."""
        for output in self.outputs:
            self._place(output)
        for number, output in enumerate(self.outputs):
            for read in self.inputs:
                self._against_input(output, read)
            for other in self.outputs[:number]:
                self._against_output(output, other)
        for output in self.outputs:
            self._against_old(output)
        # A file that appears there during the run is judged in the same way.
        files.guard({} if self.force else {files.place(output.path): output.kind for output in self.outputs})

    def _place(self, output: Output) -> None:
        """It can be there at all."""
        path, told = output.path, output.told
        try:
            mode = os.stat(path).st_mode
        except FileNotFoundError:
            mode = None
        except NotADirectoryError:
            raise Mistake(f"{told}: no such directory {path.parent}; make it first") from None
        except (OSError, ValueError) as error:
            what = getattr(error, "strerror", None) or error
            raise Mistake(f"{told}: cannot be written: {what}; name another file") from None
        if mode is not None and (stat.S_ISBLK(mode) or stat.S_ISSOCK(mode)):
            what = "a disk" if stat.S_ISBLK(mode) else "a socket"
            raise Mistake(f"{told}: is {what}; name a file")
        if files.is_stream(path):
            if not output.kind.file:
                raise Mistake(f"{told}: is a device or a pipe; name a directory")
            return
        target = files.place(path)
        parent = target.parent
        if not parent.is_dir():
            if output.kind.file or any(above.exists() and not above.is_dir() for above in target.parents):
                missing = parent if path.is_symlink() else path.parent
                raise Mistake(f"{told}: no such directory {missing}; make it first")
            parent = next(above for above in target.parents if above.is_dir())
        if not os.access(parent, os.W_OK | os.X_OK):
            raise Mistake(f"{told}: the directory {parent} cannot be written to; choose another")
        if mode is not None and (not os.access(target, os.W_OK) or _anothers(target)):
            raise Mistake(f"{told}: is read-only; name another file, or make it writable")
        if mode is not None and stat.S_ISDIR(mode) and not output.kind.directory:
            raise Mistake(f"{told}: is a directory; name a file in it")
        if mode is not None and not stat.S_ISDIR(mode) and not output.kind.file:
            raise Mistake(f"{told}: is a file; name a directory")

    def _against_input(self, output: Output, read: Input) -> None:
        cure = "name another file"
        if _same(output.path, read.path):
            raise Mistake(f"{output.told}: is {read.what}, which is read; {cure}")
        if read.tree and _inside(output.path, read.path):
            raise Mistake(f"{output.told}: is inside {read.what}, {read.path}, which is read; {cure}")
        if output.kind.tree and _inside(read.path, output.path):
            raise Mistake(f"{output.told}: holds {read.what}, {read.path}, which is read; name another directory")

    def _against_output(self, output: Output, other: Output) -> None:
        cure = "give each a name of its own"
        if _same(output.path, other.path):
            raise Mistake(f"{output.told}: is also written as {other.named}; {cure}")
        for inner, outer in ((output, other), (other, output)):
            if outer.kind.tree and _inside(inner.path, outer.path):
                raise Mistake(f"{inner.told}: is inside {outer.path}, which is written as {outer.named}; {cure}")

    def _against_old(self, output: Output) -> None:
        """What is there may be replaced."""
        path, kind, told = output.path, output.kind, output.told
        if files.is_stream(path) or not path.exists() or kind.fits(path) or kind.kept:
            return
        if path.is_dir():
            raise Mistake(f"{told}: is a directory of something else, not {kind.name}; name another")
        if self.force:
            return
        what = "already exists" if kind.known is None else f"exists, and does not look like {kind.name}"
        cure = "--force replaces it" if self.force is not None else "name another, or move it away"
        raise Mistake(f"{told}: {what}; {cure}")


def add_force(parser: argparse.ArgumentParser) -> None:
    """``--force``, which lets outputs replace files of another kind; never what is read, nor a directory."""
    parser.add_argument("--force", action="store_true", help="replace existing files that are not of the output's kind")


@dataclass(frozen=True, kw_only=True)
class Staged:
    """Where to write a file that may go to a device or a pipe: ``path``, and then `pass_on`."""

    path: Path
    stream: Path | None = None

    def pass_on(self) -> None:
        """Copy it to the device or pipe, if it goes to one and was written."""
        if self.stream is not None and self.path.exists():
            files.copy_to_stream(self.path, self.stream)


@contextlib.contextmanager
def staged(path: Path) -> Iterator[Staged]:
    """A file that is read again by the command that wrote it: at ``path``, or for a device or pipe elsewhere first."""
    if not files.is_stream(path):
        yield Staged(path=path)
        return
    with files.scratch() as directory:
        yield Staged(path=directory / "output", stream=path)


def save_file(files: Files, vcd: Path | None) -> Path | None:
    """The save file beside a waveform, if there is a waveform that is a file."""
    gtkw = None if vcd is None or is_stream(vcd) else beside(vcd, ".gtkw")
    return files.writes_if(gtkw, "the save file beside --vcd", SAVE_FILE)


def unless_kept(gtkw: Path | None, *, force: bool) -> Path | None:
    """The save file, unless somebody has changed it: that is kept, and said."""
    if gtkw is not None and gtkw.exists() and not SAVE_FILE.fits(gtkw) and not force:
        note(f"{gtkw}: is not as Lethe wrote it, and is kept; --force replaces it")
        return None
    return gtkw


def beside(path: str | Path, suffix: str) -> Path:
    """The default name of an output: that of ``path`` with another suffix."""
    try:
        return Path(path).with_suffix(suffix)
    except ValueError:
        raise Mistake(f"{_shown(path)}: is no file name that an output could be named after; name a file") from None


# What is the same file.


def _is_dir(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _shown(path: str | Path) -> str:
    text = str(path)
    return text if text.isprintable() else repr(text)


def _anothers(path: Path) -> bool:
    """Whether only its owner may replace an existing file, as in ``/tmp``, and that is somebody else."""
    above, user = path.parent.stat(), os.geteuid()
    return bool(above.st_mode & stat.S_ISVTX) and user not in (0, above.st_uid, path.stat().st_uid)


def _identity(path: Path) -> tuple | None:
    """Device and number of an existing file, links followed."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _same(one: Path, other: Path) -> bool:
    """Whether two names stand for one file, existing or to be; a terminal or ``/dev/null`` may serve twice."""
    first, second = _identity(one), _identity(other)
    if first is not None or second is not None:
        return first == second and not stat.S_ISCHR(os.stat(one).st_mode)
    one, other = files.place(one), files.place(other)
    if one == other:
        return True
    if one.name.casefold() != other.name.casefold() or _identity(one.parent) != _identity(other.parent):
        return False
    return one.name == other.name or not heeds_case(one.parent)


def _inside(path: Path, directory: Path) -> bool:
    """Whether ``path`` lies in ``directory``, however either is written."""
    wanted = _identity(directory)
    return wanted is not None and any(_identity(above) == wanted for above in files.place(path).parents)


def heeds_case(directory: Path) -> bool:
    """Whether names in a directory that differ in case only are two."""
    try:
        with tempfile.NamedTemporaryFile(prefix=".lethe-a", dir=directory) as probe:
            swapped = Path(probe.name).with_name(Path(probe.name).name.swapcase())
            return not swapped.exists()
    except OSError:
        return True

"""What several commands share: reading a configuration with overrides, writing files, showing progress."""

import argparse
import contextlib
import dataclasses
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from lethe.spec.config import ConfigError, System, load
from lethe_sim import files


class Mistake(Exception):
    """Something asked for that cannot be done; the message names it and the cure."""


def add_config(parser: argparse.ArgumentParser, *, overrides: bool = True) -> None:
    """The configuration file, and the two keys one changes from run to run."""
    parser.add_argument("config", metavar="FILE", help="configuration (TOML)")
    if overrides:
        parser.add_argument("--seed", type=int, metavar="N", help="instead of run.seed")
        parser.add_argument("--cycles", type=int, metavar="N", help="instead of run.cycles")


def read_config(args: argparse.Namespace) -> System:
    """The system that the command line names, overrides applied and checked."""
    system = load(args.config)
    changes = {name: value for name in ("seed", "cycles") if (value := getattr(args, name, None)) is not None}
    if not changes:
        return system
    try:
        return dataclasses.replace(system, run=dataclasses.replace(system.run, **changes))
    except ConfigError as error:
        raise ConfigError(f"{error} (given on the command line)") from None


def refuse_output(args: argparse.Namespace, system: System) -> None:
    """``--output`` is for workloads whose outcome is a file."""
    if args.output and system.workload.kind not in ("file", "capture"):
        raise Mistake(
            f"--output: {args.config} carries no file; set workload.kind (file or capture) and workload.path, "
            "or leave it out"
        )


def write_text(path: str | Path, text: str) -> None:
    """Write a text file (``-`` is stdout)."""
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        files.write(path, text)


class Afterwards:
    """Outputs of a run that could not be written: its verdict is told first, then the errors.

    Attributes
    ----------
    errors : in the order in which they came
    """

    def __init__(self):
        self.errors: list[Exception] = []

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Put an error of writing off."""
        from lethe_sim.trace import TraceError

        try:
            yield
        except BrokenPipeError:
            raise
        except (OSError, MemoryError, TraceError) as error:
            self.errors.append(error)

    def tell(self) -> None:
        """Raise the first error, if there is one; the others are notes."""
        sys.stdout.flush()
        for error in self.errors[1:]:
            note(str(error))
        if self.errors:
            raise self.errors[0]


def note(text: str) -> None:
    """Something worth knowing that is no error, on stderr."""
    from lethe_sim.cli import say

    say(text)


class Progress:
    """One line on stderr, rewritten: shown on a terminal, or when asked for (then one line a second)."""

    def __init__(self, shown: bool | None = None):
        self._terminal = sys.stderr.isatty()
        self._shown = self._terminal if shown is None else shown
        self._phase = ""
        self._started = self._last = 0.0
        self._width = 0

    def show(self, phase: str, what: str, done: int = 0, total: int = 0) -> None:
        """``what`` is the state in words; ``done`` of ``total`` gives the time left in this phase."""
        now = time.monotonic()
        new = phase != self._phase
        if new:
            self._phase, self._started = phase, now
        if not self._shown or (not new and now - self._last < (0.2 if self._terminal else 1.0)):
            return
        self._last = now
        text = f"{phase}: {what}" if what else phase
        if total:
            text = f"{min(done / total, 1):4.0%}  {text}"
        if done and not new:
            text += f", {duration((now - self._started) * (total - done) / done)} left at most"
        if self._terminal:
            sys.stderr.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away, before anything else is written."""
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()
            self._width = 0


def duration(seconds: float) -> str:
    """``12 s`` or ``3 min 20 s`` or ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

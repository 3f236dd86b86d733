"""What several commands share: reading a configuration with overrides, writing files, showing progress."""

import argparse
import dataclasses
import sys
import time
from pathlib import Path

from lethe.spec.config import ConfigError, System, load


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


def write_text(path: str, text: str, *, force: bool = True) -> None:
    """Write a text file (``-`` is stdout); refuses to overwrite unless ``force``."""
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        with open(path, "w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Mistake(f"{path}: already exists; --force overwrites it") from None
    except FileNotFoundError:
        raise Mistake(f"{path}: no such directory {Path(path).parent}; make it first") from None
    except IsADirectoryError:
        raise Mistake(f"{path}: is a directory; name a file in it") from None


class Progress:
    """One line on stderr, rewritten: shown on a terminal, or when asked for (then one line a second)."""

    def __init__(self, shown: bool | None = None, *, every: float = 0.2):
        terminal = sys.stderr.isatty()
        self._shown = terminal if shown is None else shown
        self._rewrite = terminal
        self._every = every if terminal else 1.0
        self._started = self._last = time.monotonic()
        self._width = 0

    def show(self, what: str, done: int, total: int) -> None:
        """``what`` is the state in words; ``done`` of ``total`` gives the time left."""
        now = time.monotonic()
        if not self._shown or now - self._last < self._every:
            return
        self._last = now
        text = f"{done / total:4.0%}  {what}"
        if done:
            text += f", {duration((now - self._started) * (total - done) / done)} left at most"
        if self._rewrite:
            sys.stderr.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away, before anything else is written."""
        if self._shown and self._rewrite and self._width:
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

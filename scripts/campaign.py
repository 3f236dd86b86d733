"""What scripts that judge many runs share: arguments, the rows of a run's services, and the sums as a file."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from lethe_sim.golden.model import Golden
from lethe_sim.ledger.columns import NULL
from lethe_sim.ledger.group import Run, usable
from lethe_sim.ledger.services import ServiceRows
from lethe_sim.trace import decode
from lethe_sim.trace.events import filled


def natural(text: str) -> int:
    value = int(text.replace("_", ""))
    if value < 0:
        raise argparse.ArgumentTypeError(f"must be at least 0, not {value}")
    return value


def positive(text: str) -> int:
    if not (value := natural(text)):
        raise argparse.ArgumentTypeError("must be at least 1, not 0")
    return value


def a_seed(text: str) -> int:
    if (value := natural(text)) >> 32:
        raise argparse.ArgumentTypeError(f"must be below 2^32, not {value}")
    return value


def a_file(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text}: is no file in a directory that is there")
    return path


def service_rows(golden: Golden, events: np.ndarray) -> tuple[ServiceRows, int]:
    """The rows of the lowest service in what a run has shown, and how many rows cannot be judged."""
    system = golden.system
    rows = decode(events, system)
    columns, which = usable(rows, system, golden.cycle)
    tag = filled(rows["tag"], NULL)[0]
    columns["tag"] = tag if which is None else tag[which]
    run = Run(name=system.run.name, system=system, cycles=golden.cycle, drained=golden.drained)
    return ServiceRows(run, 0, columns), 0 if which is None else int((~which).sum())


def write(parser: argparse.ArgumentParser, path: Path, text: str) -> None:
    """Write a file; if it cannot be written, the script ends with a line that says so."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        parser.error(f"{path}: cannot be written: {error.strerror}")


def write_sums(parser: argparse.ArgumentParser, path: Path, sums: Any) -> None:
    """A dataclass as JSON."""
    write(parser, path, json.dumps(asdict(sums), indent=2) + "\n")

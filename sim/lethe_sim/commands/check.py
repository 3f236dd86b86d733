"""`lethe check`: whether a configuration is good, and what it comes to."""

import argparse
from pathlib import Path

from lethe.spec.config import ConfigError, parse, text_of
from lethe_sim.summary import link_lines, summary

from .common import add_config

EXAMPLES = """\
  lethe check my.toml
  lethe check my.toml --links | grep router0    numbers for [[faults.links]]
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser, overrides=False)
    parser.add_argument("--links", action="store_true", help="list every link with its number, and nothing else")


def run(args: argparse.Namespace) -> int:
    text, source = text_of(args.config), str(Path(args.config))
    try:
        system, wrong = parse(text, source), None
    except ConfigError as error:
        # What holds without the workload is worth knowing; if nothing does, this says so.
        system, wrong = parse(text, source, hosted=False), error
    for line in link_lines(system) if args.links else summary(system):
        print(line)
    if wrong:
        raise wrong
    return 0

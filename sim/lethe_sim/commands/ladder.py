"""`lethe ladder`: one datagram's life as a message ladder."""

import argparse

EXAMPLES = """\
  lethe ladder run.parquet                the datagram with the most Sends
  lethe ladder run.parquet --list         the ten datagrams with the most Sends
  lethe ladder run.parquet 3:1:5:12       source:incarnation:slot:generation
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace")
    parser.add_argument(
        "uid",
        metavar="UID",
        nargs="?",
        default="unlucky",
        help="source:incarnation:slot:generation, a packed UID, or `unlucky` (default): the one with the most Sends",
    )
    parser.add_argument("--list", action="store_true", help="list the ten datagrams with the most Sends, draw nothing")


def run(args: argparse.Namespace) -> int:
    from lethe_sim.trace.ladder import listing, text_ladder

    print(listing(args.trace) if args.list else text_ladder(args.trace, args.uid))
    return 0

"""`lethe ladder`: one datagram's life, or the way of one message of relay, as a message ladder."""

import argparse

EXAMPLES = """\
  lethe ladder run.parquet                 the datagram with the most Sends
  lethe ladder run.parquet --list          the ten datagrams with the most Sends
  lethe ladder run.parquet 3:1:5:12        source:incarnation:slot:generation
  lethe ladder run.parquet relay           the message of relay whose data went over the most hops
  lethe ladder run.parquet relay --list    the ten with the most hops
  lethe ladder run.parquet relay:3:1:5:70  relay:source:incarnation:slot:uid
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", help="a trace")
    parser.add_argument(
        "uid",
        metavar="UID",
        nargs="?",
        default="unlucky",
        help="source:incarnation:slot:generation, a packed UID, or `unlucky` (default): the one with the most Sends; "
        "relay:source:incarnation:slot:uid or `relay`: a message of relay",
    )
    parser.add_argument("--list", action="store_true", help="list the ten with the most Sends or hops, draw nothing")


def run(args: argparse.Namespace) -> int:
    from lethe_sim.trace import ladder, relay_ladder

    if args.uid.split(":")[0] == relay_ladder.PREFIX:
        print(relay_ladder.listing(args.trace) if args.list else relay_ladder.find_message(args.trace, args.uid).text())
    else:
        print(ladder.listing(args.trace) if args.list else ladder.text_ladder(args.trace, args.uid))
    return 0

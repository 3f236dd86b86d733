"""What `lethe run` and `lethe cosim` share: a capture of links, and the dissector beside it."""

import argparse
from pathlib import Path

from lethe.spec.config import System
from lethe_sim.files import CAPTURE, DISSECTOR, is_stream, write

from .common import Mistake
from .files import Files, beside


def add_pcap(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pcap", metavar="FILE", help="write what crosses links there (pcapng), with a Wireshark dissector beside it"
    )
    parser.add_argument(
        "--pcap-links",
        metavar="LINKS",
        help="which links: nodes (default: all that leave or enter a node), node3, routers, router1, 12, 12-20, all",
    )


def capture_files(args: argparse.Namespace, files: Files) -> tuple[Path | None, Path | None]:
    """The capture and its dissector, if they are wanted; a stream has no dissector beside it."""
    pcap = files.writes_if(args.pcap, "--pcap", CAPTURE)
    dissector = None if pcap is None or is_stream(pcap) else beside(pcap, ".lua")
    files.writes_if(dissector, "the dissector beside --pcap", DISSECTOR)
    return pcap, dissector


def capture_links(args: argparse.Namespace, system: System) -> list[int]:
    """The links that a capture is to have."""
    from lethe_sim.wireshark.links import LinksError, links_of

    if args.pcap is None:
        if args.pcap_links is not None:
            raise Mistake("--pcap-links: there is no capture to choose links for; give --pcap FILE, or leave it out")
        return []
    try:
        return links_of(system, args.pcap_links or "nodes")
    except LinksError as error:
        raise Mistake(f"{args.config}: --pcap-links {error}") from None


def write_dissector(path: Path, system: System) -> None:
    from lethe_sim.wireshark.dissector import dissector

    write(path, dissector(system))
    print(f"  dissector {path}")

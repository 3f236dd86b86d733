"""`lethe run`: the golden model, its trace, the audit."""

import argparse
from pathlib import Path

from lethe.spec.config import System
from lethe_sim.files import ANYTHING, TRACE, VCD, write

from .capturing import add_pcap, capture_files, capture_links, write_dissector
from .common import Afterwards, Progress, add_config, note, read_config, refuse_output
from .compare import add_master
from .files import Files, add_force, beside, save_file, staged, unless_kept

EXAMPLES = """\
  lethe run my.toml                            trace in my.parquet, then the audit
  lethe run my.toml --seed 7 --cycles 50000
  lethe run my.toml --no-audit --vcd my.vcd    with a waveform
  lethe run my.toml --pcap my.pcapng           for Wireshark, with a dissector in my.lua
  lethe run my.toml --pcap my.pcapng --pcap-links node3,router1,40-43
  lethe run file.toml --output received.bin    a file or a capture: what arrived
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument(
        "--trace", metavar="FILE", help="trace to write (default: FILE with .parquet, in this directory)"
    )
    parser.add_argument("--no-audit", action="store_true", help="write the trace only")
    parser.add_argument("--vcd", metavar="FILE", help="write a waveform there, with a .gtkw beside it")
    add_pcap(parser)
    parser.add_argument(
        "--output", metavar="FILE", help="file or capture: write the received data there, to a new file"
    )
    add_force(parser)
    parser.add_argument("--progress", action="store_true", default=None, help="show progress even if not on a terminal")
    add_master(parser, "Spark master for the audit (default: in this process, on Spark above 4 million events)")


def run(args: argparse.Namespace) -> int:
    system = read_config(args)
    refuse_output(args, system)
    default = beside(args.config, ".parquet").name
    named = "--trace" if args.trace is not None else "the default trace (--trace)"
    files = Files(force=args.force)
    files.reads_config(system)
    trace = files.writes(default if args.trace is None else args.trace, named, TRACE)
    vcd = files.writes_if(args.vcd, "--vcd", VCD)
    gtkw = save_file(files, vcd)
    pcap, dissector = capture_files(args, files)
    files.writes_if(args.output, "--output", ANYTHING)
    files.check()
    links = capture_links(args, system)
    gtkw = unless_kept(gtkw, force=args.force)
    if not args.no_audit and args.master is not None:
        # Before a long run, not after it.
        from lethe_sim.pipeline.session import usable_java

        usable_java()
    from lethe_sim import running

    progress = Progress(args.progress)
    after = Afterwards()
    with staged(trace) as place:
        try:
            ran = running.run(
                system, place.path, progress=progress.show, keep_words=vcd is not None, force=args.force, pcap=pcap,
                links=links,
            )  # fmt: skip
        finally:
            progress.clear()
        print(running.told(system, ran))
        print(f"  trace {trace}")
        good = ran.meta.drained and not ran.wrong
        with after.writing():
            place.pass_on()
        if vcd is not None:
            with after.writing():
                _waveform(vcd, gtkw, place.path, ran)
        if pcap is not None:
            after.errors += ran.unwritten
            if not ran.unwritten:
                print(f"  capture {pcap}, {ran.packets:,} messages on {len(links):,} links")
            if dissector is not None:
                with after.writing():
                    write_dissector(dissector, system)
        if ran.verdict is not None:
            print(f"  {ran.verdict.text}")
            good &= ran.verdict.good
            if args.output is not None and ran.verdict.data is not None:
                with after.writing():
                    write(args.output, ran.verdict.data)
        if not args.no_audit:
            audit = _audit(place.path, ran.meta.events, args.master)
            print(audit.text())
            good &= audit.exit_code == 0
        if not ran.meta.drained and (suspects := _suspects(system)):
            note(
                f"{system.source}: faults.notices: {suspects} declared dead, but alive: what comes from there by relay "
                "waits for ever, which may be why the run has not drained"
            )
    after.tell()
    return 0 if good else 1


def _suspects(system: System) -> str:
    """The nodes that relay is told are dead, and are not."""
    dead = {death.node for death in system.faults.deaths}
    nodes = sorted({notice.died for notice in system.faults.notices} - dead)
    return f"node{'s' * (len(nodes) > 1)} {', '.join(map(str, nodes))}" if nodes else ""


def _audit(trace: Path, events: int, master: str | None):
    """The audit of a trace: in this process, or on Spark if it is large or a master is named."""
    from lethe_sim.ledger import here

    if master is None and events <= here.FEW:
        return here.audit(trace)
    from lethe_sim.pipeline.jobs import audit_trace

    return audit_trace(trace, master=master)


def _waveform(vcd: Path, gtkw: Path | None, trace: Path, ran) -> None:
    from lethe_sim.trace.vcd import write_vcd

    if ran.words is None:
        note(f"{vcd}: the run is too long to keep its flits, so the waveform has events only")
    write_vcd(trace, vcd, gtkw, words=ran.words)
    print(f"  waveform {vcd}")

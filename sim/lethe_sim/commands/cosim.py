"""`lethe cosim`: the RTL in a simulator, the golden model beside it, every trace word compared in every cycle."""

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from lethe.spec.config import System
from lethe_sim.files import ANYTHING, CODES, TRACE, VCD, write

from .capturing import add_pcap, capture_files, capture_links, write_dissector
from .common import Afterwards, Mistake, Progress, add_config, read_config, refuse_output
from .files import Files, add_force, beside, save_file, staged, unless_kept
from .verilog import refuse_golden_only

if TYPE_CHECKING:
    from lethe_sim.lockstep.cosim import CosimResult

EXAMPLES = """\
  lethe cosim my.toml
  lethe cosim my.toml --cycles 5000 --seed 7
  lethe cosim my.toml --trace rtl.parquet --golden-trace golden.parquet
  lethe cosim my.toml --pcap my.pcapng           for Wireshark: what crosses links, up to where RTL and model part
  lethe cosim file.toml --output received.bin    a file or a capture: what the RTL delivered
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument(
        "--simulator",
        choices=("verilator", "icarus"),
        default="verilator",
        help="simulator of the RTL (default: verilator)",
    )
    parser.add_argument("--trace", metavar="FILE", help="write the RTL's events there (Parquet)")
    parser.add_argument("--golden-trace", metavar="FILE", help="write the golden model's events there (Parquet)")
    parser.add_argument("--vcd", metavar="FILE", help="write the simulator's waveform there, with a .gtkw beside it")
    add_pcap(parser)
    parser.add_argument(
        "--output", metavar="FILE", help="file or capture: write the data that the RTL delivered there, to a new file"
    )
    parser.add_argument("--whole", action="store_true", help="run all cycles, even after the system has drained")
    add_force(parser)
    parser.add_argument("--progress", action="store_true", default=None, help="show progress even if not on a terminal")


def run(args: argparse.Namespace) -> int:
    from lethe_sim.lockstep.cosim import cosim
    from lethe_sim.lockstep.savefile import write_save
    from lethe_sim.workloads import anchored, build, judge

    system = read_config(args)
    refuse_output(args, system)
    refuse_golden_only(system)
    if args.vcd is not None and args.simulator != "verilator":
        raise Mistake(f"--vcd: {args.simulator} writes no waveform here; leave it out, or use Verilator")
    files = Files(force=args.force)
    files.reads_config(system)
    files.writes_if(args.trace, "--trace", TRACE)
    files.writes_if(args.golden_trace, "--golden-trace", TRACE)
    vcd = files.writes_if(args.vcd, "--vcd", VCD)
    gtkw = save_file(files, vcd)
    codes = None if gtkw is None else files.writes(beside(gtkw, ".codes"), "the codes beside --vcd", CODES)
    pcap, dissector = capture_files(args, files)
    files.writes_if(args.output, "--output", ANYTHING)
    files.check()
    links = capture_links(args, system)
    gtkw = unless_kept(gtkw, force=args.force)
    workload = build(system)
    progress = Progress(args.progress)
    after = Afterwards()

    def show(phase: str, done: int, total: int) -> None:
        progress.show(phase, f"cycle {done:,}" if done else "", done, total if done else 0)

    with contextlib.ExitStack() as stack:
        traces = [
            None if path is None else stack.enter_context(staged(Path(path)))
            for path in (args.trace, args.golden_trace)
        ]
        rtl, golden = (None if trace is None else trace.path for trace in traces)
        try:
            result = cosim(
                anchored(system),  # the bench runs in a directory of its own
                simulator=args.simulator,
                until_drained=not args.whole,
                rtl_trace=rtl,
                golden_trace=golden,
                vcd=vcd,
                pcap=pcap,
                links=links,
                force=args.force,
                progress=show,
            )
        finally:
            progress.clear()
        after.errors += result.unwritten
        if vcd is not None and gtkw is not None and codes is not None and not result.unwritten:
            with after.writing():
                write_save(vcd, gtkw, codes)
        for trace in traces:
            if trace is not None:
                with after.writing():
                    trace.pass_on()
    good = _told(system, result, whole=args.whole)
    if pcap is not None and not result.unwritten:
        print(f"  capture {pcap}, {result.packets:,} messages on {len(links):,} links")
        if dissector is not None:
            with after.writing():
                write_dissector(dissector, system)
    if workload is not None and result.equal:
        verdict = judge(workload, result.letters)
        print(f"  {verdict.text}")
        good &= verdict.good
        if args.output is not None and verdict.data is not None:
            with after.writing():
                write(args.output, verdict.data)
    after.tell()
    return 0 if good else 1


def _told(system: System, result: "CosimResult", *, whole: bool) -> bool:
    """Say what the lockstep found, and whether it is good."""
    if not result.equal:
        print(result.report)
        return False
    print(
        f"equal: {result.cycles:,} cycles of {system.nodes} nodes agree in every trace word and {result.counters:,} "
        f"counters; digest {result.digest:016x}"
    )
    print(
        f"  {'drained' if result.drained else 'not drained'}; built in {result.build_seconds:.0f} s, "
        f"ran in {result.seconds:.1f} s"
    )
    return result.drained or whole

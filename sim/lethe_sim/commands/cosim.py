"""`lethe cosim`: the RTL in a simulator, the golden model beside it, every trace word compared in every cycle."""

import argparse
from pathlib import Path

from .common import Progress, add_config, read_config, refuse_output, tell_verdict
from .verilog import refuse_golden_only

EXAMPLES = """\
  lethe cosim my.toml
  lethe cosim my.toml --cycles 5000 --seed 7
  lethe cosim my.toml --trace rtl.parquet --golden-trace golden.parquet
  lethe cosim file.toml --output received.bin    a file or a capture: what the RTL delivered
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument(
        "--simulator", choices=("verilator", "icarus"), default="verilator", help="(default: verilator)"
    )
    parser.add_argument("--trace", metavar="FILE", help="write the RTL's events there (Parquet)")
    parser.add_argument("--golden-trace", metavar="FILE", help="write the golden model's events there (Parquet)")
    parser.add_argument("--vcd", metavar="FILE", help="write the simulator's waveform there")
    parser.add_argument("--output", metavar="FILE", help="file or capture: write what the RTL delivered there")
    parser.add_argument("--whole", action="store_true", help="run all cycles, even when everything has drained")
    parser.add_argument("--progress", action="store_true", default=None, help="show progress even if not on a terminal")


def run(args: argparse.Namespace) -> int:
    from lethe_sim.lockstep.cosim import cosim
    from lethe_sim.workloads import anchored, build, judge

    system = read_config(args)
    refuse_output(args, system)
    refuse_golden_only(system)
    workload = build(system)
    progress = Progress(args.progress)

    def show(phase: str, done: int, total: int) -> None:
        progress.show(phase, f"cycle {done:,}" if done else "", done, total if done else 0)

    try:
        result = cosim(
            anchored(system),  # the bench runs in a directory of its own
            simulator=args.simulator,
            until_drained=not args.whole,
            rtl_trace=Path(args.trace) if args.trace else None,
            golden_trace=Path(args.golden_trace) if args.golden_trace else None,
            vcd=Path(args.vcd) if args.vcd else None,
            progress=show,
        )
    finally:
        progress.clear()
    if not result.equal:
        print(result.report)
        return 1
    print(
        f"equal: {result.cycles:,} cycles of {system.nodes} nodes agree in every trace word and {result.counters:,} "
        f"counters; digest {result.digest:016x}"
    )
    print(
        f"  {'drained' if result.drained else 'not drained'}; built in {result.build_seconds:.0f} s, "
        f"ran in {result.seconds:.1f} s"
    )
    good = result.drained or args.whole
    if workload is not None:
        good &= tell_verdict(judge(workload, result.letters), args.output)
    return 0 if good else 1

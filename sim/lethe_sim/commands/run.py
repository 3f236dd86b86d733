"""`lethe run`: the golden model, its trace, the audit."""

import argparse
from pathlib import Path

from .common import Progress, add_config, note, read_config, refuse_output, tell_verdict
from .compare import add_master

EXAMPLES = """\
  lethe run my.toml                            trace in my.parquet, then the audit
  lethe run my.toml --seed 7 --cycles 50000
  lethe run my.toml --no-audit --vcd my.vcd    without Spark; with a waveform
  lethe run file.toml --output received.bin    a file or a capture: what arrived
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    parser.add_argument(
        "--trace", metavar="FILE", help="trace to write (default: FILE with .parquet, in this directory)"
    )
    parser.add_argument("--no-audit", action="store_true", help="write the trace only")
    parser.add_argument("--vcd", metavar="FILE", help="write a waveform there, with a .gtkw beside it")
    parser.add_argument("--output", metavar="FILE", help="file or capture: write what was received there")
    parser.add_argument("--progress", action="store_true", default=None, help="show progress even if not on a terminal")
    add_master(parser)


def run(args: argparse.Namespace) -> int:
    system = read_config(args)
    refuse_output(args, system)
    trace = Path(args.trace or Path(args.config).with_suffix(".parquet").name)
    if not args.no_audit:
        # Before a long run, not after it.
        from lethe_sim.pipeline.session import usable_java

        usable_java()
    from lethe_sim import running

    progress = Progress(args.progress)
    try:
        ran = running.run(system, trace, progress=progress.show, keep_words=bool(args.vcd))
    finally:
        progress.clear()
    print(running.told(system, ran))
    print(f"  trace {trace}")
    good = ran.meta.drained and not ran.wrong
    if args.vcd:
        _waveform(args.vcd, trace, ran)
    if ran.verdict is not None:
        good &= tell_verdict(ran.verdict, args.output)
    if args.no_audit:
        return 0 if good else 1
    from lethe_sim.pipeline.jobs import audit_trace

    audit = audit_trace(trace, master=args.master)
    print(audit.text())
    return 0 if good and audit.exit_code == 0 else 1


def _waveform(vcd: str, trace: Path, ran) -> None:
    from lethe_sim.trace.vcd import write_vcd

    if ran.words is None:
        note(f"{vcd}: the run is too long to keep its flits, so the waveform has events only")
    write_vcd(trace, vcd, Path(vcd).with_suffix(".gtkw"), words=ran.words)
    print(f"  waveform {vcd}")

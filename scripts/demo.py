"""The demonstration: a real file, then real packets, through 16 nodes of RTL whose links each lose 30 % of the worms.

Runs the same commands a user would, in order, and says which: golden model first (it is fast), then RTL and golden
model in lockstep, then audit, comparison and report.  Everything it makes is in the output directory.
"""

import argparse
import filecmp
import shutil
import subprocess
import sys
import time
from pathlib import Path

from lethe.spec.config import System
from lethe.spec.toml import dump

SYSTEM = {
    "run": {"name": "demo", "seed": 2026},
    "topology": {"kind": "tree", "arity": 4, "levels": 2},
    "wire": {"mtu": 64},
    # Sixteen slots a node; a repeat waits at most eight of the longest first time-outs.
    "timers": {"backoff_steps": 3},
    "faults": {"loss": 0.3},
}

# The directory is the demonstration's own.
COSIM = [
    "cosim", "demo.toml", "--force", "--output", "received.bin", "--trace", "rtl.parquet",
    "--golden-trace", "golden.parquet",
]  # fmt: skip


#: What tcpdump saw on a loopback interface: names and web pages, eight hosts.
CAPTURE = Path(__file__).parents[1] / "examples" / "loopback.pcap"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="the file to carry")
    parser.add_argument("output", type=Path, help="directory for everything that is made")
    chosen = parser.parse_args(arguments)
    out: Path = chosen.output
    out.mkdir(parents=True, exist_ok=True)
    if not chosen.file.is_file():
        parser.error(f"{chosen.file}: no such file; name a file to carry")
    shutil.copyfile(chosen.file, out / "sent.bin")
    shutil.copyfile(CAPTURE, out / "sent.pcap")
    for name, workload in (
        ("demo", {"kind": "file", "path": "sent.bin"}),
        ("packets", {"kind": "capture", "path": "sent.pcap", "timing": "compressed"}),
    ):
        (out / f"{name}.toml").write_text(dump(System.make(source=f"{name}.toml", **SYSTEM, workload=workload)))
    steps = (
        ("The golden model carries the file", ["run", "demo.toml", "--no-audit", "--force", "--output", "golden.bin"]),
        (
            "RTL (Verilator, driven by cocotb) carries it, the golden model in lockstep",
            COSIM,
        ),
        (
            "The same RTL carries the packets of a capture",
            ["cosim", "packets.toml", "--force", "--output", "received.pcap"],
        ),
        ("Spark audits the golden model's trace", ["report", "golden.parquet", "-o", "golden.html"]),
        (
            "Spark audits the RTL's trace and compares the two",
            ["report", "rtl.parquet", "--against", "golden.parquet", "-o", "report.html"],
        ),
        ("The life of an unlucky datagram", ["ladder", "rtl.parquet", "unlucky"]),
    )
    for about, command in steps:
        started = time.monotonic()
        print(f"\n{about}\n$ lethe {' '.join(command)}", flush=True)
        done = subprocess.run([sys.executable, "-m", "lethe_sim.cli", *command], cwd=out, check=False)
        if done.returncode:
            print(f"demo: `lethe {command[0]}` ended with {done.returncode}", file=sys.stderr)
            return done.returncode
        print(f"  ({time.monotonic() - started:.0f} s)", flush=True)
    if not filecmp.cmp(out / "sent.bin", out / "received.bin", shallow=False):
        print("demo: the file was altered on its way", file=sys.stderr)
        return 1
    print(
        f"\nEvery byte and every packet intact, each datagram once.  The packets as they came: {out / 'received.pcap'}"
    )
    print(f"The report: {(out / 'report.html').resolve()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A disk that fills up, for real: a small file system in a namespace of its own, where the system allows that."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lethe.spec.config import System
from tests.helpers.golden_trace import write_golden

INSIDE = 'mount -t tmpfs -o "size=$1" none "$2" && shift 2 && exec "$@"'


def _may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    return (
        subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0
    )


pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not _may_mount(), reason="unshare may not mount a file system here"),
]


def lethe(size: str, disk: Path, *arguments: str, **variables: str) -> tuple[int, str]:
    """Exit code and standard error of a command whose ``disk`` has ``size``."""
    command = ["unshare", "-rm", "sh", "-c", INSIDE, "sh", size, str(disk), sys.executable, "-m", "lethe_sim.cli"]
    done = subprocess.run(
        [*command, *arguments], env=os.environ | variables, capture_output=True, text=True, timeout=300, check=False
    )
    return done.returncode, done.stderr


def test_an_audit_that_finds_no_room_says_so_and_nothing_else(tmp_path):
    disk, trace = tmp_path / "disk", tmp_path / "t.parquet"
    disk.mkdir()
    write_golden(trace, System.make(topology={"levels": 2}, workload={"load": 0.2, "count": 2000}))
    code, said = lethe("100k", disk, "report", str(trace), "-o", str(tmp_path / "t.html"), SPARK_LOCAL_DIRS=str(disk))
    assert code == 3
    assert said.splitlines() == [
        "lethe: no room left on the disk for what Spark puts down meanwhile; make room, or set SPARK_LOCAL_DIRS to a "
        "directory on a larger disk"
    ]


def test_a_sweep_keeps_what_it_finished_before_the_disk_was_full(tmp_path):
    """The directory is on the small disk, so it is gone with it; the message tells what was there."""
    disk, plan = tmp_path / "disk", tmp_path / "load.toml"
    disk.mkdir()
    plan.write_text("replicas = 60\nevents = true\n[base]\ntopology.levels = 2\nworkload.count = 200\n")
    code, said = lethe("8m", disk, "sweep", str(plan), "-o", str(disk / "s"), "--no-report")
    assert code == 3 and "No space left on device; make room on the disk, then the same command goes on" in said
    kept = int(said.split(" runs finished and kept")[0].rpartition(" ")[2])
    assert 0 < kept < 60 and "Traceback" not in said and len(said.splitlines()) == 1

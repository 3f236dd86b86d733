"""What a command reads and writes: clashes are refused before anything runs, and what was there is left whole."""

import os
import pkgutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from lethe.spec.config import System
from lethe_sim import cli, files
from lethe_sim.commands import files as declared
from lethe_sim.trace import TraceError, TraceWriter, open_trace

WIRE = '[topology]\nkind = "wire"\n[workload]\ncount = 2\n'


def carrying(kind: str, path: str) -> str:
    """A configuration whose workload reads a file."""
    return f'[topology]\nkind = "wire"\n[workload]\nkind = "{kind}"\npath = "{path}"\n'


def trace(path: Path, **arguments) -> None:
    """A small trace, of two parts if ``part_events`` is 1."""
    import numpy as np

    from lethe_sim.trace import RAW_EVENT

    with TraceWriter(path, System.make(topology={"kind": "wire"}), **arguments) as writer:
        writer.append(np.array([(1, 0, 0, 1, 5), (2, 0, 0, 1, 5)], RAW_EVENT))
        writer.finish(cycles=3, drained=True)


@pytest.fixture
def place(tmp_path) -> Path:
    """One of everything that a command may read, and some things of somebody's own."""
    return fill(tmp_path)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """The same, for commands that leave it as it is."""
    return fill(tmp_path_factory.mktemp("kept"))


def fill(tmp_path: Path) -> Path:
    (tmp_path / "my.toml").write_text(WIRE)
    (tmp_path / "traffic.toml").write_text(carrying("trace", "traffic.parquet"))
    (tmp_path / "traffic.parquet").write_bytes(b"PAR1 of somebody's own PAR1")
    (tmp_path / "file.toml").write_text(carrying("file", "sub/../sent.bin"))
    (tmp_path / "capture.toml").write_text(carrying("capture", "in.pcap"))
    for name in ("sent.bin", "in.pcap", "notes.txt", "t.html", "my.html", "page.vcd", "x.v"):
        (tmp_path / name).write_text("somebody's own\n")
    for name in ("sub", "empty", "thesis", "load/runs", "load/events"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "thesis" / "chapter.tex").write_text("somebody's own\n")
    trace(tmp_path / "t.parquet")
    trace(tmp_path / "parts", part_events=1)
    (tmp_path / "in.toml").write_text(carrying("trace", "parts/_trace.json"))
    (tmp_path / "load.toml").write_text('base = "traffic.toml"\n[axes]\nworkload.deadline = [0, 5]\n')
    (tmp_path / "load" / "sweep.toml").write_text("")
    (tmp_path / "load" / "summary.parquet").write_text("")
    (tmp_path / "soft").symlink_to("my.toml")
    (tmp_path / "hard").hardlink_to(tmp_path / "my.toml")
    (tmp_path / "dangling").symlink_to("nowhere/x")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "link").symlink_to("sub")
    return tmp_path


def snapshot(directory: Path) -> dict[str, tuple]:
    """Everything below a directory: what it is, which file, what it holds."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        whole = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        found[str(path.relative_to(directory))] = (status.st_ino, status.st_mode, whole)
    return found


#: Commands that are refused, and what the one line says.  Each clash stands for others of its kind.
CLASHES = {
    # What is read.
    "run traffic.toml": "the default trace (--trace): traffic.parquet: is workload.path of traffic.toml, which is read",
    "run my.toml --trace my.toml": "--trace: my.toml: is the configuration, which is read; name another file",
    "run my.toml --trace ./sub/../my.toml": "--trace: sub/../my.toml: is the configuration, which is read",
    "run my.toml --trace link/../my.toml": "--trace: link/../my.toml: is the configuration, which is read",
    "run my.toml --trace soft": "--trace: soft: is the configuration, which is read",
    "run my.toml --trace hard": "--trace: hard: is the configuration, which is read",
    "run soft --trace my.toml": "--trace: my.toml: is the configuration, which is read",
    "run my.toml --vcd my.toml": "--vcd: my.toml: is the configuration, which is read",
    "run file.toml --vcd sent.bin": "--vcd: sent.bin: is workload.path of file.toml, which is read",
    "run file.toml --output sent.bin": "--output: sent.bin: is workload.path of file.toml, which is read",
    "run file.toml --output file.toml": "--output: file.toml: is the configuration, which is read",
    "run file.toml --output sent.bin --force": "--output: sent.bin: is workload.path of file.toml, which is read",
    "run capture.toml --output in.pcap": "--output: in.pcap: is workload.path of capture.toml, which is read",
    "run in.toml --trace parts": "--trace: parts: holds workload.path of in.toml, parts/_trace.json, which is read",
    "cosim my.toml --trace my.toml": "--trace: my.toml: is the configuration, which is read",
    "cosim my.toml --golden-trace soft": "--golden-trace: soft: is the configuration, which is read",
    "cosim my.toml --vcd hard": "--vcd: hard: is the configuration, which is read",
    "cosim file.toml --output sent.bin": "--output: sent.bin: is workload.path of file.toml, which is read",
    "verilog my.toml -o my.toml": "-o: my.toml: is the configuration, which is read",
    "verilog my.toml -o x --waivers my.toml": "--waivers: my.toml: is the configuration, which is read",
    "verilog traffic.toml -o traffic.parquet": "-o: traffic.parquet: is workload.path of traffic.toml, which is read",
    "report t.parquet -o t.parquet": "-o: t.parquet: is the trace, which is read",
    "report parts -o parts": "-o: parts: is a directory; name a file in it",
    "report parts -o parts/x.html": "-o: parts/x.html: is inside the trace, parts, which is read",
    "report t.parquet --against parts -o parts/_trace.json": "-o: parts/_trace.json: is inside --against, parts, which",
    "report t.parquet --against my.toml -o soft": "-o: soft: is --against, which is read",
    "report load -o load/sweep.toml": "-o: load/sweep.toml: is sweep.toml of the sweep, which is read",
    "report load -o load/summary.parquet": "-o: load/summary.parquet: is summary.parquet of the sweep, which is read",
    "report load --figures load/runs": "--figures: load/runs: is runs of the sweep, which is read",
    "report load --figures load/events/x": "--figures: load/events/x: is inside events of the sweep,",
    "sweep load.toml -o .": "-o: .: holds the sweep, load.toml, which is read; name another directory",
    "sweep load.toml -o load.toml": "-o: load.toml: is a file; name a directory",
    "fpga build my.toml --board ulx3s_25f -o .": "-o: .: holds the configuration, my.toml, which is read",
    "fpga build my.toml --board ulx3s_25f --json my.toml": "--json: my.toml: is the configuration, which is read",
    # What is also written.
    "run file.toml --trace x --vcd x": "--vcd: x: is also written as --trace; give each a name of its own",
    "run file.toml --trace x --output sub/../x": "--output: sub/../x: is also written as --trace; give each a name",
    "run file.toml --vcd x.gtkw": "the save file beside --vcd: x.gtkw: is also written as --vcd; give each a name",
    "run file.toml --vcd x.vcd --output x.gtkw": "--output: x.gtkw: is also written as the save file beside --vcd",
    "run my.toml --vcd sub/a.vcd --trace link/a.gtkw": "the save file beside --vcd: sub/a.gtkw: is also written",
    "run my.toml --vcd my.parquet": "--vcd: my.parquet: is also written as the default trace (--trace); give each",
    "run file.toml --pcap x.lua": "the dissector beside --pcap: x.lua: is also written as --pcap; give each a name",
    "run file.toml --pcap x --vcd x": "--pcap: x: is also written as --vcd; give each a name of its own",
    "run my.toml --trace parts --vcd parts/x.vcd": "--vcd: parts/x.vcd: is inside parts, which is written as --trace",
    "cosim my.toml --trace x --golden-trace ./x": "--golden-trace: x: is also written as --trace; give each a name",
    "verilog my.toml -o y --header y": "--header: y: is also written as -o; give each a name of its own",
    "verilog my.toml --header y --c-header y": "--c-header: y: is also written as --header; give each a name",
    "verilog my.toml -o y --waivers y": "--waivers: y: is also written as -o; give each a name of its own",
    "fpga build --board ulx3s_25f -o empty --json empty/r.json": "--json: empty/r.json: is inside empty, which",
    # Places where nothing can be.
    "new no/such/my.toml": "no/such/my.toml: no such directory no/such; make it first",
    "new thesis --force": "thesis: is a directory; name a file in it",
    "new ": "new: file: is empty; give a name",
    "run my.toml --trace no/x": "--trace: no/x: no such directory no; make it first",
    "run my.toml --trace my.toml/x": "--trace: my.toml/x: no such directory my.toml; make it first",
    "run my.toml --vcd dangling": "--vcd: dangling: no such directory PLACE/nowhere; make it first",
    "run my.toml --vcd loop": "--vcd: loop: cannot be written: Too many levels of symbolic links; name another file",
    "run my.toml --vcd -": "--vcd: -: does not go to stdout; name a file, or ./- for one of that name",
    "run my.toml --trace ": "run: trace: is empty; give a name",
    "run my.toml --trace thesis": "--trace: thesis: is a directory of something else, not a trace of Lethe;",
    "run my.toml --trace empty": "--trace: empty: is a directory of something else, not a trace of Lethe; name another",
    "run file.toml --output thesis --force": "--output: thesis: is a directory; name a file in it",
    "run my.toml --vcd LONG": "--vcd: LONG: cannot be written: File name too long; name another file",
    "cosim my.toml --trace no/x": "--trace: no/x: no such directory no; make it first",
    "cosim my.toml --vcd no/x": "--vcd: no/x: no such directory no; make it first",
    "run my.toml --pcap no/x": "--pcap: no/x: no such directory no; make it first",
    "run my.toml --pcap-links node1": "--pcap-links: there is no capture to choose links for; give --pcap FILE, o",
    "run my.toml --pcap x --pcap-links node2": "my.toml: --pcap-links node2: no such node; the network has nodes",
    "cosim my.toml --pcap-links node1": "--pcap-links: there is no capture to choose links for; give --pcap FILE, o",
    "run my.toml --pcap x --pcap-links 0,eth0": "my.toml: --pcap-links 'eth0': names no links; give nodes, node3, rout",
    "cosim my.toml --vcd x.gtkw": "the save file beside --vcd: x.gtkw: is also written as --vcd; give each a name",
    "cosim my.toml --vcd x --trace x.gtkw": "the save file beside --vcd: x.gtkw: is also written as --trace; give each",
    "cosim my.toml --vcd thesis.vcd --trace thesis.codes/x": "--trace: thesis.codes/x: no such directory thesis.codes;",
    "cosim my.toml --vcd x --simulator icarus": "--vcd: icarus writes no waveform here; leave it out, or use Verilator",
    "verilog my.toml -o no/x": "-o: no/x: no such directory no; make it first",
    "report t.parquet -o no/x": "-o: no/x: no such directory no; make it first",
    "report load --figures my.toml": "--figures: my.toml: is a file; name a directory",
    "report load --figures my.toml/x": "--figures: my.toml/x: no such directory my.toml; make it first",
    "sweep load.toml -o thesis": "-o: thesis: is a directory of something else, not the directory of a sweep;",
    "fpga build --board ulx3s_25f -o thesis": "-o: thesis: is a directory of something else, not a directory of `lethe",
    "fpga build --board ulx3s_25f -o thesis --force": "-o: thesis: is a directory of something else, not a directory",
    # Files of another kind.
    "new my.toml": "my.toml: already exists; --force replaces it",
    "run my.toml --trace notes.txt": "--trace: notes.txt: exists, and does not look like a trace of Lethe;",
    "run my.toml --trace traffic.parquet": "--trace: traffic.parquet: exists, and does not look like a trace of Lethe",
    "run my.toml --trace parts/PART": "--trace: parts/PART: exists, and does not look like a trace of Lethe;",
    "run my.toml --vcd page.vcd": "--vcd: page.vcd: exists, and does not look like a waveform of Lethe; --force",
    "run my.toml --vcd t.parquet": "--vcd: t.parquet: exists, and does not look like a waveform of Lethe;",
    "run my.toml --pcap page.vcd": "--pcap: page.vcd: exists, and does not look like a capture of Lethe; --force repl",
    "run capture.toml --pcap in.pcap": "--pcap: in.pcap: is workload.path of capture.toml, which is read; name another",
    "run file.toml --output notes.txt": "--output: notes.txt: already exists; --force replaces it",
    "run file.toml --output t.parquet": "--output: t.parquet: already exists; --force replaces it",
    "cosim my.toml --trace notes.txt": "--trace: notes.txt: exists, and does not look like a trace of Lethe; --force",
    "cosim my.toml --vcd page.vcd": "--vcd: page.vcd: exists, and does not look like a waveform of Lethe; --force repl",
    "cosim file.toml --output notes.txt": "--output: notes.txt: already exists; --force replaces it",
    "report t.parquet -o my.html": "-o: my.html: exists, and does not look like a page of Lethe; --force replaces it",
    "report t.parquet": "the default page (-o): t.html: exists, and does not look like a page of Lethe; --force",
    "verilog my.toml -o x.v": "-o: x.v: exists, and does not look like Verilog of Lethe; --force replaces it",
    "verilog my.toml -o y --waivers x.v": "--waivers: x.v: exists, and does not look like waivers of Lethe; --force re",
    "fpga build --board ulx3s_25f --json notes.txt": "--json: notes.txt: exists, and does not look like a",
}  # fmt: skip


def never(*_, **__):
    raise AssertionError("something ran")


@pytest.fixture
def nothing_runs(monkeypatch):
    """No model, no Java, no compiler, no Yosys."""
    for name in (
        "lethe_sim.running.run", "lethe_sim.pipeline.session.usable_java", "lethe_sim.pipeline.session.session",
        "lethe_sim.lockstep.simulators.build", "lethe_sim.lockstep.simulators.require", "lethe.verilog.emit",
        "lethe_fpga.build.build", "lethe_sim.report.report", "lethe_sim.sweep.store.Store.locked",
    ):  # fmt: skip
        monkeypatch.setattr(name, never)


@pytest.mark.parametrize("command", CLASHES)
def test_a_clash_is_refused_before_anything_runs(lethe, kept, nothing_runs, monkeypatch, command):
    monkeypatch.chdir(kept)
    part = next(path.name for path in (kept / "parts").glob("cycles*"))
    names = {"PLACE": str(kept), "LONG": "x" * 300, "PART": part}
    message = CLASHES[command]
    for short, name in names.items():
        command, message = command.replace(short, name), message.replace(short, name)
    before = snapshot(kept)
    told = lethe(*command.split(" "))
    assert told.code == cli.MISTAKE, told
    assert told.err.startswith(f"lethe: {message}") and told.err.count("\n") == 1, told.err
    assert told.out == "" and snapshot(kept) == before


@pytest.mark.parametrize("spelling", ["--trace A --vcd a", "--trace sub/A --vcd link/a"])
def test_case_is_as_the_file_system_has_it(lethe, kept, nothing_runs, monkeypatch, spelling):
    monkeypatch.chdir(kept)
    files_ = declared.Files()
    one, other = spelling.split()[1::2]
    files_.writes(one, "--trace", files.TRACE)
    files_.writes(other, "--vcd", files.VCD)
    files_.check()
    monkeypatch.setattr(declared, "heeds_case", lambda directory: False)
    told = lethe("run", "my.toml", *spelling.split())
    assert told.err == f"lethe: --vcd: {other}: is also written as --trace; give each a name of its own\n"


def test_what_a_file_system_says_of_case(tmp_path):
    (tmp_path / "x").touch()
    assert declared.heeds_case(tmp_path) is not (tmp_path / "X").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@contextmanager
def nobody():
    """Root becomes a user of no rights for a while; others have few anyway."""
    root = os.geteuid() == 0
    if root:
        os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        if root:
            os.setresuid(0, 0, 0)


def test_places_without_permission(lethe, monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        place = Path(name)
        place.chmod(0o1777)
        monkeypatch.chdir(place)
        Path("my.toml").write_text(WIRE)
        (place / "sub").mkdir(mode=0o555)
        trace(place / "t.parquet")
        os.chmod("t.parquet", 0o444)
        trace(place / "u.parquet")
        os.chmod("u.parquet", 0o666)
        cases = {
            "sub/x": "the directory PLACE/sub cannot be written to; choose another",
            "t.parquet": "is read-only; name another file, or make it writable",
        }
        if os.geteuid() == 0:
            # As in /tmp: who may write to a file may not put another in its place.
            cases["u.parquet"] = cases["t.parquet"]
        # What it takes is imported while it may be read.
        assert lethe("run", "my.toml", "--trace", "no/x").code == cli.MISTAKE
        for output, message in cases.items():
            with nobody():
                told = lethe("run", "my.toml", "--trace", output)
            assert told.code == cli.MISTAKE
            assert told.err == f"lethe: --trace: {output}: {message}\n".replace("PLACE", str(place.resolve()))
        monkeypatch.undo()


# What may be replaced.


@pytest.fixture
def quick(monkeypatch):
    """Yosys and Verilator stood for by a line each, Spark by a page."""
    from lethe_sim.report.html import environment

    page = environment().from_string("{% extends 'frame.html' %}").render()

    class Audit:
        verdict, exit_code = "every datagram once", 0

    monkeypatch.setattr("lethe.verilog.emit", lambda component, name, prefix="": f"module {prefix}{name};\nendmodule\n")
    monkeypatch.setattr("lethe_sim.lockstep.waivers.waivers", lambda *_: "`verilator_config\n")
    monkeypatch.setattr("lethe_sim.report.report", lambda *_, **__: (page, Audit))
    figure = '<svg class="chart" viewBox="0 0 1 1"></svg>'
    from lethe_sim.report.html import csv_text, standalone

    numbers = csv_text(("faults.loss", *files.FIGURE_COLUMNS), [])
    monkeypatch.setattr("lethe_sim.report.sweep_report", lambda _: page)
    monkeypatch.setattr("lethe_sim.report.figures", lambda _: {"f.svg": standalone(figure), "f.csv": numbers})
    monkeypatch.setattr("lethe_fpga.build.build", lambda *_, **__: built())


def built():
    from lethe_fpga.build import BuildReport, SlowestPath

    return BuildReport(
        board="", about="", bitstream="", bytes=0, board_clock=25.0, target=1.0, fmax=1.0, pll={}, cells={}, shares=(),
        path=SlowestPath(blocks=(), start="", end="", levels=0, logic=1.0, routing=1.0),
    )  # fmt: skip


#: Commands, and what each writes.
WRITERS = {
    "run my.toml --no-audit --vcd w.vcd": ("my.parquet", "w.vcd", "w.gtkw"),
    "run my.toml --no-audit --pcap w.pcapng": ("my.parquet", "w.pcapng", "w.lua"),
    "run my.toml --no-audit --pcap w.pcapng --pcap-links 0": ("w.lua", "w.pcapng"),
    "run my.toml --no-audit --trace parts": ("parts",),
    "run file.toml --no-audit --trace f.parquet --output got.bin --force": ("f.parquet", "got.bin"),
    "verilog my.toml --block router -o y.v --waivers y.vlt": ("y.v", "y.vlt"),
    "verilog my.toml --block ni -o z.v --header z.vh --c-header z.h": ("z.v", "z.vh", "z.h"),
    "report t.parquet -o page.html": ("page.html",),
    "report load --figures figures": ("load/report.html", "figures/f.svg", "figures/f.csv"),
    "new new.toml --force": ("new.toml",),
    "fpga build --board ulx3s_25f --json r.json": ("r.json",),
}


@pytest.mark.parametrize(
    ("command", "at_work", "output"),
    [
        ("run my.toml --no-audit", "lethe_sim.trace.TraceWriter.finish", "my.parquet"),
        ("run file.toml --no-audit --output got.bin", "lethe_sim.trace.TraceWriter.finish", "got.bin"),
        ("run my.toml --no-audit --pcap w.pcapng", "lethe_sim.trace.TraceWriter.finish", "w.pcapng"),
        ("verilog my.toml --block ni -o y.v", "lethe.verilog.emit", "y.v"),
        ("new new.toml", "lethe_sim.commands.new.example", "new.toml"),
    ],
)
def test_what_comes_there_meanwhile_is_not_replaced(lethe, place, monkeypatch, command, at_work, output):
    monkeypatch.chdir(place)
    work = pkgutil.resolve_name(at_work)

    def meanwhile(*args, **kwargs):
        Path(output).write_text("somebody's own\n")
        return work(*args, **kwargs)

    monkeypatch.setattr(at_work, meanwhile)
    told = lethe(*command.split())
    assert told.code == cli.ENVIRONMENT, told
    assert told.err.startswith(f"lethe: {output}: cannot be written") and "File exists; " in told.err
    assert Path(output).read_text() == "somebody's own\n" and not list(place.rglob(".*.part"))


@pytest.mark.parametrize("command", WRITERS)
def test_an_output_replaces_its_own_kind_and_nothing_else(lethe, place, quick, command):
    """Twice the same command; then over an empty file; then over somebody's own, refused or forced."""
    before = snapshot(place)
    command, written = command.replace("router", "ni"), [place / name for name in WRITERS[command]]
    assert lethe(*command.split()).code == cli.GOOD
    first = {path: path.stat().st_ino for path in written}
    assert lethe(*command.split()).code == cli.GOOD
    for path in written:
        assert path.stat().st_ino != first[path], f"{path} is written aside, not over the old one"
    kept = {name: what for name, what in before.items() if not name.startswith("parts")}
    assert kept.items() <= snapshot(place).items() and not list(place.rglob(".*.part"))
    last = written[-1]
    if last.is_dir():
        return
    last.write_bytes(b"")
    last.chmod(0o640)
    assert lethe(*command.split()).code == cli.GOOD
    assert last.stat().st_size and stat.S_IMODE(last.stat().st_mode) == 0o640
    last.write_text("somebody's own")
    told = lethe(*[word for word in command.split() if word != "--force"])
    if last.suffix == ".gtkw":
        assert told.err == "lethe: w.gtkw: is not as Lethe wrote it, and is kept; --force replaces it\n"
        assert (told.code, last.read_text()) == (cli.GOOD, "somebody's own")
    else:
        assert told.code == cli.MISTAKE and "--force replaces it" in told.err
        assert last.read_text() == "somebody's own"
    forced = command.split() if "--force" in command else [*command.split(), "--force"]
    assert lethe(*forced).code == cli.GOOD
    assert last.read_text(errors="replace") != "somebody's own"


# Devices and pipes.


@contextmanager
def reading(fifo: Path):
    """A reader of a pipe; yields what it will have read."""
    os.mkfifo(fifo)
    got = []
    reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()), daemon=True)
    reader.start()
    yield got
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    reader.join(30)


def test_a_pipe_gets_what_a_file_would(lethe, place):
    with reading(place / "p") as got:
        assert lethe("run", "file.toml", "--no-audit", "--output", "p").code == cli.GOOD
    assert got == [(place / "sent.bin").read_bytes()]
    (place / "p").unlink()
    with reading(place / "p") as got:
        assert lethe("run", "my.toml", "--no-audit", "--trace", "p", "--vcd", "w.vcd").code == cli.GOOD
    (place / "copy").write_bytes(got[0])
    assert open_trace(place / "copy").meta.drained and (place / "w.vcd").stat().st_size
    (place / "p").unlink()
    with reading(place / "p") as got:
        assert lethe("run", "my.toml", "--no-audit", "--vcd", "p").code == cli.GOOD
    assert got[0] == (place / "w.vcd").read_bytes() and not (place / "p.gtkw").exists()


def test_a_device_is_written_to_and_stays(lethe, place):
    try:
        os.mknod(place / "null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        os.mknod(place / "disk", 0o600 | stat.S_IFBLK, os.makedev(7, 250))
        open(place / "null", "wb").close()
    except PermissionError:
        pytest.skip("only root makes device nodes, where the file system has them")
    node = (place / "null").stat()
    for option in ("--trace", "--vcd", "--output"):
        told = lethe("run", "file.toml", "--no-audit", option, "null")
        assert (told.code, told.err) == (cli.GOOD, "")
    assert (place / "null").stat().st_ino == node.st_ino and (place / "null").stat().st_rdev == node.st_rdev
    told = lethe("run", "file.toml", "--no-audit", "--trace", "null", "--vcd", "null", "--output", "null")
    assert told.code == cli.GOOD
    assert lethe("new", "null").code == cli.GOOD
    with pytest.raises(TraceError, match="null: is a device or a pipe, which cannot hold a trace; name a file"):
        TraceWriter(place / "null", System.make())
    told = lethe("run", "my.toml", "--trace", "disk", "--force")
    assert told.err == "lethe: --trace: disk: is a disk; name a file\n"
    assert stat.S_ISCHR((place / "null").stat().st_mode) and not list(place.glob(".*"))


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
def test_a_device_that_is_full_is_named_after_the_verdict(lethe, place):
    told = lethe("run", "file.toml", "--no-audit", "--output", "/dev/full")
    assert "file: 15 bytes received as sent" in told.out
    assert (told.code, told.err) == (
        cli.ENVIRONMENT, "lethe: /dev/full: cannot be written: No space left on device; name another\n",
    )  # fmt: skip


def test_stdout_by_its_name_is_no_file_to_replace(place):
    """Sent to a file, it has what is printed and what is written to it, in that order."""
    command = [sys.executable, "-m", "lethe_sim.cli", "run", "file.toml", "--no-audit", "--output", "/dev/stdout"]
    with open(place / "both", "wb") as both:
        number = os.fstat(both.fileno()).st_ino
        done = subprocess.run(command, cwd=place, stdout=both, stderr=subprocess.PIPE, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (cli.GOOD, b"")
    text = (place / "both").read_bytes()
    assert text.startswith(b"run: ") and text.endswith(b"SHA-256 %s\nsomebody's own\n" % _sha256(place / "sent.bin"))
    assert (place / "both").stat().st_ino == number


def _sha256(path: Path) -> bytes:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest().encode()


# A disk that fills up, and interrupts.


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full here")
@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("command", [c for c in WRITERS if "parts" not in c])
def test_a_full_disk_leaves_what_was_there(lethe, place, quick, monkeypatch, command, there):
    """The last output of each command finds no room: its hidden file is `/dev/full`."""
    command, last = command.replace("router", "ni"), place / WRITERS[command][-1]
    if there:
        assert lethe(*command.split()).code == cli.GOOD
    else:
        (place / "figures").mkdir()
    before = {name: what for name, what in snapshot(place).items() if Path(name).name == last.name}
    opened = Path.open

    def full(path, mode="r", *arguments, **options):
        if path.name.startswith(f".{last.name}.") and "w" in mode:
            path.touch()
            return os.fdopen(os.open("/dev/full", os.O_WRONLY), mode)
        return opened(path, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", full)
    told = lethe(*command.split())
    assert told.code == cli.ENVIRONMENT
    assert told.err == (
        f"lethe: {last.relative_to(place)}: cannot be written: No space left on device; nothing is changed, make room "
        "or name another file\n"
    )
    assert {name: what for name, what in snapshot(place).items() if Path(name).name == last.name} == before
    assert not list(place.rglob(".*.part"))
    if command.startswith("run"):
        assert "drained" in told.out and (" received as sent" in told.out) == ("file.toml" in command)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", WRITERS)
def test_an_interrupt_while_writing_leaves_what_was_there(lethe, place, quick, monkeypatch, command, number):
    """The signal comes when the last output is whole and about to get its name."""
    command, last = command.replace("router", "ni"), place / WRITERS[command][-1]
    assert lethe(*command.split()).code == cli.GOOD
    before = {name: what for name, what in snapshot(place).items() if last in (place / name, *(place / name).parents)}
    move = files.move

    def interrupted(new, path):
        if path == last:
            signal.raise_signal(number)
        move(new, path)

    monkeypatch.setattr(files, "move", interrupted)
    told = lethe(*command.split())
    assert (told.code, told.err) == (cli.INTERRUPTED, "lethe: interrupted\n")
    after = {name: what for name, what in snapshot(place).items() if last in (place / name, *(place / name).parents)}
    assert after == before and not list(place.rglob(".*.part"))


def test_an_interrupt_while_a_directory_is_replaced_leaves_the_old_one(tmp_path, monkeypatch):
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    (tmp_path / "old" / "x").write_text("old")
    replace, done = os.replace, []

    def interrupted(source, target):
        replace(source, target)
        done.append(target)
        if len(done) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.move(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old" / "x").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def test_a_directory_appears_when_it_is_whole(tmp_path):
    target = tmp_path / "deep" / "built"
    for text in ("one", "two"):
        with files.whole_directory(target) as part:
            (part / "x").write_text(text)
            assert not target.exists() or (target / "x").read_text() == "one"
        assert (target / "x").read_text() == text and files.BITSTREAM.fits(target)
    with pytest.raises(KeyError), files.whole_directory(target) as part:
        (part / "x").write_text("three")
        raise KeyError
    assert (target / "x").read_text() == "two" and [path.name for path in target.parent.iterdir()] == ["built"]


def test_what_a_killed_command_left_goes_when_the_file_is_written_again(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f"{files.part_prefix(tmp_path / 'x')}{gone.pid}.part"
    left.write_text("half")
    ours = tmp_path / f"{files.part_prefix(tmp_path / 'x')}1.part"
    ours.write_text("of a process that lives")
    files.write(tmp_path / "x", "whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["x", ours.name])


def test_a_link_stays_a_link(lethe, place):
    (place / "sub" / "real.parquet").touch()
    (place / "alias").symlink_to("sub/real.parquet")
    assert lethe("run", "my.toml", "--no-audit", "--trace", "alias").code == cli.GOOD
    assert (place / "alias").is_symlink() and open_trace(place / "sub" / "real.parquet").meta.drained


def test_a_name_of_the_greatest_length(lethe, place):
    name = "x" * 247 + ".parquet"
    assert lethe("run", "my.toml", "--no-audit", "--trace", name).code == cli.GOOD
    files.write(place / ("ü" * 127), "x")
    assert (place / name).exists() and not list(place.glob(".*"))


def test_a_trace_directory_with_something_else_in_it_is_kept(lethe, place):
    (place / "parts" / "notes.txt").write_text("somebody's own")
    told = lethe("run", "my.toml", "--no-audit", "--trace", "parts", "--force")
    assert told.err == "lethe: --trace: parts: is a directory of something else, not a trace of Lethe; name another\n"
    with pytest.raises(TraceError, match="parts: is a directory that holds something else than a trace"):
        trace(place / "parts")
    assert (place / "parts" / "notes.txt").exists()


def test_the_writer_of_traces_itself_replaces_nothing_else(place):
    with pytest.raises(TraceError, match=r"notes.txt: exists and is no trace; choose another name"):
        trace(place / "notes.txt")
    trace(place / "notes.txt", force=True)
    assert open_trace(place / "notes.txt").meta.drained


# The lockstep.


def test_a_trace_that_cannot_be_written_does_not_end_the_comparison(tmp_path, monkeypatch):
    """What the bench does about it, outside of a simulator."""
    from lethe_sim.lockstep.bench import _Trace

    unwritten: list[str] = []
    written = _Trace(str(tmp_path / "t.parquet"), System.make(), "rtl", False, unwritten)
    monkeypatch.setattr(files, "move", lambda new, path: os.write(os.open("/dev/full", os.O_WRONLY), b"x"))
    written.finish(cycles=1, drained=True)
    written.finish(cycles=1, drained=True)
    written.__exit__()
    assert len(unwritten) == 1 and unwritten[0].startswith(f"{tmp_path}/t.parquet: cannot be written to its end: No sp")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("equal", [True, False])
def test_the_verdict_of_a_lockstep_comes_before_what_could_not_be_written(lethe, place, monkeypatch, equal):
    from lethe_sim.lockstep.cosim import CosimResult

    result = CosimResult(
        equal=equal, cycles=9, drained=True, report="they part in cycle 9", unwritten=[files.WriteError("x: full")]
    )
    monkeypatch.setattr(sys.modules["lethe_sim.lockstep.cosim"], "cosim", lambda *_, **__: result)
    told = lethe("cosim", "my.toml", "--trace", "x")
    assert told.out.startswith("equal: 9 cycles" if equal else "they part in cycle 9")
    assert (told.code, told.err) == (cli.ENVIRONMENT, "lethe: x: full\n")


def test_a_waveform_of_the_simulator_is_marked_and_moved(tmp_path):
    from lethe_sim.lockstep.cosim import _waveform

    unwritten: list[OSError] = []
    with _waveform(tmp_path / "x.vcd", unwritten) as part:
        assert part is not None and part.parent == tmp_path and part.is_absolute()
        part.write_text("$version Generated by VerilatedVcd $end\n$timescale 1ps $end\n")
    assert (tmp_path / "x.vcd").read_text() == "$version Lethe cosim, VerilatedVcd $end\n$timescale 1ps $end\n"
    assert files.VCD.fits(tmp_path / "x.vcd")
    with _waveform(tmp_path / "x.vcd", unwritten):
        pass  # nothing came of it
    (error,) = unwritten
    assert str(error).startswith(f"{tmp_path}/x.vcd: cannot be written: No such file or directory; nothing is changed")
    assert (tmp_path / "x.vcd").exists()


def test_a_simulator_that_cannot_write_its_waveform_is_told_of_the_waveform(tmp_path):
    from lethe_sim.lockstep.cosim import _waveform
    from lethe_sim.lockstep.simulators import ToolError

    words = "the simulation failed; its last words:\n%Error: VerilatedVcd::bufferFlush: No space left on device\nAbort"
    message = r"x.vcd: cannot be written: No space left on device; make room, or leave it out"
    with pytest.raises(files.WriteError, match=message), _waveform(tmp_path / "x.vcd", []):
        raise ToolError(words)
    assert list(tmp_path.iterdir()) == []


# A sweep.


def test_a_sweep_tidies_up_its_own_only(tmp_path):
    from lethe_sim.sweep.store import Store

    (tmp_path / "thesis").mkdir()
    own, foreign = tmp_path / "runs" / ".x.part", tmp_path / "thesis" / ".draft.part"
    foreign.write_text("somebody's own")
    with Store(tmp_path).locked():
        own.write_text("half")
    assert foreign.exists() and not own.exists()


# A disk that is full, for real: a small file system in a namespace of its own, where the system allows that.

_INSIDE = """
mount -t tmpfs -o size=400k none disk && cp *.toml disk && cd disk && echo old > old && {before}
set +e; {command}; code=$?
ls -A | sort | tr '\\n' ' ' >&2; exit $code
"""


def on_a_small_disk(place: Path, command: str, before: str = "true") -> tuple[int, str, list[str]]:
    (place / "disk").mkdir()
    command = command.replace("lethe", f"{sys.executable} -m lethe_sim.cli")
    text = _INSIDE.format(before=before, command=command)
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-ec", text], cwd=place, capture_output=True, text=True, timeout=600, check=False
    )
    return done.returncode, done.stdout, done.stderr.splitlines()


def _may_mount() -> bool:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.full
@pytest.mark.skipif(not _may_mount(), reason="unshare may not mount a file system here")
def test_a_full_disk_and_a_run(tmp_path):
    """The trace fits; waveform and what was received do not."""
    (tmp_path / "my.toml").write_text(WIRE.replace("count = 2", "count = 3000"))
    code, out, err = on_a_small_disk(tmp_path, "lethe run my.toml --no-audit --vcd w.vcd --trace t.parquet")
    assert (code, err[0]) == (
        cli.ENVIRONMENT,
        "lethe: w.vcd: cannot be written: No space left on device; nothing is changed, make room or name another file",
    )
    assert "drained" in out and err[1:] == ["my.toml old t.parquet "]


@pytest.mark.full
@pytest.mark.skipif(not _may_mount(), reason="unshare may not mount a file system here")
def test_a_full_disk_and_a_lockstep(tmp_path):
    """A trace that finds no room does not take the verdict along; a waveform stops the simulator, in one line."""
    (tmp_path / "my.toml").write_text(WIRE)
    full = "(head -c 399k /dev/zero > filler || true) 2>&1 | cat > /dev/null"
    code, out, err = on_a_small_disk(tmp_path, "lethe cosim my.toml --trace t.parquet --golden-trace g.parquet", full)
    assert out.startswith("equal: ") and code == cli.ENVIRONMENT
    assert sorted(err[:2]) == [
        f"lethe: {tmp_path}/disk/{name}: cannot be written: No space left on device; make room or choose another disk"
        for name in ("g.parquet", "t.parquet")
    ]
    assert err[2:] == ["filler my.toml old "]
    (tmp_path / "disk").rmdir()
    code, out, err = on_a_small_disk(tmp_path, "lethe cosim my.toml --vcd w.vcd")
    assert (code, out, err) == (
        cli.ENVIRONMENT, "",
        ["lethe: w.vcd: cannot be written: No space left on device; make room, or leave it out", "my.toml old "],
    )  # fmt: skip


@pytest.mark.full
def test_a_lockstep_with_all_its_outputs(lethe, place):
    told = lethe("cosim", "my.toml", "--trace", "r.parquet", "--golden-trace", "g.parquet", "--vcd", "w.vcd")
    assert told.code == cli.GOOD, told
    assert files.VCD.fits(place / "w.vcd") and (place / "w.vcd").stat().st_size > 10_000
    assert open_trace(place / "r.parquet").meta.digest == open_trace(place / "g.parquet").meta.digest

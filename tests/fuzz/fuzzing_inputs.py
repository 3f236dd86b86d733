"""Inputs for commands: good ones, bent.

Each family is a function of a directory to write into and a source of chance; it returns the command line.  Random
bytes would seldom get beyond the first check, so an input begins as a good one, and a few things in it are changed.
"""

import io
import json
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import dpkt
import pyarrow as pa
import pyarrow.parquet as pq

from lethe.spec.config import example
from lethe.spec.sections import SECTIONS
from lethe.spec.sections.workload import WORKLOADS
from lethe.spec.topology import KINDS
from lethe_sim.cli import COMMANDS

Family = Callable[[Path, Random], list[str]]

#: Values that TOML can say, in its own words.
VALUES = (
    "-1", "0", "1", "2", "3", "4", "5", "7", "16", "64", "255", "256", "4096", "65535", "65536", "1000000",
    "4294967295", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "1" + 40 * "0", "9" * 5000,
    "0.0", "-0.0", "0.5", "1.0", "1e-300", "1e308", "inf", "-inf", "nan", "true", "false", '""', '"x"', '"a\\nb"',
    '"\\u0000"', '"../x"', '"/"', '"."', '"ünï 🎈"', '"\\u202e"', f'"{"long" * 300}"', "[]", "[1]", "[[]]", "[{}]",
    "{}",
    '{a = 1}', "[{link = 0, start = 0, end = 5}]", "[{node = 1, start = 3, end = 9}]", "[{node = 0, cycle = 4}]",
    "1979-05-27", "07:32:00", "1979-05-27T07:32:00Z", "[" * 60 + "]" * 60, "0x1F", "1_000", "'raw\\'", '"""\nx"""',
    '"uniform"', '"hotspot"', '"sort"', '"tree"', '"mesh"', '"file"', '"credits"', '"wrap"', '"kept"', '"compressed"',
)  # fmt: skip
ODD_LINES = ('"" = 1', "a.b.c = 1", "[x]", "[[x]]", "[run]", "[a.b", "\0", "=", "#\u2028", "faults.links = [3]")
UIDS = ("unlucky", "0:0:0:0", "0:1:0:0", "1:0:1:1", "x", "-1", "9" * 20, "0:0", ":::", "0x5", "1:2:3:4:5", "")
NAMES = (
    "plain.toml", "with space.toml", "new\nline.toml", "tab\t.toml", "\x1b[31mred.toml", "not-utf8-\udcff.toml",
    "ü🎈.toml",
    "'quote\".toml", "-dash.toml", "--seed", ".hidden", "dir", ".", "..", "/", "a" * 300, "x" * 5000,
    "no/such/dir/a.toml",
    "%s{0}$HOME", "\u202eltr.toml", "with:colon.toml", "null\0byte", "", " ", "*", "CON", "a,b.toml", "/dev/null",
    "/dev/full", "/dev/zero", "/proc/self/mem", "/dev/stdin",
)  # fmt: skip


@dataclass(frozen=True)
class Goods:
    """Good inputs that take time to make: once for each process.

    Attributes
    ----------
    trace : a trace of one file
    parts : a trace of several
    sweep : the directory of a finished sweep
    """

    trace: Path
    parts: Path
    sweep: Path


def bent_text(text: str, chance: Random) -> bytes:
    """The text with a few lines changed, as UTF-8 that may be damaged."""
    lines = text.splitlines()
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3, 6))):
        at = chance.randrange(len(lines)) if lines else 0
        line = lines[at] if lines else ""
        key, equals, _ = line.partition("=")
        match chance.randrange(14):
            case 0 | 1 | 2 | 3 | 4 if equals and not line.startswith("#"):
                lines[at] = f"{key}= {chance.choice(VALUES)}"
            case 5 if line.startswith("#"):
                lines[at] = line.lstrip("# ")
            case 6:
                lines.insert(at, line)
            case 7:
                del lines[at : at + chance.choice((1, 1, 5))]
            case 8 if len(key) > 2:
                lines[at] = key[:1] + key[2:] + equals + line.partition("=")[2]
            case 9:
                lines.insert(at, chance.choice(ODD_LINES))
            case 10:
                lines[at] = f"{chance.choice(tuple(SECTIONS))}.{key.strip()} = {chance.choice(VALUES)}"
            case 11 if equals:
                other = chance.choice(lines)
                lines[at] = f"{key}={other.partition('=')[2]}"
            case 12:
                lines.insert(at, f"[faults]\nlinks = {chance.choice(VALUES)}")
            case _ if equals and not line.startswith("#"):
                lines[at] = f"{key}= {chance.randrange(-2, 40)}"
    data = chance.choice(("\n", "\n", "\n", "\r\n")).join(lines).encode("utf-8", "surrogateescape") + b"\n"
    match chance.randrange(24):
        case 0:
            return b"\xef\xbb\xbf" + data
        case 1:
            return data[: chance.randrange(len(data))]
        case 2:
            return data.decode("utf-8", "replace").encode("utf-16")
        case 3:
            return bent_bytes(data, chance)
    return data


def bent_bytes(data: bytes, chance: Random, *, end: bool = False) -> bytes:
    """The bytes with some changed, left out or put in; ``end``: mostly in the last kilobyte, where footers are."""
    bent = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5, 40))):
        if not bent:
            break
        first = max(0, len(bent) - 1024) if end and chance.random() < 0.7 else 0
        at = chance.randrange(first, len(bent))
        match chance.randrange(8):
            case 0 | 1 | 2:
                bent[at] ^= 1 << chance.randrange(8)
            case 3:
                bent[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 4:
                bent[at : at + 4] = struct.pack(
                    chance.choice("<>") + "I", chance.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 65536))
                )
            case 5:
                del bent[at : at + chance.choice((1, 2, 4, 100))]
            case 6:
                bent[at:at] = chance.randbytes(chance.choice((1, 4, 30)))
            case 7:
                del bent[at:]
    return bytes(bent)


# Families.


def toml(here: Path, chance: Random) -> list[str]:
    """A configuration."""
    text = example(chance.choice(KINDS), chance.choice(("generator", "generator", *WORKLOADS)))
    (here / "c.toml").write_bytes(bent_text(text, chance))
    roll = chance.random()
    if roll < 0.75:
        return ["check", "c.toml", *(["--links"] if roll < 0.1 else [])]
    if roll < 0.97:
        return ["run", "c.toml", "--no-audit", "--cycles", str(chance.choice((1, 7, 200))), "--trace", "t.parquet"]
    block = chance.choice((("ni",), ("router", "--router", str(chance.randrange(-1, 4)))))
    return ["verilog", "c.toml", "--block", *block]


SWEEP = """\
name = "s"
base = "base.toml"
design = "grid"
replicas = 2
warmup = 10
window = 20
events = false
[axes]
workload.load = [0.1, 0.2]
ni.slots = { from = 2, to = 4, steps = 2 }
[axes.network.small]
topology = { kind = "tree", arity = 2, levels = 2 }
[axes.network.wire]
topology = { kind = "wire" }
"""
RANDOM = """\
design = "random"
samples = 3
seed = 5
[base]
topology.kind = "wire"
run.cycles = 40
[axes]
workload.load = { from = 0.01, to = 0.5, scale = "log" }
timers.jitter_bits = [0, 2, 4]
"""


def sweep(here: Path, chance: Random) -> list[str]:
    """A sweep and its base."""
    (here / "base.toml").write_bytes(
        bent_text(
            "[run]\ncycles = 60\n[topology]\nkind = 'wire'\n[workload]\ncount = 3\n", Random(chance.choice((0, 1, 2)))
        )
        if chance.random() < 0.3
        else b"[run]\ncycles = 60\n[workload]\ncount = 3\n"
    )
    (here / "s.toml").write_bytes(bent_text(chance.choice((SWEEP, RANDOM)), chance))
    return ["sweep", "s.toml", "-o", chance.choice(("out", "out", "out", "s.toml", "base.toml/x")), "--no-report"]


def _traffic(here: Path, name: str) -> list[str]:
    (here / "c.toml").write_text(
        f'[topology]\narity = 2\n[run]\ncycles = 400\n[workload]\nkind = "trace"\npath = "{name}"\n'
    )
    return ["run", "c.toml", "--no-audit", "--trace", "t.parquet"]


CELLS = (
    "", " ", "-1", "+3", "007", "1.0", "1e3", "nan", "x", '"2"', '"a\nb"',
    '"', "'", "9" * 19, "9" * 400, "１", "\x00", "ü",
    "4", "40", "4096", "2\t", "NULL", "true", "0x10",
)  # fmt: skip


def csv(here: Path, chance: Random) -> list[str]:
    """A trace of traffic as CSV."""
    rows = [[chance.randrange(300), chance.randrange(4), chance.randrange(4), chance.randrange(33)] for _ in range(12)]
    table = [["cycle", "source", "destination", "length"]]
    table += [[str(cell) for cell in row] for row in rows if row[1] != row[2]]
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        row = chance.choice(table)
        match chance.randrange(6):
            case 0 | 1 | 2 if row:
                row[chance.randrange(len(row))] = chance.choice(CELLS)
            case 3:
                row.append(chance.choice(CELLS))
            case 4 if row:
                row.pop()
            case _:
                table.insert(chance.randrange(len(table) + 1), list(row))
    separator = chance.choice((",",) * 10 + (";", "\t", ", "))
    text = chance.choice(("\n", "\n", "\r\n", "\r", "\n\n")).join(separator.join(row) for row in table)
    data = text.encode("utf-8", "surrogateescape") + chance.choice((b"\n", b"", b"\n\n\n"))
    match chance.randrange(12):
        case 0:
            data = b"\xef\xbb\xbf" + data
        case 1:
            data = bent_bytes(data, chance)
        case 2:
            data = chance.choice((b"", b"\n", b"PAR1", b"\xff\xfe", b"cycle,source,destination,length", data[:20]))
    (here / "t.csv").write_bytes(data)
    return _traffic(here, "t.csv")


def parquet(here: Path, chance: Random) -> list[str]:
    """A trace of traffic as Parquet."""
    kinds: list[Any] = [pa.int64()] * 8 + [
        pa.int8(), pa.uint64(), pa.int32(), pa.float64(), pa.string(), pa.bool_(), pa.null(), pa.date32(),
        pa.list_(pa.int64()),
        pa.decimal128(9, 0), pa.timestamp("ns"), pa.binary(), pa.dictionary(pa.int32(), pa.string()),
    ]  # fmt: skip
    columns, names = [], ["cycle", "source", "destination", "length"]
    for number, name in enumerate(names):
        values: list[Any] = [(row * 7 + number) % (250 if name == "cycle" else 4) for row in range(9)]
        if chance.random() < 0.1:
            values[chance.randrange(9)] = chance.choice((None, -1, 5, 10**6, 2**62))
        kind = chance.choice(kinds) if chance.random() < 0.4 else pa.int64()
        try:
            columns.append(pa.array(values, pa.int64()).cast(kind))
        except pa.ArrowException:
            columns.append(pa.array([None] * 9, kind))
    if chance.random() < 0.1:
        names[chance.randrange(4)] = chance.choice(("cycle", "Cycle", "", "x\ny", "ü"))
    sink = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(columns, names=names).slice(0, chance.choice((9, 9, 9, 1, 0))), sink,
        compression=chance.choice(("zstd", "snappy", "none", "gzip")),
    )  # fmt: skip
    data = sink.getvalue()
    (here / "t.parquet.in").write_bytes(bent_bytes(data, chance, end=True) if chance.random() < 0.6 else data)
    return _traffic(here, "t.parquet.in")


def _packet(chance: Random) -> bytes:
    """An IP packet in some frame, perhaps within many others."""

    def address() -> bytes:
        return bytes([10, 0, 0, chance.randrange(1, 6)])

    inner = bytes(dpkt.ip.IP(src=address(), dst=address(), p=17, data=b"\0" * chance.choice((0, 8, 60)), len=28))
    for _ in range(chance.choice((0, 0, 0, 0, 1, 3, 60, 248))):
        inner = bytes(dpkt.ip.IP(src=address(), dst=address(), p=4, data=inner, len=min(65535, 20 + len(inner))))
    match chance.randrange(8):
        case 0:
            return inner
        case 1:
            return b"\x60" + chance.randbytes(chance.choice((3, 39, 60)))
        case 2:
            return chance.randbytes(chance.randrange(80))
        case 3:
            tags = b"".join(b"\x81\x00" + chance.randbytes(2) for _ in range(chance.choice((1, 2, 300))))
            return b"\2" * 6 + b"\4" * 6 + tags + b"\x08\x00" + inner
        case 4:
            types = (b"\x86\xdd", b"\x88\x47", b"\x88\x64", b"\x00\x20", b"\x80\x00", b"\x08\x06", b"\x20\x00")
            return b"\2" * 6 + b"\4" * 6 + chance.choice(types) + chance.randbytes(60)
    return b"\2" * 6 + b"\4" * 6 + b"\x08\x00" + inner


LINKS = (0, 1, 1, 1, 1, 12, 101, 105, 113, 127, 228, 229, 276, 65535)


def capture(here: Path, chance: Random) -> list[str]:
    """A pcap or a pcapng."""
    packets = [_packet(chance) for _ in range(chance.choice((0, 1, 3, 6)))]
    order, link = chance.choice("<>"), chance.choice(LINKS)
    if chance.random() < 0.5:
        magic = chance.choice((0xA1B2C3D4, 0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34))
        parts = [struct.pack(order + "IHHIIII", magic, 2, 4, 0, 0, chance.choice((0, 64, 65535)), link)]
        for number, packet in enumerate(packets):
            size = len(packet) if chance.random() < 0.95 else chance.choice((0, 1, 300_000, 0xFFFFFFFF))
            parts.append(
                struct.pack(order + "IIII", number, chance.choice((0, 5, 999_999, 10**9)), size, size) + packet
            )
    else:
        parts = [_block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), chance)]
        options = chance.choice(
            (b"", struct.pack(order + "HHB3xHH", 9, 1, chance.choice((0, 6, 9, 127, 128, 255)), 0, 0))
        )
        options = chance.choice(
            (options, options, struct.pack(order + "HHqHH", 14, 8, chance.choice((-1, 2**62)), 0, 0))
        )
        for _ in range(chance.choice((1, 1, 0, 2))):
            parts.append(
                _block(order, 1, struct.pack(order + "HHI", link, 0, chance.choice((0, 65535))) + options, chance)
            )
        for packet in packets:
            kind = chance.choice((6, 6, 6, 3, 2, 5, 99))
            head = struct.pack(
                order + "IIIII", chance.choice((0, 0, 0, 1)), chance.choice((0, 2**31)), 7, len(packet), 999
            )
            body = struct.pack(order + "I", len(packet)) if kind == 3 else head
            parts.append(_block(order, kind, body + packet + bytes(-len(packet) % 4), chance))
    data = b"".join(parts)
    (here / "c.pcap").write_bytes(bent_bytes(data, chance) if chance.random() < 0.5 else data)
    (here / "c.toml").write_text(
        "[topology]\narity = 2\n[wire]\nmtu = 64\n[run]\ncycles = 3000\n"
        f'[workload]\nkind = "capture"\npath = "c.pcap"\nhosts = "{chance.choice(("wrap", "refuse"))}"\n'
        f'timing = "{chance.choice(("kept", "compressed"))}"\n'
    )
    return ["run", "c.toml", "--no-audit", "--trace", "t.parquet", *chance.choice(([], ["--output", "o.pcap"]))]


def _block(order: str, kind: int, body: bytes, chance: Random) -> bytes:
    size = 12 + len(body)
    told = size if chance.random() < 0.96 else chance.choice((0, 8, 13, size + 4, 1 << 27))
    return struct.pack(order + "II", kind, told) + body + struct.pack(order + "I", told)


JSON_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**63, 1e400, "", "x", "ü\n", [], [1], {}, {"a": 1}, [[[[]]]], "0" * 16, "zzzz", 10**30, 0.5,
)  # fmt: skip


def bent_json(text: str, chance: Random) -> bytes:
    """A JSON text with some values of other types, somewhere within."""
    if chance.random() < 0.1:
        return chance.choice((b"", b"[]", b"null", b"{", b"[" * 100_000, b'{"a":' * 3000, b"\xff", b"1" * 5000, b'"x"'))
    tree = json.loads(text)
    for _ in range(chance.choice((1, 1, 2, 4))):
        place, key, at = None, None, tree
        while isinstance(at, dict | list) and at and (place is None or chance.random() < 0.7):
            place = at
            key = chance.choice(list(at)) if isinstance(at, dict) else chance.randrange(len(at))
            at = at[key]
        if place is None:
            continue
        match chance.randrange(6):
            case 0:
                del place[key]
            case 1 if isinstance(place, dict):
                place["other"] = chance.choice(JSON_VALUES)
            case _:
                place[key] = chance.choice(JSON_VALUES)
    return json.dumps(tree).encode()


def bent_trace(here: Path, name: str, goods: Goods, chance: Random) -> None:
    """A trace of Lethe's whose bytes, metadata or rows are changed."""
    target = here / name
    if chance.random() < 0.4:
        shutil.copytree(goods.parts, target)
        files = sorted(target.iterdir())
        for _ in range(chance.choice((1, 1, 2))):
            victim = chance.choice(files)
            match chance.randrange(6):
                case 0 | 1:
                    manifest = target / "_trace.json"
                    if manifest.exists():
                        manifest.write_bytes(bent_json(goods.parts.joinpath("_trace.json").read_text(), chance))
                case 2 if victim.exists():
                    victim.unlink()
                case 3 if victim.exists():
                    victim.write_bytes(bent_bytes(victim.read_bytes(), chance, end=True))
                case 4:
                    (
                        target / chance.choice(("x", "cycles=000000000000-000000000005.parquet", "not-utf8-\udcff"))
                    ).write_bytes(b"PAR1")
                case _ if victim.exists():
                    victim.rename(target / chance.choice(("y.parquet", "cycles=9-1.parquet", "_trace.json")))
        return
    data = goods.trace.read_bytes()
    if chance.random() < 0.45:
        target.write_bytes(bent_bytes(data, chance, end=True))
        return
    table = pq.read_table(pa.BufferReader(data))
    meta = dict(table.schema.metadata or {})
    roll = chance.random()
    if roll < 0.5:
        for key, value in meta.items():
            if key.startswith(b"lethe"):
                meta[key] = bent_json(value.decode(), chance)
    elif roll < 0.6:
        meta = chance.choice(({}, {b"lethe.trace": b""}, {b"lethe.trace": b"\xff"}))
    else:
        number = chance.randrange(table.num_columns)
        field, values = table.field(number), table.column(number).to_pylist()
        for _ in range(chance.choice((1, 1, 3))):
            row = chance.randrange(len(values))
            values[row] = chance.choice((None, values[chance.randrange(len(values))], -1, 0, 2**40))
        if chance.random() < 0.1:
            values = [None] * len(values)
        try:
            column = pa.array(values, field.type)
        except (pa.ArrowException, OverflowError, TypeError):
            column = pa.nulls(len(values), chance.choice((pa.int64(), pa.string(), pa.float64())))
        table = table.set_column(number, pa.field(field.name, column.type), column)
        match chance.randrange(6):
            case 0:
                table = table.slice(chance.randrange(table.num_rows))
            case 1:
                table = table.drop_columns([chance.choice(table.column_names)])
            case 2:
                table = pa.concat_tables([table, table.slice(0, 5)])
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(meta), sink, compression="zstd")
    target.write_bytes(sink.getvalue())


def trace(here: Path, chance: Random, goods: Goods) -> list[str]:
    """A damaged trace, drawn as a ladder: no Spark is needed for it."""
    bent_trace(here, "t.parquet", goods, chance)
    return [
        "ladder",
        "t.parquet",
        *([chance.choice((*UIDS, "--list", "relay", "relay:1:1:0:0"))] if chance.random() < 0.5 else []),
    ]


def audited(here: Path, chance: Random, goods: Goods) -> list[str]:
    """A damaged trace in the commands that ask Spark."""
    bent_trace(here, "t.parquet", goods, chance)
    roll = chance.random()
    if roll < 0.7:
        return ["report", "t.parquet", "-o", "r.html"]
    shutil.copyfile(goods.trace, here / "good.parquet")
    if roll < 0.85:
        return ["report", "good.parquet", "--against", "t.parquet", "-o", "r.html"]
    pair = ["good.parquet", "t.parquet"]
    chance.shuffle(pair)
    return ["compare", *pair, *chance.choice(([], ["--rows"]))]


def swept(here: Path, chance: Random, goods: Goods) -> list[str]:
    """The directory of a sweep with damaged tables."""
    shutil.copytree(goods.sweep, here / "s")
    for _ in range(chance.choice((1, 1, 2, 4))):
        files = sorted(file for file in (here / "s").rglob("*") if file.is_file())
        if not files:
            break
        victim = chance.choice(files)
        match chance.randrange(7):
            case 0:
                victim.unlink()
            case 1 | 2:
                victim.write_bytes(bent_bytes(victim.read_bytes(), chance, end=True))
            case 3 if victim.suffix == ".parquet":
                table = _table(victim, goods, here)
                pq.write_table(table.slice(0, chance.choice((0, 0, 1))), victim)
            case 4 if victim.suffix == ".parquet":
                table = _table(victim, goods, here)
                number = chance.randrange(table.num_columns)
                field = table.field(number)
                values: list[Any] = [
                    chance.choice((None, "x", "", 1, -1, 2.5, float("nan"))) for _ in range(table.num_rows)
                ]
                try:
                    column = pa.array(values, field.type, from_pandas=False)
                except (pa.ArrowException, TypeError, ValueError):
                    column = pa.nulls(table.num_rows, field.type)
                pq.write_table(table.set_column(number, pa.field(field.name, field.type), column), victim)
            case 5:
                (here / "s" / "sweep.toml").write_bytes(bent_text(chance.choice((SWEEP, RANDOM)), chance))
            case _:
                victim.write_bytes(chance.choice(files).read_bytes())
    return ["report", "s", *chance.choice(([], [], ["--figures", "f"], ["-o", "r.html"]))]


def _table(file: Path, goods: Goods, here: Path) -> pa.Table:
    """What a file of a bent sweep held before."""
    return pq.read_table(goods.sweep / file.relative_to(here / "s"))


def lines(here: Path, chance: Random) -> list[str]:
    """A command line of options and values that may not fit."""
    (here / "good.toml").write_text("[topology]\nkind = 'wire'\n[run]\ncycles = 50\n[workload]\ncount = 2\n")
    (here / "dir").mkdir()
    words = (
        "good.toml", "good.toml", "good.toml", "dir", "none.toml", "-", "--", "", "-1", "0", "3",
        "99999999999999999999", "1e9",
        "x", "new\nline", "not-utf8-\udcff", "\0", "a" * 10_000, "--help", "--version", "-h", "１", "ü", "--seed",
        "--cycles", "--trace",
        "--vcd", "--output", "-o", "--figures", "--against", "--block", "--router", "--waivers", "--links",
        "--no-audit", "--board",
        "--json", "--topology", "mesh", "--workload", "kernel", "--force", "--rows", "--simulator", "icarus",
        "--whole", "--seed=-1",
        "--cycles=0", "--cycles=5", "--router=9", "--trace=dir", "--trace=", "--se", "--tr=x.parquet", "ulx3s_25f",
        "boards", "@x",
    )  # fmt: skip
    # What would start Spark, a simulator or a build is for other families.
    command = chance.choice((*sorted(set(COMMANDS) - {"cosim", "sweep"}), *("cosim", "sweep", "frobnicate", "", "--")))
    arguments = [chance.choice(words) for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 5, 9)))]
    if command == "run":
        arguments += ["--no-audit"]
    if command in ("cosim", "sweep", "fpga"):
        # Without the one file that is good.
        arguments = [word if word != "good.toml" else "none.toml" for word in arguments]
    return [command, *arguments]


def names(here: Path, chance: Random) -> list[str]:
    """Files with names that nobody expects, as inputs and as outputs."""

    def name() -> str:
        return chance.choice(NAMES)

    source, target = name(), name()
    text = b"[topology]\nkind = 'wire'\n[run]\ncycles = 50\n[workload]\ncount = 2\n"
    (here / "plain.toml").write_bytes(text)
    (here / "dir").mkdir()
    for file in (source, target):
        if file and "/" not in file and "\0" not in file and file not in (".", "..", "dir") and chance.random() < 0.7:
            try:
                (here / file).write_bytes(text)
            except OSError:
                continue
    if source == "/dev/stdin":
        source = "plain.toml"
    return chance.choice(
        (
            ["check", source],
            ["run", source, "--no-audit", "--trace", "t.parquet"],
            ["run", "plain.toml", "--no-audit", "--trace", target],
            ["run", "plain.toml", "--no-audit", "--trace", "t.parquet", "--vcd", target],
            ["run", source, "--no-audit"],
            ["ladder", source],
            ["compare", source, target],
            ["report", source],
            ["report", source, "-o", target],
            ["new", target, *chance.choice(([], ["--force"]))],
            ["sweep", source, "-o", target, "--no-report"],
            ["verilog", source, "--block", "ni", "-o", target],
        )
    )


#: Families that need nothing but their directory, and those that need `Goods`.
PLAIN: dict[str, Family] = {f.__name__: f for f in (toml, sweep, csv, parquet, capture, lines, names)}
OF_GOODS: dict[str, Callable[[Path, Random, Goods], list[str]]] = {f.__name__: f for f in (trace, swept, audited)}

"""What a sweep is to run: a base configuration, axes over its keys, replicas by seed.

Every error is a `SweepError`, ``file: key: what is wrong; cure``, raised before anything runs.
"""

import dataclasses
import difflib
import hashlib
import itertools
import json
import math
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lethe.spec.config import ConfigError, System, toml_tables, toml_text
from lethe.spec.sections import SECTIONS

DESIGNS = ("grid", "random")
#: A sweep of more runs than this is taken for a slip.
MOST_RUNS = 1_000_000
_NAME_DIGITS = 16
_SEED = "run.seed"
#: Stands for the seed while the digests of replicas are made.  No key has a control character.
_MARK = "\0seed"


class SweepError(ValueError):
    """A sweep that cannot be run as it is written.  The message is ``file: key: what is wrong; cure``."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """Values from ``low`` to ``high``: ``steps`` of them in a grid, anything between in a random design."""

    low: float
    high: float
    steps: int = 0
    logarithmic: bool = False
    whole: bool = False

    def values(self) -> list[int | float]:
        """The steps, ends included, without repetitions."""
        if self.steps == 1:
            return [self._as(self.low)]
        shares = [step / (self.steps - 1) for step in range(self.steps)]
        return list(dict.fromkeys(self.at(share) for share in shares))

    def at(self, share: float) -> int | float:
        """The value at ``share`` of the way, 0 … 1."""
        if self.logarithmic:
            # Three digits, so that the steps can be written down.
            value = float(f"{self.low * (self.high / self.low) ** share:.3g}") if 0 < share < 1 else self.low
            value = self.high if share >= 1 else value
        else:
            value = self.low + (self.high - self.low) * share
        return self._as(min(max(value, self.low), self.high))

    def _as(self, value: float) -> int | float:
        # Twelve digits, so that 0.1 is 0.1.
        return round(value) if self.whole else float(f"{value:.12g}")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A value of an axis with a name of its own: keys of any sections, set together."""

    name: str
    tables: Mapping[str, Mapping[str, Any]]

    def items(self) -> Iterator[tuple[str, Any]]:
        """``("ni.slots", 4)`` and so on."""
        for section, table in self.tables.items():
            for key, value in table.items():
                yield f"{section}.{key}", value

    @property
    def number(self) -> float | None:
        """What the name begins with, if that is a number (``16 nodes``)."""
        try:
            return float(self.name.split()[0])
        except (ValueError, IndexError):
            return None


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A key (``ni.slots``), a whole table (``topology``, whose values are tables) or a name, and what it takes."""

    key: str
    values: tuple[Any, ...] | Range

    def drawn(self, chance: np.random.Generator) -> Any:
        """One value at random."""
        share = float(chance.random())
        if isinstance(self.values, Range):
            return self.values.at(share)
        return self.values[min(int(share * len(self.values)), len(self.values) - 1)]

    def steps(self) -> tuple[Any, ...]:
        """All values of a grid."""
        return tuple(self.values.values()) if isinstance(self.values, Range) else self.values


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What is measured of each run: see `metrics.RunLedger`."""

    warmup: int = 0
    window: int = 0


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of the golden model.

    Attributes
    ----------
    name : what its results are filed under: a digest of the configuration and of all that they depend on
    point : number of its point, among those of the sweep
    replica : 0 … replicas − 1
    settings : value of each axis
    system : the configuration; its ``run.name`` is ``name``
    """

    name: str
    point: int
    replica: int
    settings: Mapping[str, Any]
    system: System

    def cost(self, measure: Measure) -> float:
        """How long it may take, in node-cycles: a guess, only good for an order."""
        load, cycles = self.system.workload, float(self.system.run.cycles)
        if measure.window:
            cycles = min(cycles, measure.warmup + measure.window)
        if load.kind == "generator" and load.count:
            flits = self.system.format.payload_flits(load.max_length)
            cycles = min(cycles, load.count * flits / min(load.load, 0.1))
        return self.system.nodes * cycles


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """A sweep as its TOML says; `load` makes one.

    Attributes
    ----------
    name, source, text : its name, its file and what that says
    base : tables of the configuration that is varied; ``base_source`` is where relative paths start from
    axes : what is varied
    design, samples, seed : every combination (``grid``), or that many points drawn at random (``random``)
    replicas : runs of each point, with seeds ``run.seed`` of the base, and the following
    measure, events : what is kept of each run
    """

    name: str
    source: str
    text: str
    base: dict
    base_source: str
    axes: tuple[Axis, ...]
    design: str = "grid"
    samples: int = 0
    seed: int = 1
    replicas: int = 1
    measure: Measure = field(default_factory=Measure)
    events: bool = False

    def points(self) -> Iterator[dict[str, Any]]:
        """The value of each axis, point by point."""
        keys = [axis.key for axis in self.axes]
        if self.design == "grid":
            for values in itertools.product(*(axis.steps() for axis in self.axes)):
                yield dict(zip(keys, values, strict=True))
        else:
            for sample in range(self.samples):
                # More samples, or another axis behind the others, leave the earlier draws as they are.
                chance = np.random.default_rng([self.seed, sample])
                yield {axis.key: axis.drawn(chance) for axis in self.axes}

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """Every run, its configuration checked; raises `SweepError` naming the point and the key."""
        return self.planned(lambda runs: None)

    def planned(self, say: Callable[[int], None]) -> tuple[Run, ...]:
        """The same; ``say`` is called with the number of runs so far, after each point and each thousand."""
        found: dict[str, Run] = {}
        for point, settings in enumerate(self.points()):
            say(len(found))
            try:
                system = System.make(source=self.base_source, **_set(self.base, settings))
                if system.run.cycles < (measured := self.measure.warmup + self.measure.window):
                    raise ConfigError(
                        f"run.cycles: {system.run.cycles:,} end before warmup and window do; raise it beyond "
                        f"{measured:,}"
                    )
                # Replicas differ in their seeds only, of which the last is the greatest.
                system.replace(run={"seed": system.run.seed + self.replicas - 1})
                for replica, name in enumerate(run_names(system, self.measure, self.replicas)):
                    if replica % 1000 == 999:
                        say(len(found))
                    seeded = system.numbered(seed=system.run.seed + replica, name=name)
                    # Two points may be one: a whole-number axis with close steps, a random draw from a short list.
                    found.setdefault(
                        name, Run(name=name, point=point, replica=replica, settings=settings, system=seeded)
                    )
            except ConfigError as error:
                at = ", ".join(f"{key} = {told(value)}" for key, value in settings.items()) or "the base"
                what = str(error).removeprefix(f"{self.base_source}: ")
                raise SweepError(f"{self.source}: point {at}: {what}") from None
        return tuple(found.values())


def told(value: Any) -> str:
    """A value of an axis, as a label."""
    if isinstance(value, Choice):
        return value.name
    if isinstance(value, dict):
        return ", ".join(told(part) for part in value.values())
    if isinstance(value, str):
        return value
    return f"{value:g}" if isinstance(value, float) else json.dumps(value)


def _set(base: dict, settings: Mapping[str, Any]) -> dict:
    """The base's tables with the keys of ``settings`` set."""
    tables = {name: dict(table) if isinstance(table, dict) else table for name, table in base.items()}
    flat = ((key, v) for axis, value in settings.items() for key, v in _keys(axis, value))
    for key, value in flat:
        section, _, key = key.partition(".")
        if isinstance(table := tables.setdefault(section, {}), dict):
            table.update({key: value} if key else value)
    return tables


def _keys(axis: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What a value of an axis sets: keys, or a whole table."""
    if isinstance(value, Choice):
        yield from value.items()
    else:
        yield axis, value


def configuration(system: System) -> dict[str, Any]:
    """Every key of a system with its value, defaults and all: ``{"ni.slots": 16, …}``."""
    return {
        f"{name}.{key}": value for name in SECTIONS for key, value in dataclasses.asdict(getattr(system, name)).items()
    }


def run_name(system: System, measure: Measure) -> str:
    """The name of a run: what has the same name has the same results.

    It is a digest of every key (but ``run.name``), of the file that the workload reads, of what is measured, and of
    the sources of the model.
    """
    return next(run_names(system, measure, 1))


def run_names(system: System, measure: Measure, replicas: int) -> Iterator[str]:
    """The names of runs with ``run.seed`` of a system and the following."""
    keys = configuration(system)
    keys.pop("run.name")
    keys["run.seed"] = _MARK
    if system.workload.path:
        path = Path(system.source).parent / system.workload.path
        keys["workload.path"] = _file_digest(path, path.stat().st_mtime_ns) if path.is_file() else str(path)
    text = json.dumps([keys, dataclasses.asdict(measure), model_digest()], sort_keys=True, default=str)
    head, _, tail = text.partition(json.dumps(_MARK))
    for seed in range(system.run.seed, system.run.seed + replicas):
        yield hashlib.sha256(f"{head}{seed}{tail}".encode()).hexdigest()[:_NAME_DIGITS]


@cache
def _file_digest(path: Path, _changed: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def model_digest() -> str:
    """A digest of the sources that results depend on: specification, model, workloads and metrics."""
    import lethe.spec

    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for folder in (Path(lethe.spec.__path__[0]), package / "golden", package / "workloads", package / "metrics"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


# Reading the TOML.


def load(path: str | Path) -> Sweep:
    """The sweep that a TOML file describes; raises `SweepError`."""
    path = Path(path)
    text = _text(path, "write one as in docs/start/tutorial.md")
    reader = _Reader(str(path), _tables(path, text))
    base, base_source = _base(path, reader.take("base", (str, dict), {}))
    design = reader.take("design", (str,), "grid")
    if design not in DESIGNS:
        reader.fail("design", f"must be {' or '.join(DESIGNS)}, not {design!r}", "change the value")
    samples = reader.whole("samples", 0, least=0)
    if design == "random" and not samples:
        reader.fail("samples", "is missing", "say how many points to draw")
    if design == "grid" and samples:
        reader.fail("samples", "has no meaning in a grid", 'set design = "random", or leave it out')
    sweep = Sweep(
        name=reader.take("name", (str,), path.stem),
        source=str(path),
        text=text,
        base=base,
        base_source=base_source,
        axes=tuple(_axes(reader, reader.take("axes", (dict,), {}), design)),
        design=design,
        samples=samples,
        seed=reader.whole("seed", 1, least=0),
        replicas=reader.whole("replicas", 1, least=1),
        measure=Measure(warmup=reader.whole("warmup", 0, least=0), window=reader.whole("window", 0, least=0)),
        events=reader.take("events", (bool,), False),
    )
    reader.end()
    _check(sweep, reader)
    return sweep


def _text(path: Path, cure: str) -> str:
    try:
        return toml_text(path)
    except FileNotFoundError:
        raise SweepError(f"{path}: no such file; {cure}") from None
    except IsADirectoryError:
        raise SweepError(f"{path}: is a directory; name the TOML file of a sweep") from None
    except UnicodeDecodeError as error:
        raise SweepError(f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise SweepError(f"{path}: cannot be read: {error.strerror}; check its permissions") from None
    except ValueError as error:
        raise SweepError(f"{path}: {error}; name the TOML file of a sweep") from None


def _tables(path: Path, text: str) -> dict:
    try:
        return toml_tables(text)
    except (ValueError, RecursionError) as error:
        raise SweepError(f"{path}: is not TOML: {error}; mend that line") from None


class _Reader:
    """The top table of a sweep, key by key; what is left over was a mistake."""

    def __init__(self, source: str, tables: dict):
        self.source, self.tables, self.known = source, tables, []

    def fail(self, key: str, what: str, cure: str):
        raise SweepError(f"{self.source}: {key}: {what}; {cure}")

    def take(self, key: str, kinds: tuple[type, ...], default: Any) -> Any:
        self.known.append(key)
        value = self.tables.pop(key, default)
        if type(value) not in kinds:
            names = {str: "a text in quotes", dict: "a table", bool: "true or false", int: "a whole number"}
            self.fail(key, f"must be {' or '.join(names[kind] for kind in kinds)}, not {value!r}", "change the value")
        return value

    def whole(self, key: str, default: int, *, least: int) -> int:
        value = self.take(key, (int,), default)
        if not least <= value < 1 << 62:
            self.fail(key, f"must be {least} or more, not {value}", "change the value")
        return value

    def end(self) -> None:
        for key in self.tables:
            section = " (a key of the configuration goes under [base] or [axes])" if key in SECTIONS else ""
            self.fail(key, f"no such key{section}", _nearest(key, self.known))


def _nearest(name: str, known) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"


def _base(path: Path, base: str | dict) -> tuple[dict, str]:
    """The base's tables, and the file that its relative paths start from."""
    if isinstance(base, dict):
        return base, str(path.resolve())
    source = path.parent / base
    if not source.exists():
        raise SweepError(f"{path}: base: no such file {source}; the path is relative to the sweep")
    return _tables(source, _text(source, "")), str(source.resolve())


def _axes(reader: _Reader, tables: dict, design: str) -> Iterator[Axis]:
    for section, value in tables.items():
        name, _, key = section.partition(".")
        if section not in SECTIONS and isinstance(value, dict) and _are_choices(value):
            yield Axis(key=section, values=tuple(_choices(reader, section, value)))
            continue
        if name not in SECTIONS:
            reader.fail(f"axes.{section}", "no such section", _nearest(name, SECTIONS))
        if key or isinstance(value, list):
            yield _axis(reader, section, value, design)
        elif isinstance(value, dict):
            # [axes.ni], or an unquoted ni.slots = [...]
            for inner, values in value.items():
                yield _axis(reader, f"{section}.{inner}", values, design)
        else:
            reader.fail(f"axes.{section}", f"must be a list of tables, not {value!r}", "list the values")


def _are_choices(tables: dict) -> bool:
    """Whether these are tables of sections, by their names."""
    return bool(tables) and all(
        isinstance(choice, dict) and all(isinstance(table, dict) for table in choice.values())
        for choice in tables.values()
    )


def _choices(reader: _Reader, axis: str, tables: dict) -> Iterator[Choice]:
    for name, choice in tables.items():
        for section in choice:
            if section not in SECTIONS:
                reader.fail(f"axes.{axis}.{name}.{section}", "no such section", _nearest(section, SECTIONS))
        yield Choice(name=name, tables=choice)


def _axis(reader: _Reader, axis: str, value: Any, design: str) -> Axis:
    section, _, key = axis.partition(".")
    where = f"axes.{axis}"
    fields = {f.name: f for f in dataclasses.fields(SECTIONS[section])}
    if key and key not in fields:
        reader.fail(where, "no such key", _nearest(key, fields))
    if isinstance(value, dict) and key:
        return Axis(key=axis, values=_range(reader, where, value, fields[key].type, design))
    if not isinstance(value, list) or not value:
        reader.fail(where, f"must be a list of values, not {value!r}", "list them, or give { from, to, steps }")
    if not key and not all(isinstance(table, dict) for table in value):
        reader.fail(where, "is a whole table, so its values must be tables", "write { key = value, … } for each")
    kind = fields[key].type if key else dict
    values = [float(v) if kind is float and type(v) is int else v for v in value]
    if isinstance(kind, types.GenericAlias) and not all(isinstance(v, list) for v in values):
        reader.fail(where, "is a list of tables, so its values must be lists", "write [[], [{ … }]]")
    if len({json.dumps(v, sort_keys=True, default=str) for v in values}) < len(values):
        reader.fail(where, "has a value twice", "leave one out; `replicas` repeats a point with other seeds")
    return Axis(key=axis, values=tuple(values))


def _range(reader: _Reader, where: str, table: dict, kind: Any, design: str) -> Range:
    if kind not in (int, float):
        reader.fail(where, "is no number, so it has no range", "list its values")
    known = ("from", "to", "steps", "scale")
    for name in table:
        if name not in known:
            reader.fail(f"{where}.{name}", "no such key", _nearest(name, known))
    for name in known[:2] + (known[2:3] if design == "grid" else ()):
        if name not in table:
            reader.fail(f"{where}.{name}", "is missing", "a range is { from, to, steps }")
        if type(table[name]) not in (int, float) or not math.isfinite(table[name]):
            reader.fail(f"{where}.{name}", f"must be a number, not {table[name]!r}", "change the value")
    steps, scale = table.get("steps", 0), table.get("scale", "linear")
    if type(steps) is not int or (design == "grid" and not 1 <= steps <= MOST_RUNS):
        reader.fail(f"{where}.steps", f"must be a whole number from 1 on, not {steps!r}", "change the value")
    if scale not in ("linear", "log"):
        reader.fail(f"{where}.scale", f"must be linear or log, not {scale!r}", "change the value")
    if table["from"] > table["to"]:
        reader.fail(where, "ends below its beginning", "swap from and to")
    if scale == "log" and table["from"] <= 0:
        reader.fail(f"{where}.from", "must be above 0 on a logarithmic scale", "raise it")
    return Range(low=table["from"], high=table["to"], steps=steps, logarithmic=scale == "log", whole=kind is int)


def _varied(axis: Axis) -> dict[str, None]:
    """What an axis sets, each key once."""
    if isinstance(axis.values, Range):
        return {axis.key: None}
    return {key: None for value in axis.values for key, _ in _keys(axis.key, value)}


def _check(sweep: Sweep, reader: _Reader) -> None:
    keys = [key for axis in sweep.axes for key in _varied(axis)]
    if sweep.replicas > 1 and (_SEED in keys or "run" in keys):
        reader.fail("replicas", f"are runs with other seeds, but {_SEED} is an axis", "leave one of the two out")
    if "run.name" in keys:
        reader.fail("axes.run.name", "is set by the sweep", "leave it out")
    for key in keys:
        if keys.count(key) > 1 or ("." in key and key.split(".")[0] in keys):
            reader.fail(f"axes.{key}", "is varied twice", "leave one out")
    points = sweep.samples
    if sweep.design == "grid":
        points = math.prod(len(axis.steps()) for axis in sweep.axes)
    if points * sweep.replicas > MOST_RUNS:
        reader.fail("axes", f"come to {points * sweep.replicas:,} runs", f"stay within {MOST_RUNS:,}")
    if sweep.measure.warmup and not sweep.measure.window:
        reader.fail("warmup", "needs a window", "set window to the cycles to measure after the warm-up")

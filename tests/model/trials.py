"""What the models share beside their search: rules taken away, and the tables of their pages."""

import argparse
import dataclasses
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers.tiers import but
from tests.model.graph import Result, System, Violation, explore

#: What is searched with every push: systems of so few states, and trials that break after so few steps.  Only the files
#: of this directory can change what a search finds.
FEW, SHORT = 10_000, 8


class Trial(NamedTuple):
    """One rule taken away.

    Attributes
    ----------
    rule : its number
    how : what is done instead
    without : names of `Setting.without`
    setting : the system
    broken : property that is violated first, "" if none is
    steps : fewest steps to the violation
    reason : why nothing breaks, or what else is to be said
    """

    rule: str
    how: str
    without: tuple[str, ...]
    setting: Any
    broken: str = ""
    steps: int = 0
    reason: str = ""

    @property
    def name(self) -> str:
        return " and ".join(self.without)

    @property
    def changed(self) -> Any:
        return dataclasses.replace(self.setting, without=frozenset(self.without))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A model and its page.

    Attributes
    ----------
    name : what is modelled
    page : where its tables are
    quick, full : name → (setting, states, moves) of the systems that `scripts/model` searches, and of the large ones
    trials : a rule taken away in each
    shown : whether the page shows a trial's counter-example
    system : of a setting
    ladder : a path and its violation, as people read them
    """

    name: str
    page: Path
    quick: dict[str, tuple[Any, int, int]]
    full: dict[str, tuple[Any, int, int]]
    trials: tuple[Trial, ...]
    shown: Callable[[Trial], bool]
    system: Callable[[Any], System]
    ladder: Callable[[list, Violation | None, Any], str]

    def search(self, setting: Any, *, progress: bool = True, limit: int = 5_000_000) -> Result:
        """Every state of a system; with ``progress`` every goal is then looked at.  Nothing is searched twice."""
        return _searched(self.system, setting, progress, limit)

    def systems(self) -> str:
        """Every system that is searched, with its states."""
        lines = ["| system | states | steps | searched |", "| --- | ---: | ---: | --- |"]
        few = self.few()
        for name, (_, states, moves) in (self.quick | self.full).items():
            when = "always" if name in few else "with `--full`"
            lines.append(f"| {name} | {states:,} | {moves:,} | {when} |")
        return "\n".join(lines) + "\n"

    def rules(self) -> str:
        """Every rule, and what becomes of a system without it."""
        lines = ["| rule | instead | breaks | fewest steps | why |", "| --- | --- | --- | ---: | --- |"]
        for trial in self.trials:
            steps = str(trial.steps) if trial.broken else "–"
            lines.append(f"| {trial.rule} | {trial.how} | {trial.broken or 'nothing'} | {steps} | {trial.reason} |")
        return "\n".join(lines) + "\n"

    def examples(self) -> str:
        """The counter-examples that the page shows."""
        shown = [trial for trial in self.trials if trial.broken and self.shown(trial)]
        return "\n".join(f"{trial.rule}: {trial.how}\n\n```text\n{self.found(trial)}\n```\n" for trial in shown)

    def found(self, trial: Trial) -> str:
        """The counter-example of a trial as a ladder."""
        result = self.search(trial.changed)
        return self.ladder(result.path, result.violation, trial.changed)

    def refreshed(self, text: str) -> str:
        """The page with its tables as they should be."""
        for name in ("systems", "rules", "examples"):
            region = re.compile(rf"(<!-- model: {name} -->\n).*?(<!-- end: {name} -->)", re.DOTALL)
            made = getattr(self, name)()
            text, count = region.subn(lambda found, made=made: f"{found[1]}\n{made}\n{found[2]}", text)
            if count != 1:
                raise ValueError(f"{self.page.name}: no place for the table {name}")
        return text

    def holds(self, name: str) -> None:
        """Assert that nothing breaks in a system, and that it has the states and moves of the page."""
        setting, states, moves = (self.quick | self.full)[name]
        result = self.search(setting)
        print(f"\n{name}: {result.states:,} states, {result.moves:,} steps, {result.seconds:.1f} s")
        assert result.violation is None, "\n" + self.ladder(result.path, result.violation, setting)
        assert (result.states, result.moves) == (states, moves), f"the table of {self.page.name} is stale"

    def breaks(self, trial: Trial) -> None:
        """Assert that a trial breaks what the page says, in as many steps; else everything was searched, and why."""
        result = self.search(trial.changed)
        shown = self.ladder(result.path, result.violation, trial.changed)
        print(f"\nwithout {trial.rule}, {trial.how}: {result.states:,} states, {result.seconds:.1f} s\n{shown}")
        broken = result.violation.broken if result.violation else ""
        assert (broken, len(result.path)) == (trial.broken, trial.steps), shown
        assert trial.broken or trial.reason, "it must be said why nothing breaks"

    def every_property_breaks(self, *others: str) -> None:
        """Assert that each property of the page breaks in a trial, or in another test if it is one of ``others``."""
        named = set(re.findall(r"^\| ([SL]\d+) \|", self.page.read_text(encoding="utf-8"), re.MULTILINE))
        assert named - set(others) == {trial.broken for trial in self.trials if trial.broken}

    def is_fresh(self) -> None:
        """Assert that the page has the tables of today."""
        text = self.page.read_text(encoding="utf-8")
        assert self.refreshed(text) == text, f"{self.page.name} is stale; python -m tests.model.…_table writes it"

    def few(self) -> list[str]:
        """The quick systems that are searched with every push."""
        return [name for name, (_, states, _) in self.quick.items() if states <= FEW]

    def tried(self) -> list[Any]:
        """The trials as parameters of a test; those that break late, or not at all, are long."""
        short = [(trial,) for trial in self.trials if trial.broken and trial.steps <= SHORT]
        return but(short, [(trial,) for trial in self.trials])

    def others(self) -> list:
        """The systems that break without a rule and are not in `quick`, each once, in the order of the trials."""
        searched = {setting for setting, _, _ in self.quick.values()}
        return [s for s in dict.fromkeys(trial.setting for trial in self.trials if trial.broken) if s not in searched]

    def run(self, full: bool) -> None:
        """Search everything, and print it."""
        print(f"## {self.name}\n")
        for name, (setting, _, _) in (self.quick | (self.full if full else {})).items():
            result = self.search(setting)
            what = result.violation.text if result.violation else "holds"
            print(
                f"{name}: {result.states:,} states, {result.moves:,} steps, {result.seconds:.1f} s: {what}", flush=True
            )
        for trial in self.trials:
            result = self.search(trial.changed)
            what = f"{result.violation.text} in {len(result.path)} steps" if result.violation else "nothing breaks"
            print(f"\nwithout {trial.rule}, {trial.how}: {what} ({result.states:,} states, {result.seconds:.1f} s)")
            if result.violation:
                print(self.ladder(result.path, result.violation, trial.changed), flush=True)

    def main(self) -> None:
        """Write the page's tables, or print a search of everything."""
        parser = argparse.ArgumentParser(
            description=f"The model of {self.name}: its tables, or a search of everything."
        )
        parser.add_argument("--run", action="store_true", help="search and print; write nothing")
        parser.add_argument("--full", action="store_true", help="with --run: the large systems too")
        chosen = parser.parse_args()
        if chosen.run:
            self.run(chosen.full)
        else:
            self.page.write_text(self.refreshed(self.page.read_text(encoding="utf-8")), encoding="utf-8")


@cache
def _searched(system: Callable[[Any], System], setting: Any, progress: bool, limit: int) -> Result:
    return explore(system(setting), progress=progress, limit=limit)

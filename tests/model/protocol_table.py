"""The tables of `docs/design/model.md`: ``python -m tests.model.protocol_table`` writes them.

With ``--run`` it prints a search of every system, and every counter-example, instead.
"""

import argparse
import re

from tests.helpers import ROOT
from tests.model.protocol_ladder import ladder
from tests.model.protocol_search import search
from tests.model.protocol_settings import FULL, QUICK, TRIALS, Trial

PAGE = ROOT / "docs" / "design" / "model.md"


def systems() -> str:
    """Every system that is searched, with its states."""
    lines = ["| system | states | moves | searched |", "| --- | ---: | ---: | --- |"]
    for when, settings in (("always", QUICK), ("with `--full`", FULL)):
        lines += [f"| {name} | {states:,} | {moves:,} | {when} |" for name, (_, states, moves) in settings.items()]
    return "\n".join(lines) + "\n"


def rules() -> str:
    """Every rule, and what becomes of a system without it."""
    lines = ["| rule | instead | breaks | fewest steps | why |", "| --- | --- | --- | ---: | --- |"]
    for trial in TRIALS:
        steps = str(trial.steps) if trial.broken else "–"
        lines.append(f"| {trial.rule} | {trial.how} | {trial.broken or 'nothing'} | {steps} | {trial.reason} |")
    return "\n".join(lines) + "\n"


def examples() -> str:
    """The counter-examples that the page shows."""
    shown = [trial for trial in TRIALS if trial.rule in ("R22", "R27", "E1") or trial.broken == "S7"]
    return "\n".join(f"{trial.rule}: {trial.how}\n\n```text\n{found(trial)}\n```\n" for trial in shown)


def found(trial: Trial) -> str:
    """The counter-example of a trial as a ladder."""
    result = search(trial.changed)
    return ladder(result.path, result.violation, trial.changed)


REGIONS = {"systems": systems, "rules": rules, "examples": examples}


def refreshed(text: str) -> str:
    """The page with its tables as they should be."""
    for name, make in REGIONS.items():
        region = re.compile(rf"(<!-- model: {name} -->\n).*?(<!-- end: {name} -->)", re.DOTALL)
        text, count = region.subn(lambda found, made=make: f"{found[1]}\n{made()}\n{found[2]}", text)
        if count != 1:
            raise ValueError(f"{PAGE.name}: no place for the table {name}")
    return text


def run(full: bool) -> None:
    """Search everything, and print it."""
    for name, (setting, _, _) in (QUICK | (FULL if full else {})).items():
        result = search(setting)
        what = result.violation.text if result.violation else "holds"
        print(f"{name}: {result.states:,} states, {result.moves:,} moves, {result.seconds:.1f} s: {what}", flush=True)
    for trial in TRIALS:
        result = search(trial.changed)
        what = f"{result.violation.text} in {len(result.path)} steps" if result.violation else "nothing breaks"
        print(f"\nwithout {trial.rule}, {trial.how}: {what} ({result.states:,} states, {result.seconds:.1f} s)")
        if result.violation:
            print(ladder(result.path, result.violation, trial.changed), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="The model of the protocol: its tables, or a search of everything.")
    parser.add_argument("--run", action="store_true", help="search and print; write nothing")
    parser.add_argument("--full", action="store_true", help="with --run: the large systems too")
    chosen = parser.parse_args()
    if chosen.run:
        run(chosen.full)
    else:
        PAGE.write_text(refreshed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

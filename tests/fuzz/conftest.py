"""Counts of what was tried, at the end of a long run."""

from collections import Counter

from tests.fuzz.fuzzing_oracle import SORTS


def pytest_terminal_summary(terminalreporter):
    tried, sorts = Counter(), Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()) if getattr(report, "when", "") == "call" else ():
                if name == "tried":
                    tried[value[0]] += 1
                    sorts.update(fault.partition(":")[0] for fault in value[1])
    if not tried:
        return
    terminalreporter.section("fuzzing")
    apart = tried.pop("interrupts", 0)
    for what, number in tried.items():
        terminalreporter.line(f"{number:7,} {what}")
    terminalreporter.line(f"{tried.total():7,} inputs and {apart:,} interrupts:")
    for sort in SORTS:
        terminalreporter.line(f"{sorts[sort]:7,} {sort}")

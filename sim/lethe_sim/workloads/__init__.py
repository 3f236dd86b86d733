"""What hosts send when it is not the hardware generator's traffic, and whether it came out right."""

from pathlib import Path

from lethe.spec.config import System

from .workload import Play, Verdict, Workload, WorkloadError, judge

__all__ = ["Play", "Verdict", "Workload", "WorkloadError", "anchored", "build", "input_path", "judge"]

#: Kinds that read the file ``workload.path``.
READING = ("file", "capture", "trace")


def build(system: System) -> Workload | None:
    """The workload of a configuration, its input read and checked; None for the hardware generator.

    Raises `WorkloadError`.
    """
    # Each kind brings libraries that the others do without.
    match system.workload.kind:
        case "generator":
            return None
        case "file":
            from .file import FileWorkload as Kind
        case "pattern":
            from .pattern import PatternWorkload as Kind
        case "trace":
            from .trace import TraceWorkload as Kind
        case "capture":
            from .capture import CaptureWorkload as Kind
        case _:
            from .kernel import KernelWorkload as Kind
    return Kind(system)


def input_path(system: System) -> Path | None:
    """The file that the workload of a configuration reads, if it reads one."""
    if system.workload.kind not in READING or not system.workload.path:
        return None
    return Path(system.source).parent / system.workload.path


def anchored(system: System) -> System:
    """The same system for a process in another directory: ``workload.path`` from the root."""
    if not system.workload.path:
        return system
    path = (Path(system.source).parent / system.workload.path).resolve()
    return system.replace(workload={"path": str(path)})

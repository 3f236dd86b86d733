"""The `lethe` command: one word per job.

Exit codes, for scripts: 0 good; 1 the verdict is bad (a datagram lost or doubled, two sides that differ, a
run that did not finish, a design too slow or too large for its board); 2 a mistake in what was asked for; 3 the
machine lacks something (Java, a compiler, room on the disk); 130 interrupted; 141 whoever read the output went away.
"""

import argparse
import importlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NoReturn, TextIO

import lethe

GOOD, BAD, MISTAKE, ENVIRONMENT, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141

#: Seconds after which an interrupt comes again, if the command has not ended.
AGAIN = 10.0

#: Characters of the longest message.
_LONGEST = 2000

#: Each is a module of `lethe_sim.commands` with EXAMPLES, add_arguments(parser) and run(args) -> exit code.
COMMANDS = {
    "new": "write a commented configuration",
    "check": "check a configuration; print its sizes, time-outs and promises",
    "run": "run the golden model, write its trace, audit it",
    "sweep": "run the golden model at many points, on Spark",
    "cosim": "run the RTL and the golden model in lockstep",
    "compare": "find the first difference of two traces",
    "report": "make a web page of a trace or a sweep",
    "ladder": "draw a message ladder: the life of one datagram",
    "rds": "sockets as RDS has them: ping, stress, info, serve",
    "verilog": "write a system, a network interface or a router as Verilog",
    "fpga": "build a self-testing bitstream for a board",
}

#: What may be raised on purpose: (module, class) and the exit code.  By name, so that nothing is imported for it.
ERRORS = {
    ("lethe.spec.config", "ConfigError"): MISTAKE,
    ("lethe_sim.commands.common", "Mistake"): MISTAKE,
    ("lethe_sim.workloads.workload", "WorkloadError"): MISTAKE,
    ("lethe_sim.golden.script", "GoldenError"): MISTAKE,
    ("lethe_sim.trace.meta", "TraceError"): MISTAKE,
    ("lethe_sim.files", "WriteError"): ENVIRONMENT,
    ("lethe_sim.sweep.plan", "SweepError"): MISTAKE,
    ("lethe_sim.sweep.store", "StoreError"): MISTAKE,
    ("lethe_sim.sweep.jobs", "SweepFailed"): ENVIRONMENT,
    ("lethe_sim.pipeline.session", "PipelineError"): ENVIRONMENT,
    ("lethe_sim.lockstep.simulators", "ToolError"): ENVIRONMENT,
    ("lethe_sim.lockstep.divergence", "DivergenceError"): BAD,
    ("lethe.verilog", "VerilogError"): ENVIRONMENT,
    ("lethe_fpga.boards", "BoardError"): MISTAKE,
    ("lethe_fpga.pll", "PllError"): MISTAKE,
    ("lethe_fpga.mirror", "MirrorError"): MISTAKE,
    ("lethe_fpga.build", "UnmetError"): BAD,
    ("lethe_fpga.build", "BuildError"): ENVIRONMENT,
}

_EXIT_CODES = "exit codes: 0 good, 1 bad verdict, 2 mistake, 3 something missing on this machine, 130 interrupted"


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        say(f"{self.prog.removeprefix('lethe').strip()}: {message}; `{self.prog} --help` says how".removeprefix(": "))
        sys.exit(MISTAKE)

    def _print_message(self, message: str, file=None) -> None:
        # As argparse does it, but without passing over a full disk.
        (file or sys.stderr).write(message)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = Parser(
        prog="lethe",
        description="Datagrams delivered exactly once over a network that discards.",
        epilog=f"start with:  lethe new my.toml && lethe run my.toml\n\n{_EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"lethe {lethe.__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, about in COMMANDS.items():
        module = importlib.import_module(f"lethe_sim.commands.{name}")
        sub = commands.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            epilog=f"examples:\n{module.EXAMPLES}\n{_EXIT_CODES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; only a bug of ours gives a traceback."""
    _open_streams()
    stopped = threading.Event()
    try:
        with _terminable(stopped):
            try:
                chosen = parser().parse_args(arguments)
                _refuse_nothing(chosen)
                code = chosen.run(chosen)
            finally:
                if sys.exc_info()[0] in (None, SystemExit):
                    sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return _interrupted()
    except BrokenPipeError:
        return BROKEN_PIPE
    except MemoryError:
        say("not enough memory; choose a smaller system or a shorter run")
        return ENVIRONMENT
    except Exception as error:
        if stopped.is_set():
            # A library that is interrupted may raise an error of its own.
            return _interrupted()
        code = exit_code(error)
        if code is None:
            raise
        _no_warnings()
        say(told(error))
        return code
    finally:
        _give_up(sys.stdout)
        _give_up(sys.stderr)


def _interrupted() -> int:
    # CPython remembers an interrupt that fell into `exec`, and would end by a signal; a further `exec` has it forget.
    exec("")
    _no_warnings()
    say("interrupted")
    return INTERRUPTED


def _open_streams() -> None:
    """Standard streams that take any text; one that was closed leads nowhere, and no file is opened in its place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            stream = open(nowhere, "r" if number == 0 else "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
        if number and isinstance(stream, io.TextIOWrapper):
            # What an encoding lacks is escaped.
            stream.reconfigure(errors="backslashreplace")


def _refuse_nothing(chosen: argparse.Namespace) -> None:
    """There is a current directory; no argument is empty, has a zero byte, or is no UTF-8, which Parquet wants."""
    from lethe_sim.commands.common import Mistake

    try:
        os.getcwd()
    except OSError:
        raise Mistake("the current directory is gone; change to one that exists") from None
    for name, value in vars(chosen).items():
        if not isinstance(value, str):
            continue
        if not value:
            raise Mistake(f"{chosen.command}: {name}: is empty; give a name")
        if "\0" in value:
            raise Mistake(f"{chosen.command}: {name}: holds a zero byte, which no file name does; name a file")
        if any("\ud800" <= sign <= "\udfff" for sign in value):
            raise Mistake(f"{value}: is not UTF-8; rename the file")


def _no_warnings() -> None:
    """What ended early leaves things unused, which libraries would remark on."""
    warnings.simplefilter("ignore")


def _give_up(stream: TextIO) -> None:
    """What a stream does not take is lost: Python would try once more at exit, and complain."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def say(text: str) -> None:
    """One line on stderr, after the command's name."""
    with suppress(OSError, ValueError):
        print(f"lethe: {one_line(text)}", file=sys.stderr)


@contextmanager
def _terminable(stopped: threading.Event) -> Iterator[None]:
    """SIGTERM ends a command as Ctrl-C does: what is half written goes.  Either sets ``stopped``.

    An interrupt may fall where nobody hears an exception, as in an object's end, and so comes again.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        stopped.set()
        _no_warnings()
        signal.setitimer(signal.ITIMER_REAL, AGAIN)
        raise KeyboardInterrupt

    numbers = [signal.SIGTERM, signal.SIGALRM]
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:  # a shell's background jobs ignore it
        numbers.append(signal.SIGINT)

    def unheard(what, told=sys.unraisablehook):
        if not isinstance(what.exc_value, KeyboardInterrupt):
            told(what)

    hook, sys.unraisablehook = sys.unraisablehook, unheard
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_code(error: Exception) -> int | None:
    """The exit code of an error that is not a bug of ours; None if it is one."""
    for cls in type(error).__mro__:
        if (code := ERRORS.get((cls.__module__, cls.__name__))) is not None:
            return code
    if isinstance(error, OSError) and error.filename is not None:
        return MISTAKE
    return ENVIRONMENT if isinstance(error, OSError) else None


def told(error: Exception) -> str:
    """The error as one line: files by name, and no class names."""
    text = str(error)
    if isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return one_line(text)


def one_line(text: str) -> str:
    """A message as one line: what does not print is escaped, and the middle of a very long one is left out."""
    text = text.strip()
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST * 2 // 3]} … {text[-_LONGEST // 3 :]}"
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


if __name__ == "__main__":
    sys.exit(main())

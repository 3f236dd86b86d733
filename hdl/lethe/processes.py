"""Child processes that end with the command that started them: simulators, compilers, Yosys, the JVM of Spark.

Each is started by `leash`, in a session of its own, and dies with everything it started when this process closes a
pipe or is gone, whether by an exit, an interrupt or SIGKILL.
"""

import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: Seconds that killed processes may take to be gone.
PATIENCE = 10.0
_LEASH = Path(__file__).with_name("leash.py")


class Leash:
    """Holds one command: `command` is what to start instead, with the keywords `options` for `subprocess.Popen`.

    Call `started` when it has been started, and `end` in any case: nothing of the command is left after that.

    Parameters
    ----------
    directories : directories of this command's own, which are removed at the end
    """

    def __init__(self, *directories: Path):
        self._directories = directories
        self._held, self._hold = os.pipe()
        self._done, self._ending = os.pipe()

    def command(self, command: Sequence[str | os.PathLike[str]]) -> list[str]:
        """The command line that runs ``command`` on this leash."""
        numbers = map(str, (self._held, self._ending, len(self._directories)))
        own = [str(part) for part in (_LEASH, *numbers, *self._directories)]
        return [sys.executable, "-I", "-S", *own, *(os.fspath(word) for word in command)]

    def shell(self, command: Sequence[str | os.PathLike[str]]) -> str:
        """The same as words for a shell."""
        return shlex.join(self.command(command))

    @property
    def options(self) -> dict[str, Any]:
        """Keywords for `subprocess.Popen`."""
        return {"pass_fds": (self._held, self._ending), "start_new_session": True}

    def started(self) -> None:
        """The command has its ends of the pipes; ours of them go."""
        _close(self, "_held", "_ending")

    def end(self) -> None:
        """Kill what is left of the command, wait until it is gone, and remove its directories."""
        _close(self, "_held", "_ending", "_hold")
        if self._done >= 0:
            select.select([self._done], [], [], PATIENCE)
            _close(self, "_done")
        for directory in self._directories:
            shutil.rmtree(directory, ignore_errors=True)

    def __del__(self):
        _close(self, "_held", "_ending", "_hold", "_done")


def _close(leash: Leash, *names: str) -> None:
    for name in names:
        number = getattr(leash, name, -1)
        setattr(leash, name, -1)
        if number >= 0:
            os.close(number)


@contextmanager
def leash(*directories: Path) -> Iterator[Leash]:
    """A `Leash` that ends with the block."""
    held = Leash(*directories)
    try:
        yield held
    finally:
        held.end()


@contextmanager
def started(
    command: Sequence[str | os.PathLike[str]],
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    **streams: Any,
) -> Iterator[subprocess.Popen[str]]:
    """A command that runs beside this block, and ends with it at the latest.

    It has a directory of its own for temporary files, which is removed with all that is left in it.  ``streams`` are
    `subprocess.Popen`'s; texts are UTF-8, with undecodable bytes replaced.
    """
    scratch = tempfile.mkdtemp(prefix="lethe-")
    with leash(Path(scratch)) as held:
        env = {**(os.environ if env is None else env), "TMPDIR": scratch}
        streams = {"stdin": subprocess.DEVNULL, "encoding": "utf-8", "errors": "replace", **streams}
        with subprocess.Popen(held.command(command), cwd=cwd, env=env, **streams, **held.options) as process:
            held.started()
            try:
                yield process
            finally:
                # Before Popen waits for its end.
                held.end()


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    capture_output: bool = False,
    timeout: float | None = None,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run`, without ``check``; nothing outlives this call.  ``options`` are those of `started`.

    A command that cannot be started has exit code 127, as in a shell.  Raises `subprocess.TimeoutExpired`.
    """
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, **options) as process:
        out, err = process.communicate(timeout=timeout)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def last_words(text: str) -> str:
    """The line of a tool's output that says most: a Python exception, else the first error, else the last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    errors = [line for line in lines if "error" in line.lower()]
    return (raised[-1:] or errors[:1] or lines[-1:] or ["it said nothing"])[0]

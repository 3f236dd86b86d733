"""Running `lethe`: in this process, or as its own when what it imports or how it ends matters."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from lethe_sim import cli


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


@pytest.fixture
def lethe(capsys, tmp_path, monkeypatch) -> Callable[..., Ended]:
    """`lethe` in this process, in an empty directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ended:
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as done:
            code = done.code if isinstance(done.code, int) else 1
        captured = capsys.readouterr()
        return Ended(code, captured.out, captured.err)

    return run


@pytest.fixture
def process(tmp_path) -> Callable[..., Ended]:
    """`lethe` as its own process, in an empty directory; keywords change its environment (None removes)."""

    def run(*arguments: str, **environment: str | None) -> Ended:
        env = dict(os.environ) | {name: value for name, value in environment.items() if value is not None}
        for name, value in environment.items():
            if value is None:
                env.pop(name, None)
        done = subprocess.run(
            [sys.executable, "-m", "lethe_sim.cli", *map(str, arguments)],
            cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout, done.stderr)

    return run

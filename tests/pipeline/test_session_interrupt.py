"""Ctrl-C while Spark works: the JVM may be gone at once, and every tidying up fails."""

import logging

import pytest

from lethe_sim.pipeline import session as sessions


class Gone:
    """A session whose JVM is gone."""

    def stop(self):
        raise ConnectionError("answer from Java side is empty")


@pytest.fixture(autouse=True)
def gone(monkeypatch):
    monkeypatch.setattr(sessions, "_start", lambda *arguments: Gone())


def test_an_interrupt_stays_one_when_tidying_up_fails():
    with pytest.raises(KeyboardInterrupt), sessions.session():
        try:
            raise KeyboardInterrupt
        finally:
            raise ConnectionError("answer from Java side is empty")


def test_another_error_stays_what_it_was():
    with pytest.raises(ValueError, match="bad"), sessions.session():
        raise ValueError("bad")


def test_py4j_logs_no_tracebacks(capfd):
    with sessions.session():
        record = logging.LogRecord("root", logging.ERROR, "py4j/java_gateway.py", 1, "Exception", None, None)
        assert not logging.getLogger().filter(record)

"""Ctrl-C while Spark works: the JVM may be gone at once, and every tidying up fails."""

import logging
import time
import warnings

import pytest

from lethe_sim.pipeline import session as sessions


class Gone:
    """A session whose JVM is gone."""

    def stop(self):
        warnings.warn("Unable to cleanly shutdown Spark JVM process.", RuntimeWarning, stacklevel=1)
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


def test_tidying_up_warns_of_nothing(recwarn):
    with sessions.session():
        pass
    assert not recwarn.list


def test_py4j_logs_no_tracebacks():
    with sessions.session():
        record = logging.LogRecord("root", logging.ERROR, "py4j/java_gateway.py", 1, "Exception", None, None)
        assert not logging.getLogger().filter(record)
        assert not logging.getLogger("py4j.clientserver").isEnabledFor(logging.ERROR)


def test_when_one_question_fails_the_others_are_called_off():
    class Spark:
        """Only what is under way when it is called off ends early."""

        sparkContext = property(lambda self: self)

        def __init__(self):
            self.calls = 0

        def cancelAllJobs(self):
            self.calls += 1

    spark = Spark()

    def fails():
        raise KeyboardInterrupt

    def goes_on():
        while spark.calls < 2:
            time.sleep(0.01)

    with pytest.raises(KeyboardInterrupt):
        sessions.at_once(spark, goes_on, fails, goes_on)
    assert sessions.at_once(spark, lambda: 1, lambda: 2) == [1, 2]

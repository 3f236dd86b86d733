"""Wrong frames are refused."""

import pytest
from pyspark.sql import functions as F

from lethe_sim.pipeline.schema import EVENTS, check_events
from lethe_sim.pipeline.session import PipelineError


def test_schema_is_checked(spark):
    good = spark.createDataFrame([], EVENTS)
    assert check_events(good) is good
    with pytest.raises(PipelineError, match="column uid: is missing"):
        check_events(good.drop("uid"))
    with pytest.raises(PipelineError, match="column cycle: is int, not bigint"):
        check_events(good.withColumn("cycle", F.col("cycle").cast("int")))

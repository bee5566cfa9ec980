"""One Spark session for all tests of the pipeline: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from shoal.pipeline.session import spark_session

# Jobs of a second do not repay Java's second compiler, nor several threads that collect garbage.
# What it compiles has 48 MB by default: it was thrown out to make room, and compiled again.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_SUBMIT_OPTS", QUICK_JAVA)
        with spark_session(
            "tests", master="local[2]", memory="2g", shuffle_partitions=2
        ) as session:
            yield session

"""One Spark session for all tests of the pipeline: starting it takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from shoal.pipeline.session import spark_session
from tests.java_archive import OPTIONS, ROOM_FOR_CODE, quick_java


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OPTIONS, quick_java(ROOM_FOR_CODE))
        with spark_session(
            "tests", master="local[2]", memory="2g", shuffle_partitions=2
        ) as session:
            yield session

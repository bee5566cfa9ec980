"""A process of its own that works on a standalone cluster; it prints what happened as JSON.

`python -m tests.pipeline.clusters.on_a_cluster MASTER FOLDER`
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

from shoal.frames.errors import TableError
from shoal.frames.folders import new_folder
from shoal.pipeline import tables
from shoal.pipeline.matching.compiled_matching import match_tables
from shoal.pipeline.session import spark_session
from shoal.pipeline.tables import write_table
from shoal.pipeline.tasks import run_tasks
from tests.java_archive import quick_java

PUBLICATIONS = 1_000
# A path that is another folder in each process: as a disk that no other machine has.
OWN_DISK = Path("/proc/self/cwd")


def main(master: str, folder: Path) -> None:
    """Write pairs into a folder that all share, and into one that each process has for itself."""
    settings = {
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": quick_java(),
        "spark.sql.shuffle.partitions": "3",
    }
    found: dict[str, object] = {}
    with spark_session("test", master=master, memory="512m", conf=settings) as spark:
        publications = spark.range(0, PUBLICATIONS, 1, 4).selectExpr("id", "id % 10 AS a")
        wanted = spark.createDataFrame([(7, "a < 3")], "id bigint, filter string")
        pairs = match_tables(publications, wanted)
        with new_folder(folder / "pairs") as filled:
            write_table(pairs, filled)
        found["pairs"] = pq.read_table(folder / "pairs").num_rows
        outcomes = run_tasks(spark, [partial(pow, 2, 5)], [1.0], lambda _: None)
        found["tasks"] = [outcome and outcome.result for outcome in outcomes]
        found["shuffles"] = spark.conf.get("spark.sql.shuffle.partitions")
        tasks = [partial(pow, 2, 5)]
        late = partial(run_tasks, spark, tasks, [1.0], lambda _: None, None, OWN_DISK)
        found["tasks refused"] = _refusal(late)
        found["refused"] = _refusal(partial(write_table, pairs, OWN_DISK / "pairs"))
        with mock.patch.object(tables, "check_is_shared"):
            found["lost"] = _refusal(partial(write_table, pairs, OWN_DISK / "pairs"))
    print(json.dumps(found))


def _refusal(write: partial[Any]) -> str:
    try:
        write()
    except TableError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

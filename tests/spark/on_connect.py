"""A process of its own that uses `shoal.spark` by Spark Connect, on a network's log.

`SPARK_REMOTE=URL python -m tests.spark.on_connect NETWORK_FILE FOLDER`; it prints JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import shoal.spark

FILTERS = [("late", "delay > 6"), ("first", "carrier = 'C1'"), ("never", "delay > 900")]


def rows(table: DataFrame) -> list[Any]:
    """The rows of a small table, in order."""
    return sorted([*row] for row in table.collect())


def publish(log: Any, network: str, folder: Path) -> list[Any]:
    """Publish late flights again, as a table twice under one name, and as a stream.

    Returns the topics that the log has then, with the number of records on each.
    """
    spark = SparkSession.builder.getOrCreate()

    def alerts(table: DataFrame, name: str) -> DataFrame:
        chosen = table.where("delay > 6 AND topic LIKE 'flights/%'")
        return chosen.selectExpr(f"concat('{name}/', carrier) AS topic", "payload")

    for _ in range(2):
        writer = alerts(log(spark.read), "table").write.format("shoal").mode("append")
        writer.options(network=network, payloadColumn="payload", writeId="late").save()
    stream = alerts(log(spark.readStream), "stream").writeStream.format("shoal")
    stream = stream.options(
        network=network, payloadColumn="payload", checkpointLocation=str(folder / "published")
    )
    stream.trigger(availableNow=True).start().awaitTermination()
    return rows(log(spark.read).where("topic NOT LIKE 'flights/%'").groupBy("topic").count())


def run(network: str, folder: Path) -> dict[str, Any]:
    """Read the log and match it in each way; tables go through the catalog and a URI."""
    spark = shoal.spark.prepare(SparkSession.builder.getOrCreate())

    def log(reader: Any) -> DataFrame:
        options = {"network": network, "attributes": "delay BIGINT, carrier STRING"}
        found: DataFrame = reader.format("shoal").options(**options).load()
        return found

    table = log(spark.read)
    wanted = spark.createDataFrame(FILTERS, "id string, filter string")
    shoal.spark.write(wanted, "default.wanted")
    found: dict[str, Any] = {"module": type(spark).__module__, "rows": table.count()}
    for how in ("broadcast", "partitioned", "sql"):
        found[how] = rows(shoal.spark.match(table, "default.wanted", how=how))
    uri = (folder / "pairs").as_uri()
    shoal.spark.write(shoal.spark.match(table, "default.wanted"), uri)
    found["written"] = rows(shoal.spark.read(uri))
    stream = shoal.spark.match(log(spark.readStream), wanted).writeStream.format("parquet")
    stream = stream.option("checkpointLocation", str(folder / "checkpoint"))
    stream.trigger(availableNow=True).start(str(folder / "stream")).awaitTermination()
    found["streamed"] = rows(shoal.spark.read(folder / "stream"))
    found["profile"] = rows(shoal.spark.profile(table, wanted).filters)
    one = table.where("broker = 'B2' AND offset = 0")
    found["why"] = rows(shoal.spark.explain(one, wanted.where("id = 'late'")))
    mapping = {
        "publisher": ["broker"],
        "time": {"column": "time"},
        "columns": {"broker": "string", "delay": "integer"},
    }
    made = shoal.spark.ingest(table, mapping)
    found["published"] = publish(log, network, folder)
    found["ingested"] = rows(made.publications.select("publisher", "sequence", "attributes.delay"))
    return found


if __name__ == "__main__":
    print(json.dumps(run(sys.argv[1], Path(sys.argv[2]))))

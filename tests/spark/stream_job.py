"""A Spark job of its own process: streams a network's log, until it is killed.

Run as `python stream_job.py NETWORK OUT CHECKPOINT (always | once) [MASTER]`. OUT is a folder for
Parquet, or `topic:NAME`: the rows are published, named by broker and offset; or both, with a comma
between them, as two queries.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql.functions import rand
from pyspark.sql.streaming import DataStreamWriter

import shoal.spark
from shoal.pipeline.session import spark_session

SETTINGS = {
    # Each killed executor counts as a failure of its task.
    "spark.task.maxFailures": "1000",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def main(network: str, outs: str, checkpoint: str, how: str, master: str = "local[2]") -> None:
    settings = {} if master.startswith("local") else SETTINGS
    session = spark_session("job", master=master, memory="1g", conf=settings, is_brief=True)
    with session as spark:
        spark.dataSource.register(shoal.spark.Source)
        trigger = (
            {"availableNow": True} if how == "once" else {"processingTime": "100 milliseconds"}
        )
        print("streams", flush=True)
        queries = []
        for out in outs.split(","):
            kind = "topic" if out.startswith("topic:") else "table"
            options = {"network": network, "reader": f"job-{kind}", "maxRowsPerTrigger": "3000"}
            stream = spark.readStream.format("shoal").options(**options).load()
            writer = writer_of(stream, network, out)
            writer = writer.option("checkpointLocation", f"{checkpoint}-{kind}")
            queries.append(writer.trigger(**trigger).start())
        for query in queries:
            query.awaitTermination()


def writer_of(stream: DataFrame, network: str, out: str) -> DataStreamWriter:
    if not out.startswith("topic:"):
        chosen = stream.select("broker", "offset", "payload")
        return chosen.writeStream.format("parquet").option("path", out)
    # Spread by chance: a batch that is repeated has other rows in its partitions.
    named = stream.where("topic = 't'").selectExpr("concat(broker, ' ', offset) AS name")
    writer = named.repartition(3, rand()).writeStream.format("shoal")
    return writer.options(network=network, payloadColumn="name", topic=out.removeprefix("topic:"))


if __name__ == "__main__":
    main(*sys.argv[1:])

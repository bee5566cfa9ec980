"""A Spark job of its own process: streams a network's log, until it is killed.

Run as `python stream_job.py NETWORK OUT CHECKPOINT (always | once)`. OUT is a folder for Parquet,
or `topic:NAME`: the rows are published, named by broker and offset.
"""

from __future__ import annotations

import sys

from pyspark.sql.functions import rand

import shoal.spark
from shoal.pipeline.session import spark_session


def main(network: str, out: str, checkpoint: str, how: str) -> None:
    with spark_session("job", master="local[2]", memory="1g", is_brief=True) as spark:
        spark.dataSource.register(shoal.spark.Source)
        options = {"network": network, "reader": "job", "maxRowsPerTrigger": "3000"}
        stream = spark.readStream.format("shoal").options(**options).load()
        if out.startswith("topic:"):
            # Spread by chance: a batch that is repeated has other rows in its partitions.
            named = stream.where("topic = 't'").selectExpr("concat(broker, ' ', offset) AS name")
            writer = named.repartition(3, rand()).writeStream.format("shoal")
            writer = writer.options(network=network, payloadColumn="name", topic=out[6:])
        else:
            chosen = stream.select("broker", "offset", "payload")
            writer = chosen.writeStream.format("parquet").option("path", out)
        writer = writer.option("checkpointLocation", checkpoint)
        trigger = (
            {"availableNow": True} if how == "once" else {"processingTime": "100 milliseconds"}
        )
        print("streams", flush=True)
        writer.trigger(**trigger).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

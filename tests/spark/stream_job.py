"""A Spark job of its own process: streams a network's log into Parquet, until it is killed.

Run as `python stream_job.py NETWORK OUT CHECKPOINT (always | once)`.
"""

from __future__ import annotations

import sys

import shoal.spark
from shoal.pipeline.session import spark_session


def main(network: str, out: str, checkpoint: str, how: str) -> None:
    with spark_session("job", master="local[2]", memory="1g", is_brief=True) as spark:
        spark.dataSource.register(shoal.spark.Source)
        options = {"network": network, "reader": "job", "maxRowsPerTrigger": "3000"}
        stream = spark.readStream.format("shoal").options(**options).load()
        writer = stream.select("broker", "offset", "payload").writeStream.format("parquet")
        writer = writer.option("path", out).option("checkpointLocation", checkpoint)
        trigger = (
            {"availableNow": True} if how == "once" else {"processingTime": "100 milliseconds"}
        )
        print("streams", flush=True)
        writer.trigger(**trigger).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

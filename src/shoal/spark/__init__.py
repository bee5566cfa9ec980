"""shoal in a Spark session: read what a network has logged, as a batch or as a stream.

    import shoal.spark

    spark.dataSource.register(shoal.spark.Source)
    flights = (
        spark.readStream.format("shoal")
        .option("network", "network.toml")
        .option("topics", "flights/#")
        .option("where", "dep_delay > 30")
        .option("attributes", "dep_delay DOUBLE, carrier STRING")
        .load()
    )

Needs PySpark 4.2 or later.
"""

from __future__ import annotations

from shoal.spark.source import Source

__all__ = ["Source"]

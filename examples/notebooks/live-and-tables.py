# %% [markdown]
# # A live network and its tables
#
# What a data scientist does with shoal in one Spark session, in eleven steps. The notebook starts a
# network of two brokers on this machine, and needs nothing else. `make notebook` makes it from
# `live-and-tables.py`.

# %%
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import shoal
import shoal.spark

work = Path(tempfile.mkdtemp(prefix="shoal-notebook-"))
up = [sys.executable, "-m", "shoal.cli.main", "up", "--brokers", "2", "--log", "--port", "0"]
network = subprocess.Popen([*up, "--folder", str(work)], stdout=subprocess.PIPE, text=True)
for line in network.stdout:
    if "Ctrl-C stops it" in line:
        break
network_file = str(work / "network.toml")
brokers = [each["mqtt"] for each in tomllib.loads(Path(network_file).read_text())["brokers"]]

# %% [markdown]
# ## 1. Publish
#
# Twenty flights of two carriers at each broker. The fields of a JSON payload are the attributes.

# %%
import json

CARRIERS = ["UA", "DL"]


async def publish(delays):
    for number, broker in enumerate(brokers):
        async with shoal.Client(broker, f"desk {number + 1}") as client:
            for delay in delays:
                carrier = CARRIERS[delay % 2]
                flight = {"carrier": carrier, "dep_delay": delay} | (
                    {"gate": 7} if delay > 35 else {}
                )
                await client.publish(f"flights/{carrier}", json.dumps(flight).encode(), qos=1)


await publish(range(0, 60, 3))

# %% [markdown]
# ## 2. Prepare the session
#
# `prepare` registers the data source `shoal`, and sets what results depend on: UTC, ANSI SQL, names
# with case.

# %%
builder = SparkSession.builder.master("local[2]").appName("live and tables")
builder = builder.config("spark.sql.shuffle.partitions", 2).config("spark.ui.enabled", "false")
builder = builder.config("spark.sql.warehouse.dir", str(work / "warehouse"))
spark = shoal.spark.prepare(builder.getOrCreate())
spark.sql("CREATE DATABASE lake")

# %% [markdown]
# ## 3. Read the log as a table
#
# Spark's tasks ask each broker for a range of its offsets. A row is a publication, named by
# `broker` and `offset`.


# %%
def read_log(reader):
    reader = reader.format("shoal").option("network", network_file).option("topics", "flights/#")
    return reader.option("attributes", "carrier STRING, dep_delay BIGINT, gate BIGINT").load()


log = read_log(spark.read)
log.select("broker", "offset", "publisher", "topic", "carrier", "dep_delay", "gate").show(5)
print(log.count(), "publications")

# %% [markdown]
# ## 4. Let brokers filter
#
# Brokers evaluate `where` and `topics`, so that only matching records travel. Offsets bound the
# table.

# %%
late = (
    spark.read.format("shoal")
    .option("network", network_file)
    .option("where", "dep_delay > 30 AND `$topic.1` = 'UA'")
    .option("startingOffsets", '{"B1": 10, "B2": 0}')
    .load()
)
late.groupBy("broker").count().orderBy("broker").show()

# %% [markdown]
# ## 5. Join with a table

# %%
names = spark.createDataFrame([("UA", "United"), ("DL", "Delta")], "carrier string, name string")
shoal.spark.write(names, "lake.carriers")
named = log.join(shoal.spark.read("lake.carriers"), "carrier")
named.groupBy("name").agg(F.avg("dep_delay").alias("mean delay")).orderBy("name").show()

# %% [markdown]
# ## 6. Aggregate by window

# %%
per_minute = log.groupBy(F.window("time", "1 minute"), "broker").agg(
    F.count("*").alias("publications"), F.max("dep_delay").alias("worst")
)
per_minute.select("window.start", "broker", "publications", "worst").orderBy(
    "start", "broker"
).show()

# %% [markdown]
# ## 7. Match subscriptions
#
# The same index as in a broker, on Spark's workers. `how="sql"` lets Spark evaluate the texts: an
# independent judge.

# %%
subscriptions = spark.createDataFrame(
    [
        ("late", "dep_delay > 30"),
        ("very late united", "carrier = 'UA' AND dep_delay > 50"),
        ("gate seven", "gate = 7"),
        ("cancelled", "cancelled = TRUE"),
    ],
    "id string, filter string",
)
shoal.spark.write(subscriptions, "lake.subscriptions")
pairs = shoal.spark.match(log, "lake.subscriptions", warn=False)
shoal.spark.write(pairs, "lake.pairs")
judged = shoal.spark.match(log, "lake.subscriptions", how="sql", warn=False)
print(pairs.count(), "pairs;", pairs.exceptAll(judged).count(), "that Spark SQL does not find")

# %% [markdown]
# ## 8. Profile filters
#
# Which filters never match, which publications reach many subscribers, which attributes are
# missing?

# %%
profile = shoal.spark.profile(log, subscriptions)
profile.filters.orderBy("selectivity").show(truncate=False)
profile.publications.orderBy(F.desc("matches"), "broker", "offset").show(3)
profile.attributes.where("filters > 0").orderBy("present").show()

# %% [markdown]
# ## 9. Explain a miss

# %%
one = log.where("broker = 'B1' AND offset = 4")
why = shoal.spark.explain(one, subscriptions.where("id = 'very late united'"))
print(why.first().why)

# %% [markdown]
# ## 10. Match a stream
#
# The same function. The checkpoint has the offsets, so that a stream that starts again matches each
# publication once.

# %%
stream = shoal.spark.match(
    read_log(spark.readStream), subscriptions, key=["broker", "offset", "time"], warn=False
)


def match_what_is_there():
    query = (
        stream.writeStream.option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .toTable("lake.alerts")
    )
    query.awaitTermination()
    return spark.table("lake.alerts").count()


first = match_what_is_there()
await publish([99])
print(first, "alerts, then", match_what_is_there())
spark.table("lake.alerts").orderBy(F.desc("time"), "subscription").show(5)

# %% [markdown]
# ## 11. Publish alerts
#
# A stream's rows go back into the network, each exactly once: also those of a batch that Spark
# repeats. Clients that subscribe to `alerts/#` get them.

# %%
alerts = spark.readStream.table("lake.alerts").select(
    F.concat(F.lit("alerts/"), F.translate("subscription", " ", "-")).alias("topic"),
    "broker",
    "offset",
)
query = (
    alerts.writeStream.format("shoal")
    .option("network", network_file)
    .option("checkpointLocation", str(work / "alerts-checkpoint"))
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
published = (
    spark.read.format("shoal").option("network", network_file).option("topics", "alerts/#").load()
)
print(published.count(), "alerts published")
published.groupBy("topic").count().orderBy("topic").show()

# %% [markdown]
# ## End

# %%
import shutil
import signal

spark.stop()
network.send_signal(signal.SIGINT)
network.wait()
shutil.rmtree(work)

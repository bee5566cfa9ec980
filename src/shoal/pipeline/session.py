"""The one place where a Spark session begins and ends.

`spark_session` starts a quiet local Spark (any other master by option) for the length of a block:
UTC, ANSI SQL, bound to the loopback address, no web page, scratch files in a temporary folder that
goes away with it. If a session is active, in a notebook or in a run of several steps, the block
gets a view of that one with the settings that shoal relies on, and leaves it running. The Java that
a process started first serves all its later sessions.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from shoal.pipeline.interrupts import stop, while_it_starts
from shoal.pipeline.java import find_java, java_home, launched_with, private_folder

# Name of a session's type for other modules.
Spark: TypeAlias = SparkSession
# Local tables are small: more partitions would only be more tasks to start.
LOCAL_SHUFFLE_PARTITIONS = 8
# Bytes that one task reads of a file: with Spark's 128 MB a file of 300 MB is read for minutes in
# three parts, without visible progress.
LOCAL_PART_BYTES = 16 * 1024 * 1024
# One projection per chunk of filters makes long plans; their text is not needed.
PLAN_TEXT_FIELDS = 25

_SQL_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # The Java runtime never compiles a method above 8,000 bytes of code: such a stage crawls.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Attribute names keep their case: `open` and `Open` are two attributes.
    "spark.sql.caseSensitive": "true",
    # A filter may hold the text ${...}, which is not a variable.
    "spark.sql.variable.substitute": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.debug.maxToStringFields": str(PLAN_TEXT_FIELDS),
}
# Ingest, workload and truth of 2,400 rows took 42 s of processor time without, 23 s with these.
_BRIEF = " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_QUERY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# A failed task is told to the user once, by the exception that reaches Python.
_LOG_SETTINGS = """\
rootLogger.level = error
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark %p %c{1}: %m%n%ex
logger.executor.name = org.apache.spark.executor
logger.executor.level = off
logger.scheduler.name = org.apache.spark.scheduler
logger.scheduler.level = off
logger.writer.name = org.apache.spark.sql.execution.datasources
logger.writer.level = off
logger.stream.name = org.apache.spark.sql.execution.streaming
logger.stream.level = off
logger.util.name = org.apache.spark.util.Utils
logger.util.level = off
"""


@contextlib.contextmanager
def spark_session(
    app_name: str,
    *,
    master: str = "local[*]",
    memory: str = "4g",
    shuffle_partitions: int = LOCAL_SHUFFLE_PARTITIONS,
    is_brief: bool = False,
) -> Iterator[SparkSession]:
    """A Spark session for the block; JavaNotFoundError when there is no Java to run it on.

    `is_brief` suits little work: Java then spends half the time on compiling, and is slower later.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield _view_of(active, shuffle_partitions)
        return
    folder = private_folder()
    try:
        options = _BRIEF if is_brief else ""
        session = _start(app_name, master, memory, shuffle_partitions, folder, options)
        try:
            yield session
        finally:
            stop(session)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _view_of(active: SparkSession, shuffle_partitions: int) -> SparkSession:
    view = active.newSession()
    settings = _SQL_SETTINGS | {"spark.sql.shuffle.partitions": str(shuffle_partitions)}
    for key, value in settings.items():
        view.conf.set(key, value)
    return view


def _start(
    app_name: str, master: str, memory: str, shuffle_partitions: int, folder: Path, options: str
) -> SparkSession:
    log_settings = folder / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS, encoding="utf-8")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = _SQL_SETTINGS | {
        "spark.sql.shuffle.partitions": str(shuffle_partitions),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.local.dir": str(folder / "scratch"),
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={log_settings.as_uri()}{options}"
        ),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.files.maxPartitionBytes": str(LOCAL_PART_BYTES),
        }
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    # An error reaches the user as the exception; Spark's Python would log it in JSON besides.
    for logger in _QUERY_LOGGERS:
        PySparkLogger.getLogger(logger).disabled = True
    with launched_with(java_home(find_java(), folder)), while_it_starts():
        return builder.getOrCreate()

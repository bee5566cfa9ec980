"""The one place where a Spark session begins and ends.

`spark_session` gives a session for the length of a block. Which Spark that is:

| the user | the session |
| --- | --- |
| has an active session, in a notebook or in a run of several steps | a view of it, which goes on |
| gives a master `sc://HOST`, or has set `SPARK_REMOTE` | Spark Connect |
| gives another master, or has set one for Spark | that master |
| has said nothing | a quiet local Spark on all cores |

In all of them the session has the SQL settings that shoal's results depend on (`SQL_SETTINGS`).
Everything else is the user's: shoal sets memory, shuffle partitions, the web page, the workers'
Python and folders of scratch files only for a local Spark that it starts, and of these only the
keys that the user has not set. The Java that a process started first serves all its later sessions.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from shoal.pipeline.interrupts import stop, while_it_starts
from shoal.pipeline.java import find_java, java_home, launched_with, private_folder
from shoal.pipeline.user_settings import (
    DRIVER_MEMORY,
    MASTER,
    PYTHON,
    UserSettings,
    user_settings,
)

# Name of a session's type for other modules.
Spark: TypeAlias = SparkSession
LOCAL_MASTER = "local[*]"
LOCAL_MEMORY = "4g"
# Local tables are small: more partitions would only be more tasks to start.
LOCAL_SHUFFLE_PARTITIONS = 8
# Bytes that one task reads of a file: with Spark's 128 MB a file of 300 MB is read for minutes in
# three parts, without visible progress.
LOCAL_PART_BYTES = 16 * 1024 * 1024
# One projection per chunk of filters makes long plans; their text is not needed.
PLAN_TEXT_FIELDS = 25
CONNECT = "sc://"
_CONNECT_PORT = 15002
_ANSWER_LIMIT_S = 10.0

SQL_SETTINGS = {
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
_CATALOG = "spark.sql.catalogImplementation"
_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
# Spark leaves a new session active, which the session of a notebook's user was before.
_VIEW = "shoal.view"
_USERS: list[SparkSession] = []
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
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
    master: str | None = None,
    memory: str | None = None,
    shuffle_partitions: int | None = None,
    conf: Mapping[str, str] | None = None,
    is_brief: bool = False,
) -> Iterator[SparkSession]:
    """A Spark session for the block; JavaNotFoundError when there is no Java to run it on.

    `memory` is the driver's; `conf` has further settings, and ValueError names one that shoal's
    results depend on. `is_brief` suits little work on a local Spark: Java then spends half the time
    on compiling, and is slower later.
    """
    asked = dict(conf or {})
    if memory is not None:
        asked.setdefault(DRIVER_MEMORY, memory)
    if shuffle_partitions is not None:
        asked.setdefault(_SHUFFLE_PARTITIONS, str(shuffle_partitions))
    check_settings(asked)
    active = _users_session()
    if active is not None:
        yield _view_of(active, asked)
        return
    users = user_settings()
    master = asked.pop(MASTER, None) if master is None else master
    remote = _remote(master, users)
    if remote is not None:
        session = _connect(remote, asked)
        try:
            yield session
        finally:
            session.stop()
        return
    with private_folder() as folder:
        session = _start(app_name, master, asked, users, folder, _BRIEF if is_brief else "")
        try:
            yield session
        finally:
            stop(session)


def check_settings(settings: Mapping[str, str]) -> None:
    """ValueError names a setting that shoal's results depend on, with the value that it has."""
    for key, value in settings.items():
        if key in SQL_SETTINGS and value != SQL_SETTINGS[key]:
            raise ValueError(f"{key} has to be {SQL_SETTINGS[key]}: shoal's results depend on it")


def is_connect(spark: SparkSession) -> bool:
    """Return whether the session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def is_local(spark: SparkSession) -> bool:
    """Return whether all work is done in this machine's one Java, with its disks."""
    if is_connect(spark):
        return False
    master = spark.conf.get("spark.master") or ""
    return master == "local" or master.startswith("local[")


def has_passing_catalog(spark: SparkSession, table: str) -> bool:
    """Return whether a table would be gone with the session; a view leaves its session open."""
    if is_connect(spark) or spark.conf.get(_VIEW, ""):
        return False
    catalog, dot, _ = table.partition(".")
    is_own = bool(dot) and spark.conf.get(f"spark.sql.catalog.{catalog}", "") != ""
    return not is_own and spark.conf.get(_CATALOG) == "in-memory"


def which_spark(master: str | None = None) -> str:
    """Return the master that a session would have, and the reason, for people."""
    users = user_settings()
    if SparkSession.getActiveSession() is not None:
        return "the active session"
    if (remote := _remote(master, users)) is not None:
        return _shown(remote) if master is not None else f"{_shown(remote)}, by SPARK_REMOTE"
    if master is not None:
        return master
    if users.is_submitted:
        return "the master of spark-submit"
    if MASTER in users.values:
        return f"{users.values[MASTER]}, by Spark's own settings"
    return LOCAL_MASTER


def _shown(remote: str) -> str:
    """Return a URL of Spark Connect without its parameters, which may have a password."""
    return remote.partition("/;")[0]


def _remote(master: str | None, users: UserSettings) -> str | None:
    """Return the URL of Spark Connect, if that is to be used."""
    if master is None:
        return users.remote
    return master if master.startswith(CONNECT) else None


def another_session(spark: SparkSession) -> SparkSession:
    """Return a new session of the same Spark, which is active now; `spark` stays the user's."""
    if not spark.conf.get(_VIEW, ""):
        _USERS[:] = [spark]
    session = spark.newSession()
    session.conf.set(_VIEW, "true")
    return session


def _users_session() -> SparkSession | None:
    """Return the active session, or, if that is one of our views, the session that it is of."""
    active = SparkSession.getActiveSession()
    if active is None:
        return None
    if not (active.conf.get(_VIEW, "") and _USERS):
        _USERS[:] = [active]
    return _USERS[0]


def _view_of(active: SparkSession, asked: Mapping[str, str]) -> SparkSession:
    """Return another session of the same Spark, with this one's settings and shoal's."""
    view = another_session(active)
    for key, value in (_sql_settings_of(active) | dict(asked) | SQL_SETTINGS).items():
        if view.conf.isModifiable(key):
            view.conf.set(key, value)
    return view


def _sql_settings_of(active: SparkSession) -> dict[str, str]:
    return {key: value for key, value in active.conf.getAll.items() if key.startswith("spark.sql.")}


def _connect(remote: str, asked: Mapping[str, str]) -> SparkSession:
    _check_answers(remote)
    session = SparkSession.builder.remote(remote).create()
    for key, value in (dict(asked) | SQL_SETTINGS).items():
        if key in SQL_SETTINGS or session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def _check_answers(remote: str) -> None:
    """ValueError if nothing listens there: Spark's client would try again for many minutes."""
    if not remote.startswith(CONNECT):
        return
    try:
        place = urlsplit(remote)
        host, port = place.hostname or "", place.port or _CONNECT_PORT
        socket.create_connection((host, port), _ANSWER_LIMIT_S).close()
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{_shown(remote)}: no Spark Connect server answers there ({error})"
        ) from None


def _start(
    app_name: str,
    master: str | None,
    asked: Mapping[str, str],
    users: UserSettings,
    folder: Path,
    options: str,
) -> SparkSession:
    settings = dict(asked)
    if not users.is_submitted:
        known = users.values.keys() | asked.keys()
        master = master or users.values.get(MASTER, LOCAL_MASTER)
        ours = _quiet(folder, options if master.startswith("local") else "")
        if master.startswith("local"):
            ours |= _local_settings(folder)
            if PYTHON not in known:
                os.environ["PYSPARK_PYTHON"] = sys.executable
        settings |= {key: value for key, value in ours.items() if key not in known}
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for key, value in (settings | SQL_SETTINGS).items():
        builder = builder.config(key, value)
    # An error reaches the user as the exception; Spark's Python would log it in JSON besides.
    for logger in _QUERY_LOGGERS:
        PySparkLogger.getLogger(logger).disabled = True
    with contextlib.ExitStack() as stack:
        stack.enter_context(_without_remote())
        if not users.is_submitted:
            stack.enter_context(launched_with(java_home(find_java(), folder)))
        stack.enter_context(while_it_starts())
        return builder.getOrCreate()


def _quiet(folder: Path, options: str) -> dict[str, str]:
    """Return the settings of a driver that does not write on the terminal."""
    log_settings = folder / "log4j2.properties"
    log_settings.write_text(_LOG_SETTINGS, encoding="utf-8")
    return {
        _JAVA_OPTIONS: f"-Dlog4j2.configurationFile={log_settings.as_uri()}{options}",
        "spark.ui.showConsoleProgress": "false",
    }


def _local_settings(folder: Path) -> dict[str, str]:
    """Return the settings of a local Spark, bound to the loopback address, without a web page."""
    return {
        _SHUFFLE_PARTITIONS: str(LOCAL_SHUFFLE_PARTITIONS),
        DRIVER_MEMORY: LOCAL_MEMORY,
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        _CATALOG: "in-memory",
        "spark.local.dir": str(folder / "scratch"),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.files.maxPartitionBytes": str(LOCAL_PART_BYTES),
    }


@contextlib.contextmanager
def _without_remote() -> Iterator[None]:
    """A master that the user gives goes before SPARK_REMOTE, which Spark would not allow beside."""
    remote = os.environ.pop("SPARK_REMOTE", None)
    try:
        yield
    finally:
        if remote is not None:
            os.environ["SPARK_REMOTE"] = remote

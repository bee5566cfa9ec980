"""A user's settings of Spark are kept; ours are for a local Spark without any."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from shoal.pipeline import session
from shoal.pipeline.session import spark_session, which_spark
from shoal.pipeline.tasks import run_tasks
from shoal.pipeline.user_settings import UserSettings, user_settings

OURS = {
    "spark.sql.shuffle.partitions": "8",
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
}


class Asked(Exception):  # noqa: N818  # no error
    """Settings with which Spark would start."""


class Builder:
    """Notes what a session would be made of, in the place of Spark's builder."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def appName(self, name: str) -> Builder:  # noqa: N802
        self.settings = {}
        return self

    def master(self, master: str) -> Builder:
        return self.config("spark.master", master)

    def config(self, key: str, value: str) -> Builder:
        self.settings[key] = value
        return self

    def getOrCreate(self) -> None:  # noqa: N802
        raise Asked(self.settings)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No setting of a user, and no Spark that would be asked."""
    for name in ("SPARK_REMOTE", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "")

    class Sessions:
        builder = Builder()
        getActiveSession = staticmethod(lambda: None)  # noqa: N815

    monkeypatch.setattr(session, "SparkSession", Sessions)
    return monkeypatch


def started(**options: object) -> dict[str, str]:
    with pytest.raises(Asked) as asked, spark_session("test", **options):  # type: ignore[arg-type]
        pass
    return dict(asked.value.args[0])


def test_a_local_spark_has_our_settings_where_the_user_has_none(
    environment: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = started()
    assert found.items() >= (OURS | {"spark.master": "local[*]"}).items()
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.driver.memory   9g\nspark.ui.enabled=true\nother.key x\n"
    )
    environment.setenv("SPARK_CONF_DIR", str(tmp_path))
    found = started(conf={"spark.sql.shuffle.partitions": "40"})
    assert found["spark.sql.shuffle.partitions"] == "40"
    assert found.keys().isdisjoint({"spark.driver.memory", "spark.ui.enabled"})
    assert started(memory="1g")["spark.driver.memory"] == "1g"


@pytest.mark.parametrize("by", ["option", "conf", "arguments", "defaults"])
def test_a_cluster_has_the_users_settings_alone(
    environment: pytest.MonkeyPatch, tmp_path: Path, by: str
) -> None:
    options: dict[str, object] = {}
    match by:
        case "option":
            options["master"] = "spark://mill:7077"
        case "conf":
            options["conf"] = {"spark.master": "spark://mill:7077"}
        case "arguments":
            environment.setenv("PYSPARK_SUBMIT_ARGS", "--master spark://mill:7077 pyspark-shell")
        case "defaults":
            (tmp_path / "spark-defaults.conf").write_text("spark.master spark://mill:7077\n")
            environment.setenv("SPARK_CONF_DIR", str(tmp_path))
    found = started(**options)
    assert found.pop("spark.master") == "spark://mill:7077"
    assert found.keys().isdisjoint(OURS.keys() | {"spark.local.dir", "spark.driver.host"})
    assert found["spark.sql.session.timeZone"] == "UTC"


def test_workers_python_is_this_one_only_for_our_local_spark(
    environment: pytest.MonkeyPatch,
) -> None:
    import os

    started(master="spark://mill:7077")
    assert os.environ["PYSPARK_PYTHON"] == ""
    environment.setenv("PYSPARK_PYTHON", "/opt/python")
    started()
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    environment.setenv("PYSPARK_PYTHON", "")
    started()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_under_spark_submit_nothing_but_what_results_depend_on_is_set(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert started() == session.SQL_SETTINGS
    assert which_spark() == "the master of spark-submit"


def test_a_setting_that_results_depend_on_is_refused(environment: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(ValueError, match=r"spark\.sql\.ansi\.enabled has to be true"),
        spark_session("test", conf={"spark.sql.ansi.enabled": "false"}),
    ):
        pass


def test_no_server_of_connect_is_told_of_at_once(environment: pytest.MonkeyPatch) -> None:
    with (
        pytest.raises(ValueError, match=r"^sc://127\.0\.0\.1:1: no Spark Connect server answers"),
        spark_session("test", master="sc://127.0.0.1:1/;token=secret"),
    ):
        pass
    environment.setenv("SPARK_REMOTE", "sc://127.0.0.1:1/;token=x")
    assert which_spark() == "sc://127.0.0.1:1, by SPARK_REMOTE"
    assert which_spark("local[1]") == "local[1]"
    assert user_settings() == UserSettings({}, "sc://127.0.0.1:1/;token=x")


def test_a_view_has_what_the_notebook_set(spark: SparkSession) -> None:
    # Another test may have made a session, which is the active one since.
    users = session._users_session() or spark
    with spark_session("earlier"):
        pass  # Its view stays the active session.
    run_tasks(users, [int], [1.0], progress=lambda _: None)  # As does the session of tasks.
    before = users.conf.get("spark.sql.shuffle.partitions") or ""
    users.conf.set("spark.sql.shuffle.partitions", "17")
    try:
        with spark_session("inner"), spark_session("inner") as inner:
            assert inner.conf.get("spark.sql.shuffle.partitions") == "17"
            assert inner.conf.get("spark.sql.ansi.enabled") == "true"
    finally:
        users.conf.set("spark.sql.shuffle.partitions", before)

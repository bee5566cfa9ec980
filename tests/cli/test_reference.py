"""The reference equals the code: run `make docs` if this fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.client.bridges import bridge_file
from shoal.experiments.scenarios import scenario
from shoal.overlays import registry
from shoal.pipeline.sources import declaration
from shoal.runtime import network_file
from tools.reference.texts import read_doc

ROOT = Path(__file__).parents[2]


def test_the_pages_are_as_the_code_says() -> None:
    # By itself: systems that tests add are none of the pages.
    environment = {key: value for key, value in os.environ.items() if key != registry.FURTHER}
    found = subprocess.run(
        [sys.executable, "-m", "tools.reference", "--check"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (found.returncode, found.stderr) == (0, "")


NAMED = [each.PAGE for each in (scenario, registry, declaration, network_file, bridge_file)]


@pytest.mark.parametrize("page", NAMED)
def test_errors_name_pages_that_are_there(page: str) -> None:
    assert (ROOT / page).is_file()


def test_a_docstring_is_prose_and_a_text_for_each_key() -> None:
    doc = read_doc(
        """What to keep;  ValueError names the one that is wrong.

        rows, seconds   when the next file
                        is begun
        keep            how many

        More of it.
        """
    )
    assert doc.prose == "What to keep.\n\nMore of it."
    assert doc.keys == {
        "rows": "when the next file is begun",
        "seconds": "when the next file is begun",
        "keep": "how many",
    }

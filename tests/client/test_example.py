"""The README's example of the Python client runs as written."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

import shoal
from tests.runtime.front_ends.test_mqtt_front_end import mqtt
from tests.runtime.live import on_loop

README = Path(__file__).parents[2] / "README.md"


@on_loop
async def test_the_readmes_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (block,) = [block for block in blocks if "shoal.Client(" in block]
    async with mqtt() as network:
        text = block.replace("127.0.0.1:1883", network.servers["B1"])
        assert text != block
        names: dict[str, Any] = {"shoal": shoal}
        exec("async def example():\n" + textwrap.indent(text, "    "), names)
        await names["example"]()
    assert capsys.readouterr().out == "{'dep_delay': '41'}\n"

"""An exception in a broker's code is in its status, metrics and log."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
from pathlib import Path
from typing import Any

import pytest

from shoal.overlays.registry import SYSTEMS
from shoal.runtime.operations.exceptions import Exceptions
from tests.faulty import SYSTEM
from tests.runtime.processes import SHOAL, processes, wait_until


def test_a_systems_exception_is_in_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SYSTEMS, SYSTEM.name, SYSTEM)
    monkeypatch.setenv("SHOAL_SYSTEMS", "tests.flooding,tests.faulty")
    with processes(tmp_path, 2, system=SYSTEM.name) as network:

        def found() -> dict[str, Any]:
            said: dict[str, Any] = network.status("B2")["exceptions"]
            return said

        with network.client("B1", "p") as publisher:
            publisher.paho.publish("t", b"1", qos=1)
            wait_until(lambda: found()["count"] > 0)
        said = found()["last"]
        assert said.startswith("KeyError: 'a slip' (")
        assert "faulty.py, line " in said
        wait_until(lambda: network.is_ready("B1") and network.is_ready("B2"))
        words = [*SHOAL, "status", str(network.path)]
        shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        (line,) = [line for line in shown.splitlines() if line.startswith("B2: ")]
        assert said in line


def test_exceptions_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    exceptions = Exceptions()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(exceptions.on_exception)
        loop.call_soon(lambda: 1 / 0)
        loop.call_soon(json.loads, "{")
        # A warning of asyncio's is none.
        loop.call_exception_handler({"message": "a task was destroyed"})
        await asyncio.sleep(0)

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert exceptions.count == 2
    assert exceptions.last.startswith("JSONDecodeError: Expecting property name")
    assert "decoder.py, line" in exceptions.last
    assert "ZeroDivisionError" in caplog.text

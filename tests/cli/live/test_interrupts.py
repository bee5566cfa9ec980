"""Ctrl-C ends a command that is a client, at any moment."""

from __future__ import annotations

import _thread
import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cli.support.interrupts import run_until_interrupted

# Far more than it takes on a busy machine; nothing is wrong before.
PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def _sigint() -> Iterator[None]:
    """Who runs the tests in the background of a shell has it ignored, and so have all it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_that_comes_as_the_loop_goes_to_sleep_is_heard() -> None:
    """`interrupt_main` notes a signal, and wakes nobody who sleeps."""
    is_heard = threading.Event()
    slept_on = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def interrupt() -> None:
            time.sleep(0.5)  # the loop sleeps by then
            _thread.interrupt_main()
            if not is_heard.wait(PATIENCE_S / 4):
                slept_on.append(True)
                loop.call_soon_threadsafe(lambda: None)

        threading.Thread(target=interrupt).start()
        try:
            await loop.create_future()
        finally:
            is_heard.set()

    with pytest.raises(KeyboardInterrupt):
        run_until_interrupted(main())
    assert not slept_on


def test_a_name_that_nobody_resolves_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over, outwaited = threading.Event(), []
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: outwaited.append(is_over.wait(PATIENCE_S / 4))
    )

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, signal.raise_signal, signal.SIGINT)
        await loop.getaddrinfo("broker.example", 1883)

    with pytest.raises(KeyboardInterrupt):
        run_until_interrupted(main())
    assert not outwaited
    is_over.set()


def test_whose_output_nobody_reads_ends(tmp_path: Path) -> None:
    """A broker that floods it, and a pipe that is full."""
    script = tmp_path / "flooded.py"
    script.write_text(FLOODED, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    assert process.stderr.readline() == b"the pipe is full\n"
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.communicate()


# `shoal subscribe` with a client that is given more than a pipe takes.
FLOODED = """
import asyncio, os, sys, threading, time
from shoal.cli.commands import subscribe
from shoal.cli.support.live import clients
from shoal.client.subscription import Message


class Flooded:
    address = "here"

    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, *_):
        assert kind is KeyboardInterrupt

    def subscribe(self, *_, **__):
        return self

    async def get(self):
        return Message("a", b"x" * 1_000, 0, False, {}, None)


def say_when_full():
    taken = -1
    while taken != (taken := written[0]):
        time.sleep(0.5)
    os.write(2, b"the pipe is full\\n")


written = [0]
line = subscribe._line


def counted(*given):
    written[0] += 1
    if written[0] == 1:
        threading.Thread(target=say_when_full, daemon=True).start()
    return line(*given)


subscribe._line = counted
clients.Connecting.client = lambda self: Flooded()
sys.stderr = open(os.devnull, "w")
subscribe.subscribe("", "#", broker="127.0.0.1:1")
"""

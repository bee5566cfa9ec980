"""Commands of the operator's that start and end brokers' processes, for a system that asks for it.

A command runs without a shell, one at a time for each broker, and is killed with its children when
its time is over. `ProcessAnswered` brings the outcome to the machine.

With `by_supervisor` no command runs: the last order for each broker is in the status, and the
program that supervises the brokers on this machine (`shoal up`) follows it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from shoal.broker.effects import EndBroker, ProcessAnswered, StartBroker
from shoal.model import BrokerId
from shoal.runtime.network_sections import ScalingSection

# The last characters of a failed command's output that are reported.
MOST_CHARACTERS = 300
# A pipe that a command's children keep open is not waited for.
_REST_S = 0.5

_log = logging.getLogger(__name__)


class ProcessCommands:
    """Those of one broker; `bring` gives the machine the outcomes."""

    def __init__(
        self, section: ScalingSection, bring: Callable[[ProcessAnswered], None], now_us: int
    ) -> None:
        self._section = section
        self._bring = bring
        self._tasks: dict[BrokerId, asyncio.Task[None]] = {}
        # The last order for each broker: whether it starts, and its number.
        self._orders: dict[BrokerId, tuple[bool, int]] = {}
        # Orders of an earlier incarnation have other numbers.
        self._number = now_us

    @property
    def status(self) -> list[dict[str, Any]]:
        """The last order for each broker, with a number that grows."""
        return [
            {"broker": name, "starts": starts, "number": number}
            for name, (starts, number) in self._orders.items()
        ]

    def follow(self, order: StartBroker | EndBroker) -> None:
        """Run the command for an order; the outcome comes later."""
        name, starts = order.broker, isinstance(order, StartBroker)
        self._number += 1
        self._orders[name] = starts, self._number
        former = self._tasks.get(name)
        self._tasks[name] = asyncio.ensure_future(self._follow(name, starts, former))

    async def _follow(
        self, name: BrokerId, starts: bool, former: asyncio.Task[None] | None
    ) -> None:
        if former is not None:
            await asyncio.wait((former,))
        section = self._section
        command = section.start if starts else section.end
        problem = "" if section.by_supervisor else await self._run(command, name)
        verb = "starts" if starts else "ends"
        _log.info(f"{verb} a broker", extra={"name_of_broker": name, "problem": problem})
        self._bring(ProcessAnswered(name, problem, is_end=not starts))

    async def _run(self, command: Sequence[str], name: BrokerId) -> str:
        """Return why it has failed, or an empty text."""
        words = [word.replace("{broker}", name) for word in command]
        if not words:
            return "the network file has no command for it ([scaling])"
        # With a pipe of asyncio's own, `wait` waits for processes that a command leaves behind.
        try:
            output = await CommandOutput.open()
        except OSError as error:
            return f"{words[0]}: {error.strerror}"
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output.writer,
                stderr=output.writer,
                start_new_session=True,
            )
        except OSError as error:
            return f"{words[0]}: {error.strerror}"
        finally:
            os.close(output.writer)
        try:
            async with asyncio.timeout(self._section.timeout_s):
                code = await process.wait()
        except (TimeoutError, asyncio.CancelledError) as error:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, asyncio.CancelledError):
                raise
            await process.wait()
            said = await output.last_words()
            return f"{words[0]} had not ended after {self._section.timeout_s:g} s" + said
        said = await output.last_words()
        if code == 0:
            return ""
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"{words[0]}: {how}" + said

    async def stop(self) -> None:
        """Kill the commands that still run."""
        for task in self._tasks.values():
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks.values())


class CommandOutput:
    """The last characters that a command writes to `writer`.

    The pipe is read to its end, also by a process that a command has left behind: else that process
    could not write any more.
    """

    def __init__(self, stream: asyncio.StreamReader, writer: int) -> None:
        self.writer = writer
        self._kept = b""
        self._reading = asyncio.ensure_future(self._read(stream))
        _READING.add(self._reading)
        self._reading.add_done_callback(_READING.discard)

    @classmethod
    async def open(cls) -> CommandOutput:
        """Make a pipe; the caller closes `writer`."""
        reader, writer = os.pipe()
        stream = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reader, "rb", 0)
        )
        return cls(stream, writer)

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while part := await stream.read(4_096):
            self._kept = (self._kept + part)[-4 * MOST_CHARACTERS :]

    async def last_words(self) -> str:
        """Return them behind a colon, or an empty text; a process may keep the pipe open."""
        await asyncio.wait((self._reading,), timeout=_REST_S)
        words = " ".join(self._kept.decode(errors="replace").split())[-MOST_CHARACTERS:]
        return f": {words}" if words else ""


# Tasks that read pipes: a loop has weak references only.
_READING: set[asyncio.Task[None]] = set()

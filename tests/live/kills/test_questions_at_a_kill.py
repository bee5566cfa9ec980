"""An operator's questions to five brokers, after one was killed and one restarted.

The brokers are a line, with storage; B4 is restarted only after the questions.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import re
import shlex
import signal
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path

import pytest

from shoal.cli.main import main
from shoal.client import Client
from shoal.client.terms import Keep
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import Processes, processes, wait_until

# An operator's commands while B4 is down: exit code, and parts of the answer.
WHILE_B4_IS_DEAD = [
    # Is all well? Which broker is down, since when, and how much is queued for it?
    ("status {file}", 1, r"(?m)^ *B4 +no answer"),
    ("status {file}", 1, r"(?m)^B4 does not answer at 127\.0\.0\.1:\d+: Connection refused$"),
    (
        "status {file}",
        1,
        r"(?m)^B3: the link to B4 is down.* \(\d+ (s|min)\); \d+ bytes wait for B4",
    ),
    (
        "status {file}",
        1,
        r"(?ms)^B5: the link to B4 is down.* \(\d+ (s|min)\); next: .*^ *B5 +not r",
    ),
    ("status {file} --json", 1, r'"B4": null'),
    # Where is a client, and which clients are at the dead broker?
    ("clients {file} dashboard", 0, r"dashboard .* B5 "),
    ("clients {file} nightly", 1, r"not asked: B4 does not answer at 127\.0\.0\.1:\d+"),
    # Why does it not get that message?
    ("why {file} dashboard late --at B1", 1, r"(?s)B4 does not answer.*it does not reach"),
    ("why {file} dashboard late --at B5", 0, r"(?m)^it reaches dashboard"),
    ("why {file} nightly late --at B1", 1, r"no broker that answers \(not B4\) knows a client"),
    # What can be done with it?
    ("move {file} dashboard B4", 2, r"^shoal: B4 takes no clients: it does not answer"),
    ("move {file} nightly B1", 2, r"no client nightly is connected to a broker that answers"),
    ("drain {file} B4", 2, r"(?s)^shoal: B4 does not answer at .*: start it, then drain it"),
    ("undrain {file} B4", 2, r"(?s)^shoal: B4 does not answer .* as it is started again"),
    ("leave {file} B4", 2, r"^shoal: B4 does not answer at 127\.0\.0\.1:\d+"),
    # The other brokers can be maintained.
    ("drain {file} B2", 0, r"B2 is drained"),
    ("undrain {file} B2", 0, r"B2 takes clients in"),
    ("check {file}", 0, r"brokers 5, links 4"),
]


def answer(network: Processes, command: str) -> tuple[int, str]:
    said = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(shlex.split(command.format(file=network.path)))
        except SystemExit as end:
            code = int(end.code or 0)
    return code, said.getvalue()


def problem(network: Processes, command: str, code: int, words: str) -> str:
    """The fault of an answer; empty if there is none."""
    found, said = answer(network, command)
    return "" if found == code and re.search(words, said) else f"{command}: {found}\n{said}"


def asked(network: Processes, broker: str, path: str) -> tuple[int, str]:
    """The answer of an admin port."""
    url = f"http://{network.network.broker(broker).admin}{path}"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as found:
            return int(found.status), found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def publish(network: Processes, broker: str, *payloads: bytes) -> None:
    async with Client(network.network.broker(broker).mqtt, "radar") as radar:
        for payload in payloads:
            await radar.publish("late", payload)


async def ask_all(network: Processes) -> None:
    """Questions are asked outside the clients' loop."""
    at = {each.name: each.mqtt for each in network.network.brokers}
    async with Client(at["B4"], "nightly", keep=Keep(seconds=3_600)) as nightly:
        await nightly.subscribe("late").granted()
    async with Client(at["B5"], "dashboard") as dashboard, dashboard.subscribe("late") as late:
        await late.granted()
        await asyncio.to_thread(network.knows, "B1", len(at) + 2)
        network.kill("B4")
        # Acknowledged although its subscribers are behind B4: it is on B3's disk.
        await publish(network, "B1", b"1", b"2")
        await asyncio.to_thread(ask_of_the_dead, network)
        # A restarted broker knows at least since when it has waited.
        network.kill("B3", how=signal.SIGTERM)
        network.start("B3")
        words = r"B4 is down since the start.* \(\d+ (s|min)\); \d+ bytes wait for B4"
        shown = partial(problem, network, "status {file}", 1, words)
        await asyncio.to_thread(wait_until, lambda: not shown())
        network.start("B4")
        await asyncio.to_thread(wait_until, lambda: answer(network, "status {file}")[0] == 0)
        async with asyncio.timeout(PATIENCE_S):
            assert [(await late.get()).payload for _ in range(2)] == [b"1", b"2"]
    words = r"nightly .* B4 .*away for"
    assert not await asyncio.to_thread(problem, network, "clients {file} nightly", 0, words)
    # A broker that returns as another process comes up like any other link.
    restarted = network.log("B5").partition('"broker restarted"')[2]
    assert '"event": "link up", "neighbour": "B4"' in restarted


def ask_of_the_dead(network: Processes) -> None:
    wait_until(lambda: "link down" in network.log("B3") and "link down" in network.log("B5"))
    wait_until(lambda: bool(re.search(r"is down.* \([1-9]", answer(network, "status {file}")[1])))
    problems = [problem(network, *each) for each in WHILE_B4_IS_DEAD]
    assert not any(problems), "\n".join(filter(None, problems))
    code, said = asked(network, "B3", "/ready")  # it has another link
    assert (code, "link to B4" in said) == (200, True), said
    code, said = asked(network, "B3", "/metrics")
    assert 'shoal_link_up{neighbour="B4"} 0.0' in said
    assert 'shoal_link_up{neighbour="B2"} 1.0' in said
    assert re.search(r'shoal_link_spooled_bytes\{neighbour="B4"\} [1-9]', said)


def test_an_operators_questions_are_answered_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with processes(tmp_path, 5) as network:
        asyncio.run(asyncio.wait_for(ask_all(network), 6 * PATIENCE_S))

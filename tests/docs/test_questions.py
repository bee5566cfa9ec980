"""The operator's twenty questions are answered for three brokers with TLS, users and operators."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from shoal.cli.main import main
from shoal.client import Client, ClientError, Tls
from shoal.client.terms import Keep
from shoal.runtime.free_ports import free_ports
from shoal.runtime.front_ends.entry.passwords import password_line
from shoal.runtime.network_file import dump_network, parse_network
from tests.docs.blocks import ROOT
from tests.docs.reader import take_interrupts
from tests.runtime.forked import Forked
from tests.runtime.live import PATIENCE_S
from tests.runtime.processes import SHOAL

PAGE = (ROOT / "docs" / "how-to" / "night.md").read_text(encoding="utf-8")
QUESTIONS = {
    int(number): command
    for number, command in re.findall(r"^\| (\d+) \| .+ \| `(.+)` \|$", PAGE, re.MULTILINE)
}
BROKERS = "B1", "B2", "B3"
# The page's ports of the first broker.
ADMIN, MQTTS = 8081, 8883
# The exit code of each answer, and parts of its text.
ANSWERS: dict[int, tuple[int, str]] = {
    1: (0, r"B2\W+ready\W+\d+ (s|min)\W+B1, B3"),
    3: (0, r'(?s)"version": "\d.*"protocol": \d.*"is_draining": false'),
    4: (0, r'"ready":true'),
    5: (
        0,
        r"(?s)process_resident_memory_bytes \d.*"
        r'shoal_refusals_total{reason="[\w ]+",what="connect refused"} 1'
        r'.*shoal_certificate_ends_timestamp_seconds{file=".*/B1.pem",use="clients"} \d',
    ),
    6: (0, r"dashboard\W+bob\W+B2\W+127\.0\.0\.1:\d+ \(mqtts\)"),
    7: (0, r"nightly .* 3 .*\n.*dashboard"),
    8: (0, r"nightly\W+bob\W+B3\W+away for \d+ s"),
    9: (0, r"dashboard .* 7 .*\n.*nightly"),
    10: (1, r"FALSE +dep_delay > 30: dep_delay is 20"),
    11: (0, r"(?m)^it reaches dashboard"),
    12: (0, r'"event": ?"connect refused".*"user": ?"eve"'),
    13: (0, r""),
    14: (0, r"flights/UA"),
    15: (0, r"dashboard has moved from B2 to B3"),
    16: (0, r"B3 is drained"),
    17: (0, r"B3 takes clients in"),
    18: (0, r""),
    19: (0, r"notAfter="),
    20: (0, r"B3 has left"),
}


class Scene:
    """The network's folder and its ports; `changes` are applied to its file."""

    def __init__(self, folder: Path, **changes: object) -> None:
        self.folder = folder
        authority = trustme.CA()
        authority.cert_pem.write_to_path(folder / "ca.pem")
        self.tls = Tls(authority=str(folder / "ca.pem"))
        ports = iter(free_ports("127.0.0.1", 3 * len(BROKERS)))
        sections = [
            {"name": name}
            | {key: f"127.0.0.1:{next(ports)}" for key in ("peers", "mqtts", "admin")}
            for name in BROKERS
        ]
        for name in BROKERS:
            issued = authority.issue_cert(name, "127.0.0.1", common_name=name)
            issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
            issued.private_key_pem.write_to_path(folder / f"{name}.key")
        (folder / "users").write_text(password_line("bob", "secret"))
        operators = password_line("ann", "kept"), password_line("prometheus", "scraped")
        (folder / "operators").write_text("\n".join(operators))
        own = {"certificate": "{broker}.pem", "key": "{broker}.key"}
        network = parse_network(
            {
                "name": "night",
                "brokers": sections,
                "links": [["B1", "B2"], ["B2", "B3"]],
                "tls": {"authority": "ca.pem", **own},
                "client_tls": own,
                "admin": {
                    "authority": "ca.pem",
                    "passwords": "operators",
                    "orders": ["ann"],
                    **own,
                },
                "access": {"passwords": "users"},
                "storage": {"folder": "data", "sync": "never"},
            }
            | changes
        )
        self.path = folder / "network.toml"
        self.path.write_text(dump_network(network), encoding="utf-8")
        self.mqtts = {broker.name: f"mqtts://{broker.mqtts}" for broker in network.brokers}
        first = network.brokers[0]
        self._ports = {ADMIN: first.admin, MQTTS: first.mqtts}

    def client(self, broker: str, name: str, **options: object) -> Client:
        given = {"username": "bob", "password": "secret", **options}
        return Client(self.mqtts[broker], name, tls=self.tls, **given)  # type: ignore[arg-type]

    def command(self, number: int) -> str:
        text = QUESTIONS[number]
        for port, address in self._ports.items():
            text = text.replace(f"127.0.0.1:{port}", address)
        return text

    def answer(self, number: int) -> tuple[int, str]:
        """The exit code of a command of the page, and its output."""
        text = self.command(number)
        if not text.startswith("shoal "):
            done = subprocess.run(
                text, shell=True, cwd=self.folder, capture_output=True, text=True, check=False
            )
            return done.returncode, done.stdout + done.stderr
        said = io.StringIO()
        code = 0
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                main(shlex.split(text)[1:])
            except SystemExit as end:
                code = int(end.code or 0)
        return code, said.getvalue()


@asynccontextmanager
async def night(folder: Path) -> AsyncIterator[Scene]:
    """Three brokers, a connected, a disconnected and a refused client."""
    scene = Scene(folder)
    brokers = [
        Forked(("serve", str(scene.path), "--broker", name), folder / f"{name}.log")
        for name in BROKERS
    ]
    try:
        await until_true(lambda: asyncio.to_thread(lambda: scene.answer(1)[0] == 0))
        with contextlib.suppress(ClientError):
            async with scene.client("B1", "spy", username="eve"):
                raise AssertionError("eve is let in")
        async with scene.client("B3", "nightly", keep=Keep(seconds=3_600)) as nightly:
            await nightly.subscribe("reports").granted()
        async with (
            scene.client("B2", "dashboard") as dashboard,
            dashboard.subscribe("flights/#", "dep_delay > 30") as late,
        ):
            await late.granted()
            async with scene.client("B1", "radar") as radar:
                for _ in range(3):
                    await radar.publish("reports", b"report")
            for _ in range(7):
                await dashboard.publish("noise", b"noise")
            yield scene
    finally:
        for broker in brokers:
            broker.send_signal(signal.SIGTERM)
        for broker in brokers:
            broker.wait(PATIENCE_S)
            broker.stdout.close()


async def until_true(ask: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await ask():
            await asyncio.sleep(0.05)


async def shows(log: Path, text: str, times: int) -> bool:
    return log.read_text(encoding="utf-8").count(text) >= times


def test_the_page_has_twenty_questions() -> None:
    assert sorted(QUESTIONS) == list(range(1, 21))
    assert set(QUESTIONS) - set(ANSWERS) == {2}  # --watch ends by Ctrl-C


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_each_question_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("SHOAL_OPERATOR", "ann")
    monkeypatch.setenv("SHOAL_OPERATOR_PASSWORD", "kept")
    monkeypatch.setenv("SHOAL_PASSWORD", "secret")

    async def ask() -> None:
        async with night(tmp_path) as scene:
            log = tmp_path / "watch"
            with log.open("wb") as out:
                words = [*SHOAL, *shlex.split(scene.command(2))[1:]]
                environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
                watching = subprocess.Popen(
                    words, stdout=out, stderr=out, env=environment, preexec_fn=take_interrupts
                )
            try:
                await until_true(lambda: shows(log, "night, ", times=2))
            finally:
                watching.send_signal(signal.SIGINT)
            assert await asyncio.to_thread(watching.wait, PATIENCE_S) == 0
            for number, (code, words) in ANSWERS.items():
                found, said = await asyncio.to_thread(scene.answer, number)
                assert found == code, f"{number}: {said}"
                assert re.search(words, said), f"{number}: {said}"
                if number == 3:
                    assert set(json.loads(said)) == set(BROKERS)

    asyncio.run(asyncio.wait_for(ask(), 3 * PATIENCE_S))

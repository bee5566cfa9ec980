"""The options by which commands connect: over TLS, as whom; what cannot be, in words."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from shoal.cli import main as cli
from shoal.cli.support.live.clients import Connecting
from shoal.client import Client, Tls
from shoal.client.endpoint import read_endpoint
from tests.client.test_endpoints import Files, listening
from tests.runtime.live import on_asyncio


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        cli.main(list(words))
    return int(caught.value.code or 0)


@on_asyncio
async def test_publish_and_subscribe_over_tls_and_websocket(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = Files(tmp_path)
    authority = ("--authority", files.authority)
    async with listening(files) as where:
        secure, web = f"mqtts://{where['mqtts']}", f"ws://{where['websocket']}"
        heard = asyncio.create_task(
            asyncio.to_thread(
                run, "subscribe", "x > 1", "--broker", secure, *authority, "--count", "1"
            )
        )
        while "subscribed at" not in capfd.readouterr().err:
            await asyncio.sleep(0.01)
        for x, words in (("1", ()), ("2", authority)):
            broker = secure if words else web
            code = await asyncio.to_thread(
                run, "publish", "a", "late", "-a", f"x={x}", "--broker", broker, *words
            )
            assert code == 0
        assert await heard == 0
        assert capfd.readouterr().out == "a late x=2\n"
        plain = f"{where['mqtts']}"
        assert await asyncio.to_thread(run, "publish", "a", "--broker", plain) == 2
        assert "speaks TLS; use mqtts://" in capfd.readouterr().err
        async with Client(secure, tls=Tls(authority=files.authority)) as client:
            assert client.is_connected


@on_asyncio
async def test_publish_and_subscribe_by_mqtt_3_1_1(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = Files(tmp_path)
    older = ("--authority", files.authority, "--mqtt", "3.1.1")
    async with listening(files) as where:
        broker = ("--broker", f"mqtts://{where['mqtts']}", *older)
        # Where a filter stands in the topic filter, it needs no words of MQTT 5.
        topic = ("-t", "$where/x > 1/#", "--count", "1")
        heard = asyncio.create_task(asyncio.to_thread(run, "subscribe", *topic, *broker))
        while "subscribed at" not in capfd.readouterr().err:
            await asyncio.sleep(0.01)
        for x in (1, 2):
            said = ("publish", "a", f'{{"x": {x}}}', "--json", *broker)
            assert await asyncio.to_thread(run, *said) == 0
        assert await heard == 0
        assert capfd.readouterr().out.startswith('a {"x": 2}')
        for words, problem in (
            (("subscribe", "x > 1"), "MQTT 3.1.1 has no filters on content; use 5"),
            (("publish", "a", "-a", "x=1"), "MQTT 3.1.1 has no attributes; publish them as JSON"),
        ):
            assert await asyncio.to_thread(run, *words, *broker) == 2
            assert problem in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--broker", "http://x"), "--broker: 'http://x': http is no way to a broker"),
        (("--broker", "mqtts://x", "--authority", "none.pem"), "--authority: no file none.pem"),
        (("--authority", __file__), "is not over TLS; write mqtts:// or wss:// before it"),
        (("--mqtt", "4"), "--mqtt 4: is not 5 or 3.1.1"),
        (("--broker", "mqtts://x", "--certificate", __file__), "give both or neither"),
        (("--broker", "mqtts://x", "--authority", __file__), f"--authority: {__file__}: "),
    ],
)
def test_what_cannot_be_is_said(
    words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("publish", "a", *words) == 2
    assert problem in capsys.readouterr().err


def test_stderr_says_what_clients_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Once, however many clients there were."""
    for _ in range(2):
        Connecting(read_endpoint("localhost"), None, None, Tls(), "5").client()
    logging.getLogger("shoal.client.client").info("%s: connected again", "localhost")
    assert capsys.readouterr().err == "shoal: localhost: connected again\n"

"""Connection options of commands: TLS, users, and contradictions as errors."""

from __future__ import annotations

import asyncio
import io
import logging
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from shoal.cli import main as cli
from shoal.cli.support.live.clients import Connecting
from shoal.client import Client, Tls
from shoal.client.endpoint import read_endpoint
from tests.client.test_endpoints import Files, listening
from tests.runtime.live import on_asyncio


@pytest.fixture(autouse=True)
def _sigint() -> Iterator[None]:
    """Who runs the tests in the background of a shell has it ignored, and so have all it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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


@pytest.mark.parametrize(
    ("lines", "said", "published"),
    [
        (b"ok1\nb\xffad\r\nok2\n", "", [b"ok1", b"b\xffad", b"ok2"]),
        (b'{"a":1}\n{"a":NaN}\n{"a":2}\n', 'line 2: {"a":NaN} is not JSON: NaN', [b'{"a":1}']),
        (b'{"a":1}\n{\n', "line 2: { is not JSON: ", [b'{"a":1}']),
    ],
)
@on_asyncio
async def test_lines_are_published_as_they_are_until_one_is_wrong(
    lines: bytes,
    said: str,
    published: list[bytes],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    files = Files(tmp_path)
    secure = Tls(authority=files.authority)
    async with listening(files) as where:
        broker = f"mqtts://{where['mqtts']}"
        async with Client(broker, tls=secure) as client:
            heard = client.subscribe("t")
            await heard.granted()
            words = ("publish", "t", "-", "--broker", broker, "--authority", files.authority)
            words += ("--json",) if said else ()
            assert await asyncio.to_thread(run, *words) == (2 if said else 0)
            assert [(await heard.get()).payload for _ in published] == published
    error = capfd.readouterr().err
    assert said in error
    assert said or not error


def test_a_payload_that_is_not_json_is_said_before_anybody_is_asked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for payload in ("{", '{"x": NaN}', '{"x": Infinity}'):
        assert run("publish", "t", payload, "--json", "--broker", "127.0.0.1:1") == 2
        assert f"--json: {payload} is not JSON: " in capsys.readouterr().err


@on_asyncio
async def test_ctrl_c_ends_a_recording_without_a_word_but_its_figures(tmp_path: Path) -> None:
    """It told of a task whose exception nobody had asked for."""
    files = Files(tmp_path)
    async with listening(files) as where:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "shoal.cli.main", "record", "--out", str(tmp_path / "out")),
            *("--broker", f"mqtts://{where['mqtts']}", "--authority", files.authority),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        assert (await process.stderr.readline()).startswith(b"records # at ")
        process.send_signal(signal.SIGINT)
        out, error = await process.communicate()
    assert process.returncode == 0
    assert out.startswith(b"0 publications of 0 publishers -> ")
    assert error == b"shoal: warning: there are no publications\n"


def test_stderr_says_what_clients_log(capsys: pytest.CaptureFixture[str]) -> None:
    """Once, however many clients there were."""
    for _ in range(2):
        Connecting(read_endpoint("localhost"), None, None, Tls(), "5").client()
    logging.getLogger("shoal.client.client").info("%s: connected again", "localhost")
    assert capsys.readouterr().err == "shoal: localhost: connected again\n"

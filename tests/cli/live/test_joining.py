"""Users' mistakes about joins and leaves of brokers are errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.networks import read_join, read_network, with_broker
from shoal.overlays.registry import SYSTEMS
from shoal.runtime.addresses import Address
from shoal.runtime.links.joining import JoinAttempt
from shoal.runtime.operations.caller import Caller
from tests.cli.live.test_up import FILE, run

HERE = ["peers=127.0.0.1:7009", "mqtt=127.0.0.1:1889"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "network.toml"
    path.write_text(f"access = {{anonymous = true}}\n{FILE}")
    return path


def test_a_new_broker_has_its_own_listeners(path: Path) -> None:
    network = with_broker(read_network(path), "B9", "B2", HERE)
    assert network.broker("B9").mqtt == "127.0.0.1:1889"
    assert network.neighbours("B9") == ()
    assert read_join(network, "B2") == JoinAttempt("B2", Address("127.0.0.1", 7_002))
    assert read_join(network, "B7=far:7") == JoinAttempt("B7", Address("far", 7))


@pytest.mark.parametrize(
    ("listen", "problem"),
    [
        (["mqtt=127.0.0.1:1889"], "--listen: Object missing required field `peers`"),
        ([*HERE, "zzz=1"], "--listen: Object contains unknown field `zzz`"),
        ([*HERE, "admin"], "--listen admin: write KEY=HOST:PORT"),
        (["peers=nowhere"], "peers: 'nowhere' is not host:port"),
        (
            ["peers=127.0.0.1:7002"],
            r"brokers\[2\].peers: 127.0.0.1:7002 is brokers\[1\].peers already",
        ),
        (["peers=10.0.0.1:7009"], "10.0.0.1:7009 is open to other machines; it needs"),
    ],
)
def test_what_is_wrong_with_its_listeners_is_said(
    path: Path, listen: list[str], problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        with_broker(read_network(path), "B9", "B2", listen)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (
            ["serve", "-b", "B9"],
            "no broker 'B9'; there are B1, B2; one that has joined needs the --join and --listen",
        ),
        (["serve", "-b", "B9", "--join", "B1"], "a new one needs --listen peers=HOST:PORT"),
        (["serve", "-b", "B9", "--listen", HERE[0]], "--listen is for a broker that joins"),
        (["serve", "-b", "B1", "--join", "B2", "--listen", HERE[0]], "the network file says where"),
        (["serve", "-b", "B1", "--join", "B7"], "lists no broker 'B7'; say B7=HOST:PORT"),
        (["serve", "-b", "B1", "--join", "B1"], "--join: B1 cannot join over itself"),
        (["serve", "-b", "B1", "--join", "B7=far"], "--join: 'far' is not host:port"),
        (["leave", "B1"], "broker 'B1' has no admin address"),
        (["leave", "B9"], "no broker that answers knows it; name its --admin"),
        (["leave", "B9", "--admin", "far"], "--admin: 'far' is not host:port"),
        (["leave", "B9", "--admin", "127.0.0.1:1"], "B9 does not answer at 127.0.0.1:1"),
    ],
)
def test_what_a_user_gets_wrong_is_said(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    command, *options = arguments
    code, text = run(capsys, command, str(path), *options)
    assert code == 2
    assert problem in text


def test_nobody_joins_a_system_that_does_not_grow(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = msgspec.structs.replace(SYSTEMS["tid"], grows=False)
    monkeypatch.setitem(SYSTEMS, "tid", fixed)
    path.write_text(f"system = 'tid'\n{path.read_text()}")
    options = [f"--listen={each}" for each in HERE]
    code, text = run(capsys, "serve", str(path), "-b", "B9", "--join", "B1", *options)
    assert code == 2
    assert "--join: brokers of tid are those of the network file: none joins or leaves" in text


def with_admin(path: Path) -> None:
    """B1 and B2 have admin ports, 1 and 2."""
    text = path.read_text()
    for number in (1, 2):
        peers = f'peers = "127.0.0.1:700{number}"'
        text = text.replace(peers, f'{peers}\nadmin = "127.0.0.1:{number}"')
    path.write_text(text)


def test_who_has_left_already_need_not_be_there(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked twice, `leave` says so; where nobody answers it knows nothing."""
    with_admin(path)

    async def get_json(address: Address, path: str, caller: Caller) -> dict[str, object]:
        if address.port == answering:
            return {"broker": "B1", "brokers": [{"broker": "B1"}]}
        raise OSError("Connection refused")

    monkeypatch.setattr("shoal.runtime.supervisor.get_json", get_json)
    answering = 1
    assert run(capsys, "leave", str(path), "B2") == (0, "B2 had left already\n")
    code, said = run(capsys, "leave", str(path), "B9", "--admin", "127.0.0.1:9")
    assert (code, "B9 does not answer at 127.0.0.1:9" in said) == (2, True)
    answering = 0
    code, said = run(capsys, "leave", str(path), "B2")
    assert (code, "B2 does not answer at 127.0.0.1:2" in said) == (2, True)


def test_a_broker_that_leaves_and_is_slow_to_answer_is_not_gone(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine an answer may take longer than it is waited for."""
    with_admin(path)
    stage = {"stage": "sessions", "problem": "", "since_s": 0.0, "next": "", "outcome": ""}
    leaving = {"broker": "B2", "leaving": stage}
    slow = TimeoutError("timed out")
    answers = iter([leaving, slow, leaving, slow, OSError("Connection refused")])
    has_left = False

    async def get_json(address: Address, path: str, caller: Caller) -> dict[str, object]:
        nonlocal has_left
        if address.port == 1:
            return {"brokers": [{"broker": name} for name in ("B1", "B2")[: 2 - has_left]]}
        answer = next(answers)
        if isinstance(answer, OSError):
            has_left = answer is not slow
            raise answer
        return answer

    async def ask_to_leave(address: Address, caller: Caller, without: Sequence[str] = ()) -> str:
        return ""

    monkeypatch.setattr("shoal.runtime.supervisor.get_json", get_json)
    monkeypatch.setattr("shoal.runtime.supervisor.ask_to_leave", ask_to_leave)
    monkeypatch.setattr("shoal.cli.commands.leave._HEAR_S", 0.3)
    monkeypatch.setattr("shoal.cli.commands.leave._POLL_S", 0.01)
    assert run(capsys, "leave", str(path), "B2") == (0, "B2 has left\n")

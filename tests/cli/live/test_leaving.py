"""`shoal leave` on processes: the plan, refusals with a reason, and cancellation."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shoal.cli.commands import leave
from shoal.cli.support.live import forgetting
from shoal.runtime import supervisor
from shoal.runtime.addresses import Address
from shoal.runtime.supervisor import ask_to_leave
from tests.cli.live.test_up import FILE, run
from tests.runtime.processes import Processes, processes, wait_until


def all_ready(network: Processes) -> None:
    wait_until(lambda: all(map(network.is_ready, network.running)))


def test_a_leave_is_refused_while_a_neighbour_is_down(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with processes(tmp_path, 3) as network:
        path = str(network.path)
        all_ready(network)
        with network.client("B2", "c"):
            assert run(capsys, "leave", path, "B2", "--dry-run") == (
                0,
                "clients: 1 would be sent elsewhere, 0 of them follow\n"
                "sessions: 1 to hand over, to B1, B3\n"
                "neighbour B1: connected\n"
                "neighbour B3: connected\n"
                "B1 takes the place of B2\n"
                "B2 can leave\n",
            )
        network.kill("B3")
        wait_until(lambda: network.status("B2")["links"][1]["state"] != "up")
        reason = "B2 cannot leave: B3 is not connected. Wait, or say --without B3"
        code, said = run(capsys, "leave", path, "B2", "--dry-run")
        assert (code, said.splitlines()[-1]) == (1, reason)
        assert run(capsys, "leave", path, "B2") == (2, f"shoal: {reason}\n")
        code, said = run(capsys, "leave", path, "B2", "--dry-run", "--without", "B3")
        assert (code, "neighbour B3: treated as dead" in said) == (0, True)
        assert run(capsys, "leave", path, "B2", "--abort") == (
            2,
            "shoal: B2: it does not leave\n",
        )
        assert run(capsys, "leave", path, "B2", "--abort", "--dry-run")[0] == 2
        code, said = run(capsys, "leave", path, "B2", "--without", "B3")
        # Beside other load the command says what the leave waits for, too.
        assert (code, said.endswith("B2 has left\n")) == (0, True)
        assert network.running["B2"].wait(10) == 0
        network.comes_back("B3", over="B1")
        wait_until(lambda: network.is_ready("B1") and network.is_ready("B3"))
        links = network.status("B3")["links"]
        assert [row["neighbour"] for row in links] == ["B1"]
        gone = "B2 is forgotten; no broker had a link to it\n"
        assert run(capsys, "forget", path, "B2") == (0, gone)
        code, said = run(capsys, "forget", path, "B9")
        assert (code, "B9" in said, said.endswith("are B1, B3\n")) == (2, True, True)


@pytest.mark.parametrize(
    ("stage", "code", "words"),
    [("left", 0, "B2 has left\n"), ("links", 2, "ended while it was busy with its links")],
)
def test_brokers_that_have_yet_to_learn_of_a_leave_do_not_make_it_fail(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    code: int,
    words: str,
) -> None:
    """One behind a dead broker heard of the leave later, and the command said it had failed."""
    path = tmp_path / "network.toml"
    text = FILE.replace('7001"', '7001"\nadmin = "127.0.0.1:1"')
    path.write_text(text.replace('7002"', '7002"\nadmin = "127.0.0.1:2"'), encoding="utf-8")
    leaving = {"stage": stage, "outcome": "", "next": "", "problem": "", "since_s": 0.0}
    answers = [{"broker": "B2"}, {"broker": "B2", "leaving": leaving}]

    async def get_json(address: Address, page: str, caller: object) -> dict[str, Any]:
        if address.port == 1:
            return {"brokers": [{"broker": "B1"}, {"broker": "B2"}]}
        if answers:
            return answers.pop(0)
        raise ConnectionRefusedError

    async def ask_to_leave(address: Address, caller: object) -> str:
        return ""

    monkeypatch.setattr(supervisor, "get_json", get_json)
    monkeypatch.setattr(supervisor, "ask_to_leave", ask_to_leave)
    monkeypatch.setattr(leave, "_HEAR_S", 0.1)
    found, said = run(capsys, "leave", str(path), "B2")
    assert found == code
    assert words in said


def test_another_broker_is_asked_to_forget_one_that_says_that_it_has_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No broker has a link to it: the first in the file was asked to forget itself."""
    path = tmp_path / "network.toml"
    text = FILE.replace('7001"', '7001"\nadmin = "127.0.0.1:1"')
    path.write_text(text.replace('7002"', '7002"\nadmin = "127.0.0.1:2"'), encoding="utf-8")
    asked = []

    async def get_json(address: Address, page: str, caller: object) -> dict[str, Any]:
        stage = "left" if address.port == 1 else ""
        outcome = {"is_under_way": False, "problem": ""}
        return {"brokers": [], "links": [], "joining": {"stage": stage}, "forgetting": outcome}

    async def order(address: Address, name: str, caller: object, **said: str) -> str:
        asked.append(address.port)
        return ""

    monkeypatch.setattr(supervisor, "get_json", get_json)
    monkeypatch.setattr(forgetting, "get_json", get_json)
    monkeypatch.setattr(forgetting, "order", order)
    code, said = run(capsys, "forget", str(path), "B1")
    assert (code, asked) == (0, [2]), said


def test_links_that_do_not_last_refuse_a_leave_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A matcher was killed, and a leave waited a minute for it without a word."""
    dimensions = [{"attribute": "x", "low": 0, "high": 10}]
    changes: dict[str, Any] = {"system": "bluedove", "links": []}
    with processes(tmp_path, 3, **changes, bluedove={"dimensions": dimensions}) as network:
        path = str(network.path)
        all_ready(network)
        network.kill("B3")
        wait_until(lambda: not network.is_ready("B2"))
        reason = "B2 cannot leave: B3 is not connected. Wait, or say --without B3"
        code, said = run(capsys, "leave", path, "B2", "--dry-run")
        assert (code, said.splitlines()[-1]) == (1, reason)
        assert "neighbour B3: not connected" in said
        assert run(capsys, "leave", path, "B2") == (2, f"shoal: {reason}\n")
        code, said = run(capsys, "leave", path, "B2", "--without", "B3")
        assert (code, said.endswith("B2 has left\n")) == (0, True)


def test_a_broker_that_joined_leaves_by_its_name_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with processes(tmp_path, 2) as network:
        path = str(network.path)
        all_ready(network)
        network.join("J1", "B1")
        wait_until(lambda: network.is_ready("J1"))
        assert run(capsys, "forget", path, "J2") == (
            2,
            "shoal: n has no broker J2; its brokers are B1, B2, J1\n",
        )
        code, said = run(capsys, "leave", path, "J2")
        assert (code, "no broker that answers knows it" in said) == (2, True)
        code, said = run(capsys, "leave", path, "J1")
        assert (code, said.endswith("J1 has left\n")) == (0, True)
        assert network.running["J1"].wait(10) == 0


def test_a_broker_that_stays_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A leave that has just begun, at whatever stage it is."""
    with processes(tmp_path, 3) as network:
        path = str(network.path)
        all_ready(network)
        with network.client("B2", "kept") as kept:
            kept.subscribe("a", 1)
        stayed = 0
        for _ in range(3):
            where = network.broker_address("B2", "admin")
            assert asyncio.run(ask_to_leave(where)) == ""
            code, said = run(capsys, "leave", path, "B2", "--abort")
            if code:
                assert "it is too late" in said or "does not answer" in said
                break
            assert said == "B2 stays\n"
            stayed += 1
            wait_until(lambda: network.is_ready("B2"))
            with network.client("B3", "r") as reader, network.client("B1", "w") as writer:
                reader.subscribe("b", 1)
                writer.paho.publish("b", b"x", qos=1).wait_for_publish(10)
                wait_until(lambda reader=reader: reader.payloads == [b"x"])  # type: ignore[misc]
        assert stayed

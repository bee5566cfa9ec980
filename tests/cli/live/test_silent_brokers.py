"""Commands report brokers that do not answer, with address, reason and remedy."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.live.test_up import run

# Nobody listens there.
CLOSED = "127.0.0.1:1"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """B1 is down, B2's name is unknown, and B3 has no admin address."""
    ask = socket.getaddrinfo

    def resolve(host: str, *rest: Any, **options: Any) -> Any:
        if host == "b2.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ask(host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setenv("COLUMNS", "200")
    brokers = [
        f'[[brokers]]\nname = "B{number}"\npeers = "127.0.0.1:700{number}"\n{admin}'
        for number, admin in ((1, f'admin = "{CLOSED}"'), (2, 'admin = "b2.example:8081"'), (3, ""))
    ]
    path = tmp_path / "network.toml"
    head = 'name = "n"\nplain_links = true\naccess.anonymous = true\nadmin.open = true\n'
    links = 'links = [["B1", "B2"], ["B2", "B3"]]\n'
    path.write_text(head + links + "\n".join(brokers))
    return path


DOWN = f"B1 does not answer at {CLOSED}: Connection refused"
UNKNOWN = (
    "B2 does not answer at b2.example:8081: the name cannot be resolved (Name or service not known)"
)
NOT_ASKED = "B3 has no admin address; give it one in the network file (admin = …)"


def test_status_says_why_each_does_not_answer(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = run(capsys, "status", str(path))
    assert code == 1
    assert text.splitlines()[:4] == ["n: 0 of 3 brokers are ready", DOWN, UNKNOWN, NOT_ASKED]


@pytest.mark.parametrize(
    "arguments",
    [["clients"], ["move", "dashboard", "B1"], ["why", "dashboard", "a", "{}"]],
)
def test_who_needs_one_that_answers_says_why_there_is_none(
    path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, text = run(capsys, arguments[0], str(path), *arguments[1:])
    assert code == 2
    lines = [line.strip() for line in text.splitlines()]
    assert lines == ["shoal: no broker of n answers", DOWN, UNKNOWN, NOT_ASKED]


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        ("drain", "only a broker that runs can hand over its clients: start it, then drain it"),
        ("undrain", "it takes clients in as soon as it is started again"),
    ],
)
@pytest.mark.parametrize(("broker", "why"), [("B1", DOWN), ("B2", UNKNOWN), ("B3", NOT_ASKED)])
def test_a_broker_that_does_not_answer_is_not_drained(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    instead: str,
    broker: str,
    why: str,
) -> None:
    code, text = run(capsys, command, str(path), broker)
    assert code == 2
    lines = [line.strip() for line in text.splitlines()]
    assert lines == [f"shoal: {why}", instead][: 1 if why is NOT_ASKED else 2]

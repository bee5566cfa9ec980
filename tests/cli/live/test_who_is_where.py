"""`shoal clients` on a terminal of 80 columns."""

from __future__ import annotations

from typing import Any

import pytest

from shoal.cli.commands.clients import _show

AT_REST = {"published": 0, "in_flight": 0, "waiting": 0, "waiting_bytes": 0, "dropped": 0}


def row(client: str, **said: Any) -> dict[str, Any]:
    place = {"user": "", "broker": "B3", "address": "127.0.0.1:58558", "listener": "mqtt"}
    return {"client": client, **place, "subscriptions": 1, **AT_REST, **said}


def shown(
    rows: list[dict[str, Any]],
    printed: pytest.CaptureFixture[str],
    most: int = 20,
    *,
    is_sought: bool = False,
) -> list[str]:
    _show(rows, most, is_sought=is_sought)
    return printed.readouterr().out.splitlines()


def test_identifiers_are_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown([row("B3-1795671571410217-1"), row("[bold]phone")], capsys)
    assert any("B3-1795671571410217-1 │ B3     │ 127.0.0.1:58558 (mqtt)" in each for each in lines)
    assert any("[bold]phone" in each for each in lines)
    assert "user" not in lines[1]
    assert lines[-1] == "0 for all: published, in flight, waiting, bytes, dropped"


def test_what_waits_has_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "90")
    waits = row("phone", user="ann", waiting=1_200, waiting_bytes=96_000, address=None, away_s=70)
    lines = shown([waits, row("b"), row("c")], capsys, most=2)
    text = "\n".join(lines)
    assert all(each in lines[1] for each in ("client", "user", "waiting", "bytes"))
    assert all(each in text for each in ("phone", "ann", "1,200", "96.0 kB", "away for 70 s"))
    assert lines[-2:] == ["0 for all: published, in flight, dropped", "1 more"]


def test_no_word_is_broken_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headings were broken ("subscri/ptions"), and identifiers in five lines."""
    monkeypatch.setenv("COLUMNS", "80")
    name, counts = "temperature-sensor-00000001", {"waiting": 1_000, "waiting_bytes": 1_234_567}
    many = row(name, user="operations", published=1_234_567, dropped=12, in_flight=20, **counts)
    lines = shown([many], capsys)
    assert lines[0] == name
    assert max(map(len, lines)) <= 80
    text = " ".join(lines)
    assert all(each in text for each in ("subscriptions 1", "published 1,234,567", "bytes 1.2 MB"))


def test_nobody_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown([], capsys, is_sought=True) == ["no such client"]
    assert shown([], capsys) == ["no clients"]

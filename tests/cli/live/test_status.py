"""`shoal status`: its view of brokers' proposals of links."""

from __future__ import annotations

import re
import time
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.cli import main as cli
from shoal.cli.commands import status as command
from shoal.cli.support.live.statuses import Statuses, admin_addresses
from shoal.overlays.publisher_relocation.records import SelectionRecord
from shoal.overlays.registry import SYSTEMS
from shoal.runtime.events.alerts import AlertBook, alerts_of
from shoal.runtime.network_file import parse_network


def proposal(at_us: int, outcome: str, reason: str = "") -> dict[str, Any]:
    decided = outcome in ("advised", "done")
    return {
        "broker": "B3",
        "at_us": at_us,
        "outcome": outcome,
        "reason": reason,
        "left": "B1",
        "right": "B3",
        "old_left": "B1" if decided else None,
        "old_right": "B2" if decided else None,
        "hops": 2,
        "cost_now": 120.0 if decided else None,
        "cost_then": 80.0 if decided else None,
    }


def says(neighbours: list[str], *proposals: dict[str, Any]) -> dict[str, Any]:
    mqtt = dict.fromkeys(("connected", "publications", "deliveries"), 0)
    well = {"state": "up", "away_us": 0, "connections": 1, "problem": "", "quarantined": ""}
    well |= {"congested_us": 0, "buffered_bytes": 0, "spooled_bytes": 0}
    links = [{"neighbour": each} | well for each in neighbours]
    return {
        "version": "0.1.0",
        "pid": 1,
        "exceptions": {"count": 0, "last": ""},
        "scaling": None,
        "ready": True,
        "missing": [],
        "leaving": {"stage": "", "problem": ""},
        "links": links,
        "counts": {},
        "mqtt": mqtt,
        "tables": {},
        "journal": None,
        "publishers": [],
        "shown": {"proposals": list(proposals)},
    }


def with_alerts(found: dict[str, Any]) -> dict[str, Any]:
    """A broker's answer with the alerts that it makes of its figures."""
    others = {"certificates": [], "log": None, "joining": {}, "clients": {}}
    book, now_us = AlertBook(), time.time_ns() // 1_000
    book.update(alerts_of(others | found, now_us), now_us)
    return found | {"alerts": msgspec.to_builtins(book.rows)}


def run(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    found: list[dict[str, Any] | None],
    *options: str,
    system: str = "self_organising",
    rules: str = "",
    columns: int = 200,
) -> tuple[int, str]:
    names = [f"B{number}" for number in range(1, len(found) + 1)]
    lines = ["name = 'n'", f"system = '{system}'", "links = [['B1', 'B2'], ['B2', 'B3']]"]
    lines += ["access.anonymous = true", rules]
    for number, name in enumerate(names):
        ports = [
            f"{kind} = '127.0.0.1:{19_000 + 10 * number + port}'"
            for port, kind in enumerate(("peers", "mqtt", "admin"))
        ]
        lines += ["[[brokers]]", f"name = '{name}'", *ports]
    path = folder / "network.toml"
    path.write_text("\n".join(lines))

    async def ask(network: object, caller: object) -> Statuses:
        answers = [each and with_alerts(each) for each in found]
        return Statuses(dict(zip(names, answers, strict=True)))

    monkeypatch.setattr(command, "ask_status", ask)
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit) as caught:
        cli.main(["status", str(path), *options])
    output = capsys.readouterr()
    return int(caught.value.code or 0), output.out + output.err


def test_links_that_were_proposed_are_shown_with_what_became_of_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = [proposal(1, "advised"), proposal(2, "refused", "B1 - B2 is pinned")]
    done = [proposal(0, "done")] + [proposal(at, "refused", "links are frozen") for at in range(9)]
    found = [says(["B2"]), says(["B1", "B3"], *done), says(["B2"], *rows)]
    code, text = run(capsys, monkeypatch, tmp_path, found, "--details")
    assert code == 0
    assert "B1 - B3" in text
    assert "33 % less: 80, not 120" in text
    assert "done" in text
    assert "refused: B1 - B2 is pinned" in text


def test_advice_is_toml_and_counts_the_links_there_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = [None, says(["B1", "B3"]), says(["B2"], proposal(1, "advised"))]
    code, text = run(capsys, monkeypatch, tmp_path, found, "--advise")
    assert code == 1  # B1 does not answer
    assert tomllib.loads(text) == {"links": [["B1", "B3"], ["B2", "B3"]]}
    assert text.startswith("# B1 - B3 instead of B1 - B2: 33 % less")
    assert "# B1 does not answer" in text


def test_where_links_are_not_known_nothing_is_printed_that_could_be_pasted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was `links = []` where nobody answers."""
    found: list[dict[str, Any] | None]
    for found in ([None, None, None], [says(["B2"]), None, None]):
        code, text = run(capsys, monkeypatch, tmp_path, found, "--advise")
        assert code == 2
        assert "not all links are known" in text
        assert "B3 does not answer" in text
        assert "links = [" not in text


@pytest.mark.parametrize(
    ("rule", "remark"),
    [
        ("", "# by what brokers handled in the last 25 s or so"),
        ("frozen = true", "# frozen = true: brokers propose no links"),
        ("mode = 'exchange'", '# mode = "exchange": brokers exchange links by themselves'),
    ],
)
def test_advice_says_what_it_comes_from_and_that_there_is_none(
    rule: str,
    remark: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    found: list[dict[str, Any] | None] = [says(["B2"]), says(["B1", "B3"]), says(["B2"])]
    rules = f"self_organising.{rule}" if rule else ""
    code, text = run(capsys, monkeypatch, tmp_path, found, "--advise", rules=rules)
    assert code == 0
    assert text.startswith("# no other links are recommended\n" + remark)
    assert tomllib.loads(text) == {"links": [["B1", "B2"], ["B2", "B3"]]}


def test_advice_is_toml_or_all_is_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found: list[dict[str, Any] | None] = [says(["B2"]), says(["B1", "B3"]), says(["B2"])]
    code, text = run(capsys, monkeypatch, tmp_path, found, "--advise", "--json")
    assert (code, "--advise: prints TOML; leave --json out" in text) == (2, True)


def test_a_system_that_recommends_nothing_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found: list[dict[str, Any] | None] = [says(["B2"]), says(["B1", "B3"]), says(["B2"])]
    code, text = run(capsys, monkeypatch, tmp_path, found, "--advise", system="tree")
    assert code == 2
    assert "tree recommends no links; self_organising does" in text


def test_what_brokers_wait_for_and_what_has_no_effect_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waits = {"ready": False, "missing": ["link to B2", "tables of B2"]}
    leaves = {"leaving": {"stage": "sessions", "problem": ""}}
    found = [says(["B2"]) | waits, says(["B1", "B3"]) | leaves, None]
    rules = "self_organising.pinned = [['B1', 'B33']]"
    code, text = run(capsys, monkeypatch, tmp_path, found, rules=rules)
    assert code == 1
    assert "B1: the broker is not ready: tables of B2; new clients are refused; 0 are" in text
    assert "B2 leaves, busy with: sessions" in text
    assert "self_organising.pinned: no broker 'B33', so it has no effect" in text


def test_what_holds_up_a_leave_or_a_join_is_said_with_the_next_step(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    waits = {"stage": "overlay", "problem": "no link to B3", "since_s": 70.2, "next": "start B3"}
    stays = {"stage": "", "problem": "", "outcome": "taken back by an operator"}
    joins = {"stage": "linking", "since_s": 3.0, "next": "it asks again"}
    found: list[dict[str, Any] | None] = [
        says(["B2"]) | {"leaving": waits},
        says(["B1", "B3"]) | {"leaving": stays},
        says(["B2"]) | {"joining": joins},
    ]
    _, text = run(capsys, monkeypatch, tmp_path, found)
    assert "B1: the leave waits, overlay: no link to B3 (1 min); next: start B3" in text
    assert "B2 stays: its leave was taken back by an operator" in text
    assert "B3: the join is not complete: linking (3 s); next: it asks again" in text


def test_what_a_system_records_is_counted_and_fits_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes = dict.fromkeys(("subscriptions", "advertisements", "known_brokers", "remembered"), 1_234)
    found: list[dict[str, Any] | None] = [
        says(["B2"]) | {"tables": sizes, "counts": {"SelectionRecord": 77}} for _ in range(3)
    ]
    _, text = run(capsys, monkeypatch, tmp_path, found, "--details", system="grape", columns=80)
    for words in ("publications", "deliveries", "1,234 known brokers", "77 selections"):
        assert words in text
    assert "…" not in text


def test_the_links_of_a_broker_among_six_fit_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every heading and every name was cut where each of six brokers was linked to each."""
    found: list[dict[str, Any] | None] = [
        says(["B3", "B4", "B5", "J1", "J2"])
        | {"uptime_s": 90.0, "ready": False, "missing": ["clients: none are let in"]}
        for _ in range(6)
    ]
    _, text = run(capsys, monkeypatch, tmp_path, found, system="dynatops", columns=80)
    for words in ("broker", "up for", "clients", "deliveries", "not ready", "B3, B4, B5, J1, J2"):
        assert words in text
    assert "…" not in text


def test_what_a_ring_decided_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = {"broker": "B1", "at_us": 1, "version": 3, "benefit": 1_234.4, "price": 56.7}
    rows = [row | {"outcome": "done", "moved": 2}, row | {"outcome": "kept", "moved": 0}]
    placed = {"broker": "B2", "at_us": 2, "client": "ann", "target": "B3"}
    shown = [{"shown": {"reconfigurations": rows}}, {"shown": {"placements": [placed]}}]
    found: list[dict[str, Any] | None] = [says(["B2"]) | each for each in shown]
    _, text = run(capsys, monkeypatch, tmp_path, [*found, None], "--details", system="tree")
    assert "2 brokers changed places: saves 1,234 for 57" in text
    assert "brokers stay" in text
    assert "user ann should go to B3" in text


def test_why_clients_were_moved_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of every system that moves publishers, from its records as brokers show them."""
    row = SelectionRecord(
        publisher="radar",
        broker="B1",
        started_us=0,
        requested_us=0,
        answered_us=0,
        decided_us=2,
        candidates=3,
        target="B3",
        rate_now=40.0,
        rate_target=30.0,
    )
    stays = msgspec.structs.replace(row, publisher="buoy", target="B1", decided_us=3)
    rows = [msgspec.structs.asdict(each) for each in (row, stays)]
    assert all("selections" in SYSTEMS[name].shown for name in ("grape", "pop"))
    found: list[dict[str, Any] | None] = [says(["B2"]) | {"shown": {"selections": rows}}]
    found += [None, None]
    _, text = run(capsys, monkeypatch, tmp_path, found, "-d", system="grape", columns=120)
    assert re.search(r"radar\W+B1\W+B3\W+40 -> 30 \(25 % less\)", text)
    assert "buoy" not in text


def test_watched_until_stopped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(command.time, "sleep", sleep)
    found: list[dict[str, Any] | None] = [says(["B2"]), says(["B1", "B3"]), None]
    code, text = run(capsys, monkeypatch, tmp_path, found, "--watch", "--every", "5")
    assert (code, naps) == (0, [5.0] * 3)
    assert text.count("no answer") == 3
    code, text = run(capsys, monkeypatch, tmp_path, found, "--watch", "--json")
    assert (code, "leave --json and --advise out" in text) == (2, True)


def test_what_waits_on_links_and_room_on_disks_and_versions_that_differ_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second, third = says(["B2"]), says(["B1", "B3"]), says(["B2"])
    second["links"][1] |= {"state": "away", "buffered_bytes": 500, "spooled_bytes": 2_500}
    for found, free in ((first, 7 * 10**9), (second, 5 * 10**9), (third, 3 * 10**9)):
        found["journal"] = {"bytes": 10, "free_bytes": free, "is_failing": False}
    third["version"] = "0.2.0"
    _, text = run(capsys, monkeypatch, tmp_path, [first, second, third])
    assert "B2: the link to B3 is down; 3.0 kB wait for B3; next: look at B3; if it is" in text
    assert "free on their disks: 3.0 GB at least (B3)" in text
    assert "versions: 0.1.0: B1, B2; 0.2.0: B3" in text
    third["version"] = "0.1.0"
    _, text = run(capsys, monkeypatch, tmp_path, [first, second, third])
    assert "versions" not in text


def test_what_is_wrong_comes_first_then_one_line_for_each_broker(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of four brokers there were 45 lines, and what was wrong in the middle of them."""
    many = [f"neighbour-{number}" for number in range(20)]
    first, second = says(many), says(["B1", "B3"])
    first["mqtt"]["refusals"] = [{"what": "connect refused", "reason": "r", "count": 7}]
    second["links"][0]["state"] = "away"
    second |= {"ready": False, "missing": ["link to B1"]}
    _, text = run(capsys, monkeypatch, tmp_path, [first, second, None], columns=80)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    assert lines[:3] == [
        "n: 1 of 3 brokers are ready",
        "B3 does not answer",
        "B2: the link to B1 is down; next: look at B1; if it is dead for good: shoal forget",
    ]
    assert [line.split()[0] for line in lines[5:8]] == ["B3", "B2", "B1"]
    assert re.search(r"B1 +ready +20 up", text)
    assert "refused since they started: B1 7" in text
    assert max(map(len, lines[3:])) <= 80  # a terminal wraps the lines of the problems
    assert len(lines) <= 11


def test_one_broker_with_its_details(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = says(["B2"])
    first["mqtt"]["refusals"] = [{"what": "connect refused", "reason": "banned", "count": 7}]
    found = [first, None, None]
    code, text = run(capsys, monkeypatch, tmp_path, found, "--broker", "B1", columns=80)
    assert code == 0
    assert "n: B1 is ready" in text
    assert "7 connect refused (banned)" in text
    assert "B2 does not answer" not in text
    code, text = run(capsys, monkeypatch, tmp_path, found, "--broker", "B9")
    assert (code, "n has no broker B9" in text) == (2, True)


def test_the_past_that_a_subscriber_waits_for_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    replay = {"client": "late", "topic_filter": "flights/#", "waits_for": ["B3"]}
    found = [says(["B2"]) | {"replays": [replay]}, None, None]
    _, text = run(capsys, monkeypatch, tmp_path, found, "--broker", "B1")
    assert "late (flights/#, waits for B3)" in text


def test_orders_go_to_the_addresses_at_which_brokers_answer() -> None:
    """A listener of a container took all addresses, and orders went to the caller's machine."""
    section = {"peers": "0.0.0.0:7001", "admin": "0.0.0.0:8081"}
    public = {"peers": "b1.example:7001", "admin": "b1.example:8081"}
    network = parse_network({"name": "n", "brokers": [{"name": "B1", **section, "public": public}]})
    rows = [
        {"broker": "B1", "admin": "b1.example:8081"},
        {"broker": "J1", "admin": "j1.example:8081"},
    ]
    answer = {"brokers": rows, "listening": {"admin": "0.0.0.0:8081"}}
    found = admin_addresses(network, Statuses({"B1": answer, "J1": answer, "B2": None}))
    assert {name: str(where) for name, where in found.items()} == {
        "B1": "b1.example:8081",
        "J1": "j1.example:8081",
    }

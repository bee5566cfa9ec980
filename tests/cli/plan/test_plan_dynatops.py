"""`shoal plan dynatops`: proposed places in words and as JSON, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from shoal.runtime.network_file import dump_network
from tests.cli.plan.planning import plan, problem_of
from tests.runtime.one_service import network as network_of

# Two kinds of users, of which each of six brokers has some; twelve topics.
BROKERS = "ABCDEF"
KINDS = [["t0", "t1", "t2"], ["t3", "t4"], ["t5"]]


def file(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def users(tmp_path: Path) -> Path:
    lines = [
        f"u{number},{BROKERS[number % 6]},{topic}"
        for number in range(24)
        for topic in KINDS[number * 7 // 5 % 3]
    ]
    return file(tmp_path, "users.csv", "user,broker,topic", *lines)


def found(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    assert plan("dynatops", *words, "--json", "--dry-run") == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_each_move_and_swap_with_its_gain_and_price(
    users: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = found(capsys, "--users", users)
    assert answer["moves"]
    assert answer["swaps"]
    for each in answer["moves"]:
        assert each["from"] != each["to"]
        assert each["gain"] > each["price"] > 0
        assert "of its" in each["why"]
    positions = answer["positions"]
    assert sorted(positions.values()) == list(range(6))
    for each in answer["swaps"]:
        assert each["gain"] > each["price"]
    assert answer["gain"] > answer["price"] >= answer["fixed"]
    assert answer["after"]["messages"] < answer["before"]["messages"]
    assert answer["after"]["delay"] < answer["before"]["delay"]
    assert 0 < answer["pays_from"] < 1


def test_what_gateways_of_clusters_would_come_to(
    users: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gateways = found(capsys, "--users", users, "--gateways", 2)["gateways"]
    assert [len(each) for each in gateways["clusters"]] == [2, 2, 2]
    assert sorted(name for row in gateways["clusters"] for name in row) == list(BROKERS)
    assert gateways["relays"] <= gateways["messages"]
    assert gateways["busiest"] > 0 < gateways["busiest_without"]
    alone = found(capsys, "--users", users, "--gateways", 1)
    assert alone["gateways"]["messages"] <= alone["before"]["messages"]
    assert plan("dynatops", "--users", users, "--gateways", 2, "--dry-run") == 0
    assert "if only gateways of 3 clusters stood on the ring" in capsys.readouterr().out


def test_who_is_behind_which_gateway(users: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan("hybrid", "--users", users, "--per-gateway", 3, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert [len(row) for row in answer["clusters"]] == [3, 3]
    members = sorted(BROKERS, key=answer["positions"].__getitem__)
    assert [name for row in answer["clusters"] for name in row] == members
    assert answer["after"]["messages"] <= answer["before"]["messages"]
    assert plan("hybrid", "--users", users, "--per-gateway", 3) == 0
    (first, second, third), _ = answer["clusters"]
    printed = capsys.readouterr().out
    assert f"each with the brokers behind it:\n  {first} for {second}, {third}\n" in printed
    problem = problem_of(capsys, "dynatops", "--users", users, "--per-gateway", 3)
    assert "--per-gateway is not for dynatops" in problem


@pytest.mark.parametrize("system", ["bayeux", "geops", "hybrid"])
def test_other_structures_are_planned_as_their_own(
    system: str, users: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring = found(capsys, "--users", users)
    assert plan(system, "--users", users, "--gateways", 2, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["before"] != ring["before"]
    assert answer["after"]["messages"] <= answer["before"]["messages"]
    assert answer["gain"] >= answer["price"]


def test_the_same_in_words(users: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = found(capsys, "--users", users)
    assert plan("dynatops", "--users", users) == 0
    printed = capsys.readouterr().out
    for each in answer["moves"]:
        assert f"{each['user']}: {each['from']} -> {each['to']}, saves" in printed
    for each in answer["swaps"]:
        (one, other), (here, there) = each["brokers"], each["positions"]
        assert f"{one} (at {here}) <-> {other} (at {there}), saves" in printed
    assert "in all: saves" in printed


def test_rare_publications_move_nobody(
    tmp_path: Path, users: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = file(tmp_path, "rates.csv", "topic,per_second", "t0,0.00001", "t9,0.000001")
    answer = found(capsys, "--users", users, "--rates", rates)
    assert answer["moves"] == answer["swaps"] == answer["warnings"] == []
    assert answer["gain"] == answer["price"] == answer["bound"] == 0
    assert answer["pays_from"] > 1
    assert plan("dynatops", "--users", users, "--rates", rates) == 0
    printed = capsys.readouterr().out
    assert "no user should move" in printed
    assert "no brokers should change places\n  some pay from" in printed


def test_budgets_pins_and_the_papers_price(users: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = found(capsys, "--users", users, "--most-moves", 2, "--most-swaps", 1)
    assert 0 < len(few["moves"]) <= 2
    assert len(few["swaps"]) == 1
    stay = found(capsys, "--users", users, "--most-moves", 0)
    assert sum(each["gain"] for each in stay["swaps"]) == pytest.approx(stay["gain"])
    assert any(each["roots"] for each in stay["swaps"])
    free = found(capsys, "--users", users)
    user, broker = free["moves"][0]["user"], free["swaps"][0]["brokers"][0]
    pinned = found(capsys, "--users", users, "--pin", broker, "--pin-user", user)
    assert user not in [each["user"] for each in pinned["moves"]]
    assert broker not in [name for each in pinned["swaps"] for name in each["brokers"]]
    bound = found(capsys, "--users", users, "--price", "bound", "--most-moves", 0)
    assert sum(each["price"] for each in bound["swaps"]) + 6 == pytest.approx(bound["bound"])
    none = found(capsys, "--users", users, "--least-gain", 1e6)
    assert none["moves"] == none["swaps"] == []


def test_regions_rooms_and_capacities(
    tmp_path: Path, users: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        "A,north,5,4,", "B,north,4,,", "C,north,3,,", "D,south,2,,1", "E,south,1,,", "F,south,0,,",
    ]  # fmt: skip
    brokers = file(tmp_path, "brokers.csv", "broker,region,position,room,capacity", *rows)
    answer = found(capsys, "--users", users, "--brokers", brokers)
    assert any("A holds more than it has room for" in each["why"] for each in answer["moves"])
    for each in answer["moves"]:
        assert (each["from"] in "ABC") == (each["to"] in "ABC")
    for each in answer["swaps"]:
        assert (each["brokers"][0] in "ABC") == (each["brokers"][1] in "ABC")
    assert any("D handles" in warning for warning in answer["warnings"])
    tight = [f"{name},1" for name in BROKERS]
    brokers = file(tmp_path, "brokers.csv", "broker,room", *tight)
    answer = found(capsys, "--users", users, "--brokers", brokers)
    assert answer["moves"] == []
    assert len(answer["warnings"]) == 6


def test_delays_are_ms_where_round_trips_are_known(
    tmp_path: Path, users: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trips = file(tmp_path, "rtt.csv", "from,to,ms", "east,west,80", "A,B,3")
    rows = [f"{name},{'east' if name < 'D' else 'west'}" for name in BROKERS]
    sites = file(tmp_path, "sites.csv", "broker,site", *rows)
    answer = found(capsys, "--users", users, "--rtt", trips, "--sites", sites)
    assert answer["delay_unit"] == "ms"
    assert 0 < answer["after"]["delay"] < answer["before"]["delay"] < 160


@pytest.mark.parametrize(
    ("name", "lines", "problem"),
    [
        ("users", ["user,broker"], "users.csv:1: the first line is user,broker,topic"),
        ("users", ["user,broker,topic"], "users.csv: names no user"),
        ("users", ["user,broker,topic", "u,A,t", "u,B,t2"], "users.csv:3: user 'u' is at 'B', and"),
        ("users", ["user,broker,topic", "u,A,t", "u,A,t"], "users.csv:3: u,A,t stands there twice"),
        ("users", ["user,broker,topic", "u,A,t"], "1 brokers are no network"),
        ("brokers", ["broker,weight"], "brokers.csv:1: the first line is broker, then any of"),
        ("brokers", ["broker", "A", "A"], "brokers.csv:3: broker 'A' stands there twice"),
        ("brokers", ["broker", "A", "Z"], "is at 'B'; "),
        ("brokers", ["broker,position", "A,x"], "brokers.csv:2: position: 'x' is no whole number"),
        ("brokers", ["broker,room", "A,-1"], "brokers.csv:2: room: '-1' is no number from 0 on"),
        ("brokers", ["broker,position", *[f"{each},7" for each in BROKERS]], "7 is not 0 to 5"),
        ("brokers", ["broker,position", *[f"{each},1" for each in BROKERS]], "'A' and 'B' stand"),
        (
            "brokers",
            ["broker,position", "A,0", *[f"{each}," for each in BROKERS[1:]]],
            "broker 'B' has no position, but others have one",
        ),
        ("rates", ["topic,per_second", "t0,0"], "rates.csv: no topic has publications"),
        ("rates", ["topic,per_second", "t0,1", "t0,2"], "topic 't0' stands there twice"),
        ("rtt", ["from,to,ms", "A,B,1"], "rtt.csv: has no round trip A,C; measure it"),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong(
    tmp_path: Path,
    users: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    lines: list[str],
    problem: str,
) -> None:
    given = {"users": users, name: file(tmp_path, f"{name}.csv", *lines)}
    words = [word for option, path in given.items() for word in (f"--{option}", path)]
    assert problem in problem_of(capsys, "dynatops", *words)


def test_what_is_missing_or_not_there_is_named(
    users: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--users: dynatops is planned by users' topics" in problem_of(capsys, "dynatops")
    said = ("dynatops", "--users", users)
    assert "no broker 'Z' to pin; there are A, B" in problem_of(capsys, *said, "--pin", "Z")
    assert "no user 'Z' to pin" in problem_of(capsys, *said, "--pin-user", "Z")
    assert "--hours 0.0: use 0.01 to 100000" in problem_of(capsys, *said, "--hours", 0)
    assert "--hours nan: use 0.01 to 100000" in problem_of(capsys, *said, "--hours", "nan")
    assert "--price" in problem_of(capsys, *said, "--price", "high")


def test_of_a_network_that_runs_its_brokers_are_asked_not_files(
    tmp_path: Path, users: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = file(tmp_path, "network.toml", dump_network(network_of(3)))
    problem = problem_of(capsys, "dynatops", "--network", network, "--users", users)
    assert "--users: with --network its brokers are asked; leave it out" in problem
    problem = problem_of(capsys, "dynatops", "--network", network)
    assert "its system is tree, not dynatops" in problem
    ring = msgspec.structs.replace(network_of(3), system="bayeux", links=())
    network = file(tmp_path, "ring.toml", dump_network(ring))
    problem = problem_of(capsys, "dynatops", "--network", network)
    assert "its system is bayeux, not dynatops; try shoal plan bayeux" in problem
    assert "no planner, as its links follow from its clients' topics" in problem_of(capsys, "tco")
    problem = problem_of(capsys, "octopia", "--network", network)
    assert "--network is not for octopia" in problem

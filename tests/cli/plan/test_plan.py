"""`shoal plan octopia`: its files, its errors, and the printed section of a network file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from shoal.cli.support.errors import UserError
from shoal.cli.support.surveys import read_survey
from shoal.overlays.octopia.parameters import OctopiaParameters
from tests.cli.plan.planning import plan, problem_of

TRIPS = "from,to,ms\nA,B,4\nA,C,10\nA,D,12\nB,C,8\nD,B,9\nC,D,2\n"


def file(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_it_prints_a_section_and_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trips = file(tmp_path, "rtt.csv", TRIPS)
    rates = file(tmp_path, "rates.csv", "from,to,per_second\nA,B,5\nC,D,100\n")
    plan("octopia", "--rtt", trips, "--rates", rates, "--most-links", 2)
    printed = capsys.readouterr().out
    section = tomllib.loads(printed)["octopia"]
    rows = tuple(map(tuple, section.pop("rows")))
    found = OctopiaParameters(
        rows=rows, parents=tuple(section["parents"]), clusters=section["clusters"]
    )
    assert found.product().clusters == 2
    assert sorted(found.product().brokers) == ["A", "B", "C", "D"]
    # Two links each: each pair that talks has one, of half its round trip and a millisecond.
    assert printed.startswith("# a delivery takes 2.05 ms on average")
    assert "2 clusters of 2: 2.05 ms, at most 2 links a broker" in printed
    assert "4 clusters of 1: more than 2 links a broker" in printed


def test_round_trips_may_be_between_sites(tmp_path: Path) -> None:
    trips = file(tmp_path, "rtt.csv", "from,to,ms\neast,west,80\nA,B,3\n")
    sites = file(tmp_path, "sites.csv", "broker,site\nA,east\nB,east\nC,west\nD,west\n")
    survey = read_survey(trips, None, sites)
    assert survey.brokers == ("A", "B", "C", "D")
    assert [survey.one_way_ms("A", name) for name in "BCD"] == [1.5, 40, 40]
    assert survey.one_way_ms("D", "C") == 0


@pytest.mark.parametrize(
    ("trips", "rates", "problem"),
    [
        ("from,to,ms\nA,B,x\n", None, r"rtt.csv:2: ms: 'x' is no number from 0 on"),
        ("from,to,ms\nA,B,-1\n", None, r"rtt.csv:2: ms: '-1' is no number from 0 on"),
        ("from,to\nA,B\n", None, r"rtt.csv:1: the first line is from,to,ms"),
        ("from,to,ms\nA,B\n", None, r"rtt.csv:2: 'A,B' is not from,to,ms"),
        ("from,to,ms\nA,B,1\nA,B,1\n", None, r"rtt.csv:3: A,B stands there twice"),
        ("from,to,ms\nA,A,1\n", None, r"rtt.csv:2: from 'A' to itself"),
        ("from,to,ms\n", None, r"rtt.csv: names 0 brokers"),
        ("from,to,ms\nA,B,1\nB,C,1\n", None, r"rtt.csv: has no round trip A,C; measure it"),
        ("from,to,ms\nA,B,1\n", "from,to,per_second\nA,Z,1\n", r"rates.csv: no broker 'Z'"),
        ("from,to,ms\nA,B,1\n", "from,to,per_second\nA,B,0\n", r"rates.csv: no client publishes"),
    ],
)
def test_errors_say_where_and_what(
    tmp_path: Path, trips: str, rates: str | None, problem: str
) -> None:
    path = file(tmp_path, "rtt.csv", trips)
    other = None if rates is None else file(tmp_path, "rates.csv", rates)
    with pytest.raises(UserError, match=problem):
        read_survey(path, other, None)


def test_what_cannot_be_planned_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trips = file(tmp_path, "rtt.csv", TRIPS)
    for words, problem in (
        (("tree", "--rtt", trips), "tree: there is no planner; there is one for octopia, dynatops"),
        (("octopia",), "--rtt: octopia is planned by round trips"),
        (("octopia", "--rtt", trips, "--apart"), "add --sites"),
        (("octopia", "--rtt", trips, "--survive", 4), "no plan: 4 brokers make no full rows of 5"),
        (("octopia", "--rtt", trips, "--survive", -1), "--survive -1: use 0 or more"),
        (("octopia", "--rtt", tmp_path / "none.csv"), "none.csv: No such file"),
        (("octopia", "--rtt", trips, "--most-swaps", 3), "--most-swaps is not for octopia"),
        (("dynatops", "--rtt", trips, "--most-links", 3), "--most-links is not for dynatops"),
    ):
        assert problem in problem_of(capsys, *words)

"""Maps: places of airports, and outlines of countries."""

from shoal.report.drawing.geography import HEIGHT, WIDTH, place
from tests.report.fake_runs import AIRPORTS

PLACES = {code: (latitude, longitude) for code, latitude, longitude, _ in AIRPORTS}


def test_every_airport_of_the_country_is_in_its_place() -> None:
    placement = place(PLACES, [])
    points = placement.points
    assert placement.kind == "united-states"
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in points.values())
    assert points["SEA"][0] < points["ORD"][0] < points["JFK"][0]
    assert points["SEA"][1] < points["LAX"][1] < points["ANC"][1]
    assert points["HNL"][0] < points["ATL"][0] < points["SJU"][0]


def test_outlines_show_the_parts_with_brokers() -> None:
    inland = {code: PLACES[code] for code in ("ATL", "ORD")}
    contiguous = place(inland, []).outlines
    assert len(contiguous) == 49
    with_alaska = place(inland | {"ANC": PLACES["ANC"]}, []).outlines
    assert len(with_alaska) == 50
    assert sum(map(len, with_alaska)) < 120_000


def test_one_broker_abroad_makes_a_plain_map() -> None:
    placement = place(PLACES | {"CDG": (49.01, 2.55)}, [])
    assert placement.kind == "plane"
    assert not placement.outlines
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in placement.points.values())

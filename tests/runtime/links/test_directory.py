"""The directory of brokers, from their announcements."""

from __future__ import annotations

from random import Random

import pytest

from shoal.broker.links.controls import BrokerLocation
from shoal.runtime.addresses import Address
from shoal.runtime.links.directory import MOST_BROKERS, Directory
from shoal.runtime.storage.overlay_file import OverlayFile
from tests.examples import one_in


def place(name: str, at_us: int, port: int = 7_000, **more: bool) -> BrokerLocation:
    return BrokerLocation(name, at_us, f"{name}:{port}", f"{name}:1883", f"{name}:8080", **more)


def test_the_later_announcement_of_a_broker_holds_in_any_order() -> None:
    directory = Directory("B1", [place("B1", 5)], OverlayFile())
    assert directory.merge([place("B9", 7), place("B9", 6, 1)]) == [place("B9", 7)]
    assert directory.addresses["B9"] == Address("B9", 7_000)
    assert directory.merge([place("B9", 7), place("B9", 8)]) == []  # no news
    assert directory.merge([place("B9", 9, 2)]) == [place("B9", 9, 2)]
    gone = BrokerLocation("B9", 10, has_left=True)
    assert directory.merge([gone, place("B9", 9)]) == [gone]
    assert "B9" in directory.addresses, "it may still have something to hand over"
    assert [each.name for each in directory.places] == ["B1"]
    assert directory.merge([place("B1", 99, 3)]) == []  # it speaks for itself
    assert directory.merge([BrokerLocation("B8", 1, "nowhere")]) != []
    assert "B8" not in directory.addresses


def test_a_leaving_broker_is_gone_when_its_last_link_ends() -> None:
    there, here = (Directory(name, [place(name, 5)], OverlayFile()) for name in ("B2", "B1"))
    told: list[BrokerLocation] = []
    here.at_change.append(told.append)
    here.merge(there)
    assert there.go() == []
    left = there.leave(7)
    assert here.merge([left]) == [left]
    assert not here.is_gone("B2")
    gone = there.go()
    assert here.merge(gone) == gone == list(there)
    assert here.is_gone("B2")
    assert [each.has_left for each in told] == [False, True], "no difference to others"
    here.merge([place("B2", 9)])
    assert not here.is_gone("B2")


def test_a_broker_that_hears_first_of_a_leave_knows_the_address() -> None:
    """It was down while the leaving broker joined, and may have to link to it before it leaves."""
    there, here = (Directory(name, [place(name, 5)], OverlayFile()) for name in ("B2", "B1"))
    here.merge([there.leave(7)])
    assert here.addresses["B2"] == there.addresses["B2"]
    assert [each.name for each in here.places] == ["B1"]
    # One that has left already needs no link.
    other = Directory("B3", [place("B3", 5)], OverlayFile())
    other.merge(there.go())
    assert "B2" not in other.addresses


@pytest.mark.parametrize("had_left", [False, True])
def test_a_leave_is_heard_from_a_broker_whose_clock_is_behind(had_left: bool) -> None:
    """Its earlier incarnation announced itself, or left, by a clock that was ahead."""
    here = Directory("B1", [place("B1", 5)], OverlayFile())
    here.merge([place("B2", 50, has_left=had_left)])
    there = Directory("B2", [place("B2", 20)], OverlayFile())
    here.merge(there.merge(here))
    here.merge(there)
    assert [each.name for each in here.places] == ["B1", "B2"]
    here.merge([there.leave(30)])
    assert [each.name for each in here.places] == ["B1"]
    here.merge([there.stay(31)])
    assert [each.name for each in here.places] == ["B1", "B2"]
    here.merge([there.leave(32)])
    here.merge(there.go())
    assert here.is_gone("B2")


def test_the_file_has_the_addresses_of_its_brokers() -> None:
    overlay = OverlayFile()
    given = [place("B1", 5), place("B2", 0)]
    directory = Directory("B1", given, overlay)
    told: list[BrokerLocation] = []
    directory.at_change.append(told.append)
    word = place("B2", 6, 1)
    assert directory.merge([word]) == [word], "others may want to know"
    assert directory.addresses["B2"] == Address("B2", 7_000)
    assert told == [given[1]]
    directory.merge([BrokerLocation("B2", 7, has_left=True)])
    assert [each.name for each in directory.places] == ["B1"]
    assert [each.name for each in Directory("B1", given, overlay).places] == ["B1"]
    directory.merge([place("B2", 8)])
    assert directory.addresses["B2"] == Address("B2", 7_000)


def test_invented_names_take_bounded_memory(caplog: pytest.LogCaptureFixture) -> None:
    """100,000 would take 75 MB, with a log line and a row on disk each."""
    directory = Directory("B1", [place("B1", 5), place("B2", 5)], OverlayFile())
    news = directory.merge(place(f"X{number}", 1) for number in range(10_000))
    assert len(news) == MOST_BROKERS - 2
    assert len(list(directory)) == MOST_BROKERS
    # Other log lines meanwhile are leftovers of other tests.
    assert [each.name for each in caplog.records].count(Directory.__module__) == 1
    # News of known brokers still count.
    assert directory.merge([place("B2", 6, 1), place("X1", 2, 3)])


@pytest.mark.parametrize("seed", one_in(3, range(30)))
def test_connected_brokers_agree_for_any_order_of_messages(seed: int) -> None:
    """Each broker forwards news to its neighbours, and everything over a new connection."""
    random = Random(seed)
    names = [f"B{number}" for number in range(1, 8)]
    links = {(name, random.choice(names[:at])) for at, name in enumerate(names) if at}
    found = {name: Directory(name, [place(name, 1)], OverlayFile()) for name in names}
    under_way = [
        (sender, to, list(found[sender])) for pair in links for sender, to in (pair, pair[::-1])
    ]
    for now_us in range(2, 400):
        if now_us < 100 and random.random() < 0.2:
            name = random.choice(names)
            word = place(random.choice(("C1", "C2")), now_us, now_us)
            news = found[name].merge([word])
            under_way += [(name, to, news) for to in names if {(name, to), (to, name)} & links]
        if under_way:
            first = {
                (sender, to): at for at, (sender, to, _) in reversed(list(enumerate(under_way)))
            }
            _, to, words = under_way.pop(random.choice(list(first.values())))
            news = found[to].merge(words)
            if news:
                under_way += [
                    (to, each, news) for each in names if {(to, each), (each, to)} & links
                ]
    assert not under_way
    views = [sorted(map(str, directory)) for directory in found.values()]
    assert views == views[:1] * len(names)

"""Lines of a sequencer: publications leave in order unless a gap was given up, and none stays."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.broker.messages import RoutedPublication
from shoal.model import MessageId, Publication
from shoal.overlays.octopia.order import lines as lines_module
from shoal.overlays.octopia.order.lines import LineEntry, OrderLines
from tests.examples import examples
from tests.unread import Unread

ORDER_US, DOUBT_US = 1_000, 100
FIRST = 50


def entry(number: int) -> LineEntry:
    publication = Publication(publisher="P", sequence=number, published_us=0, attributes={})
    return LineEntry(RoutedPublication(publication, MessageId("H", "P", number)), 1)


def numbers(entries: list[LineEntry]) -> list[int]:
    return [each.routed.publication.sequence for each in entries]


@settings(max_examples=examples(200))
@given(st.permutations(range(FIRST, FIRST + 12)), st.integers(0, 12), st.booleans())
def test_publications_leave_in_order_for_any_order_of_arrival(
    order: list[int], begins_at: int, ends: bool
) -> None:
    lines, left = OrderLines(ORDER_US, DOUBT_US), []
    for place, number in enumerate(order):
        if place == begins_at:
            left += lines.begin("H", "P", FIRST, place)
        _, found = lines.arrive("H", "P", number, entry(number), place)
        left += found
    if begins_at == len(order):
        left += lines.begin("H", "P", FIRST, 12)
    if ends:
        left += lines.end("H", "P", FIRST + 12, 13)
    assert numbers(left) == sorted(order)
    assert len(lines) == 0
    assert lines.has_of("H") != ends


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(st.integers(0, 15), st.integers(1, 400)), max_size=30),
    st.one_of(st.none(), st.integers(0, 30)),
)
def test_each_publication_that_arrives_leaves_once(
    arrivals: list[tuple[int, int]], doubted_at: int | None
) -> None:
    """Some are lost, some come twice; each that arrives leaves once."""
    lines, now_us = OrderLines(ORDER_US, DOUBT_US), 0
    lines.begin("H", "P", 0, now_us)
    came: list[int] = []
    left: list[int] = []
    for place, (number, later_us) in enumerate(arrivals):
        for at_us in range(now_us, now_us + later_us, 10):
            left += numbers(lines.give_up(at_us))
        now_us += later_us
        if place == doubted_at:
            lines.doubt(now_us)
        _, found = lines.arrive("H", "P", number, entry(number), now_us)
        came.append(number)
        left += numbers(found)
        assert len(lines) == len(came) - len(left)
    now_us += ORDER_US * 16
    left += numbers(lines.give_up(now_us))
    assert sorted(left) == sorted(came)


def test_a_gap_is_given_up_after_its_time() -> None:
    lines = OrderLines(ORDER_US, DOUBT_US)
    lines.begin("H", "P", 0, 0)
    lines.arrive("H", "P", 2, entry(2), 10)
    assert numbers(lines.give_up(ORDER_US + 9)) == []
    assert numbers(lines.give_up(ORDER_US + 10)) == [2]
    assert numbers(lines.arrive("H", "P", 1, entry(1), 2_000)[1]) == [1]


def test_a_gap_is_given_up_sooner_after_a_lost_link() -> None:
    lines = OrderLines(ORDER_US, DOUBT_US)
    lines.begin("H", "P", 0, 0)
    lines.arrive("H", "P", 2, entry(2), 10)
    lines.doubt(20)
    assert numbers(lines.give_up(20 + DOUBT_US)) == [2]
    # Later gaps may be due to the lost link, too.
    lines.arrive("H", "P", 4, entry(4), 100)
    assert numbers(lines.give_up(100 + DOUBT_US)) == [4]


def test_a_gap_is_not_given_up_sooner_if_its_host_is_linked() -> None:
    """Lost publications return to the host, which sends them again under the same number."""
    lines = OrderLines(ORDER_US, DOUBT_US, lambda host: host == "H")
    for host in ("H", "I"):
        lines.begin(host, "P", 0, 0)
        lines.arrive(host, "P", 2, entry(2), 10)
    lines.doubt(20)
    lines.arrive("H", "P", 4, entry(4), 30)
    assert len(lines.give_up(20 + DOUBT_US)) == 1
    assert numbers(lines.give_up(ORDER_US + 9)) == []
    assert numbers(lines.arrive("H", "P", 0, entry(0), ORDER_US)[1]) == [0]
    assert numbers(lines.arrive("H", "P", 1, entry(1), ORDER_US)[1]) == [1, 2]
    # A line that began elsewhere does not expect anything of its host.
    lines.begin("H", "Q", None, 0)
    lines.arrive("H", "Q", 2, entry(2), ORDER_US)
    assert numbers(lines.give_up(ORDER_US + DOUBT_US)) == [2]


def test_messages_about_numbering_do_not_prolong_a_wait() -> None:
    lines = OrderLines(ORDER_US, DOUBT_US)
    lines.begin("H", "P", 0, 0)
    lines.arrive("H", "P", 2, entry(2), 10)
    lines.end("H", "P", 3, 500)
    lines.begin("H", "P", 50, 600)
    assert numbers(lines.give_up(ORDER_US + 10)) == [2]


def test_a_recent_publication_waits_for_a_recent_gap() -> None:
    """A line gives up the gap before its first publication; another gap behind it is younger."""
    lines = OrderLines(ORDER_US, DOUBT_US)
    lines.begin("H", "P", 0, 0)
    lines.arrive("H", "P", 2, entry(2), 10)
    lines.arrive("H", "P", 4, entry(4), ORDER_US)
    assert numbers(lines.give_up(ORDER_US + 10)) == [2]
    assert numbers(lines.arrive("H", "P", 3, entry(3), ORDER_US + 20)[1]) == [3, 4]


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, DOUBT_US - 40)), max_size=40))
def test_a_line_of_unknown_start_keeps_the_order(ways: list[tuple[int, int]]) -> None:
    """Times between publications, and on the way, all shorter than the wait."""
    lines, left = OrderLines(ORDER_US, DOUBT_US), []
    lines.begin("H", "P", None, 0)
    sent_us, arrivals = 0, []
    for number, (after_us, takes_us) in enumerate(ways):
        sent_us += after_us
        arrivals.append((sent_us + takes_us, number))
    for now_us in range(sent_us + 3 * DOUBT_US):
        for _, number in sorted(each for each in arrivals if each[0] == now_us):
            left += lines.arrive("H", "P", number, entry(number), now_us)[1]
        left += lines.give_up(now_us)
    assert numbers(left) == list(range(len(ways)))


def test_the_number_of_held_publications_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MOST", 10)
    lines = OrderLines(ORDER_US, DOUBT_US)
    lines.begin("H", "P", 0, 0)
    for number in range(1, 11):
        assert lines.arrive("H", "P", number, entry(number), 0)[1] == []
    assert numbers(lines.arrive("H", "P", 12, entry(12), 0)[1]) == [*range(1, 11), 12]


@settings(max_examples=examples(200))
@given(
    st.lists(st.booleans(), min_size=1, max_size=20),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_unsettled_publications_of_a_former_incarnation_leave_in_order(
    are_numbered: list[bool], random: Random, ends: bool
) -> None:
    """Some publications before, between and behind unknown numbers have none."""
    lines, left = OrderLines(ORDER_US, DOUBT_US), []
    assert lines.begin("H", "P", None, 0) == []
    arrivals = list(enumerate(are_numbered))
    random.shuffle(arrivals)
    for place, is_numbered in arrivals:
        number = FIRST + place if is_numbered else None
        key, found = lines.arrive("H", "P", number, entry(place), 1)
        assert (key is None, found) == (False, [])
    if ends:
        left += lines.end("H", "P", FIRST + len(are_numbered), 2)
    left += lines.give_up(DOUBT_US + 1)
    assert numbers(left) == list(range(len(are_numbered)))
    assert len(lines) == 0


def test_a_publication_without_a_number_waits_once() -> None:
    lines = OrderLines(ORDER_US, DOUBT_US)
    lines.begin("H", "P", None, 0)
    lines.arrive("H", "P", None, entry(1), 0)
    assert numbers(lines.give_up(DOUBT_US)) == [1]
    assert lines.arrive("H", "P", None, entry(2), DOUBT_US) == (None, [entry(2)])
    # The first number is unknown, as before.
    lines.arrive("H", "P", FIRST, entry(3), DOUBT_US)
    assert numbers(lines.give_up(2 * DOUBT_US)) == [3]
    assert numbers(lines.arrive("H", "P", FIRST + 1, entry(4), 2 * DOUBT_US)[1]) == [4]


def test_a_line_that_began_elsewhere_opens_when_all_has_come() -> None:
    lines = OrderLines(ORDER_US, DOUBT_US)
    lines.begin("H", "P", None, 0)
    for number in (7, 5):
        lines.arrive("H", "P", number, entry(number), 1, is_near=False)
    lines.arrive("H", "P", None, entry(6), 1, is_near=False)
    assert numbers(lines.open("H", "P", 9, 2)) == [5, 6, 7]
    assert numbers(lines.arrive("H", "P", 10, entry(10), 3, is_near=False)[1]) == []
    assert numbers(lines.arrive("H", "P", 9, entry(9), 4, is_near=False)[1]) == [9, 10]
    assert len(lines) == 0


def test_a_line_that_expects_a_confirmation_waits_longer() -> None:
    lines = OrderLines(ORDER_US, DOUBT_US)
    lines.begin("H", "P", None, 0)
    lines.arrive("H", "P", 7, entry(7), 1, is_near=False)
    lines.open("H", "P", None, 2)
    lines.arrive("H", "P", 5, entry(5), 3, is_near=False)
    assert numbers(lines.give_up(ORDER_US)) == []
    assert numbers(lines.open("H", "P", 8, ORDER_US)) == [5, 7]


@pytest.mark.parametrize("is_taken_back", [False, True])
def test_a_line_without_the_expected_confirmation_gives_up(is_taken_back: bool) -> None:
    lines = OrderLines(ORDER_US, DOUBT_US)
    lines.begin("H", "P", None, 0)
    lines.arrive("H", "P", 7, entry(7), 1, is_near=False)
    lines.open("H", "P", None, 2)
    due_us = ORDER_US + 2
    if is_taken_back:
        lines.begin("H", "P", None, 3)
        due_us = DOUBT_US + 3
    assert numbers(lines.give_up(due_us - 1)) == []
    assert numbers(lines.give_up(due_us)) == [7]
    # The message that it waited for changes nothing then.
    assert numbers(lines.open("H", "P", 8, due_us)) == []
    assert numbers(lines.arrive("H", "P", 8, entry(8), due_us, is_near=False)[1]) == [8]


def test_whether_a_host_has_lines_is_known_without_a_search() -> None:
    """Each publication without a number asks, and 10,000 publishers may have one."""
    lines = OrderLines(ORDER_US, DOUBT_US)
    for client in range(100):
        lines.begin("H", f"P{client}", FIRST, 0)
    lines.begin("I", "P0", FIRST, 0)
    lines._lines = Unread(lines._lines)
    assert [lines.has_of(host) for host in ("H", "I", "J")] == [True, True, False]
    for client in range(100):
        lines.begin("H", f"P{client}", FIRST, 0)  # a second time
        lines.end("H", f"P{client}", FIRST, 0)
        assert lines.has_of("H") == (client < 99)
    lines._lines = lines._lines.rows()
    assert lines.lost("I") == []
    assert not lines.has_of("I")

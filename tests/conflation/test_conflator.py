"""Conflation of one subscription: the documented examples, and a twin that computes on lists."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.conflation import Conflator, KeyState, key_name
from shoal.conflation.key_values import differs, is_same_value
from shoal.language.conflation_rules import ConflationRule, read_conflation
from shoal.model import Value
from tests.examples import examples

SECOND = 1_000_000
# Time in µs, key, value.
Event = tuple[int, str, Value | None]


def rule(every: str = "", changed: str = "") -> ConflationRule:
    found = read_conflation(every, changed)
    assert found is not None
    return found


class Machine:
    """A conflator, driven as a broker drives it, with the deliveries it has made."""

    def __init__(self, asked: ConflationRule, most: int = 10_000) -> None:
        self.conflator: Conflator[Value | None] = Conflator(asked, most)
        self.out: list[Event] = []

    def wake(self, until_us: int) -> None:
        conflator = self.conflator
        while (at_us := conflator.next_us) is not None and at_us <= until_us:
            ended = conflator.end_interval(at_us)
            if ended is not None:
                value = ended.values[0] if ended.values else ended.message[0]  # type: ignore
                if conflator.has_changed(ended.key, ended.values):
                    conflator.delivered(ended.key, ended.values, at_us)
                    self.out.append((at_us, str(ended.key[0]), value))

    def arrive(self, at_us: int, name: str, value: Value | None) -> None:
        self.wake(at_us)
        key = key_name((name,))
        values = (value,) if self.conflator.rule.changes else ()
        if self.conflator.is_full_for(key):
            self.conflator.forget_oldest()
        if self.conflator.opens(key, values):
            self.conflator.delivered(key, values, at_us)
            self.out.append((at_us, name, value))
        elif self.conflator.is_in_interval(key):
            self.conflator.hold(key, values, (value,), at_us)  # type: ignore[arg-type]

    def run(self, events: Iterable[Event], until_us: int) -> list[Event]:
        for event in events:
            self.arrive(*event)
        self.wake(until_us)
        return self.out


def on_lists(
    events: list[Event], every_us: int, least: float | None, *, changed: bool, until_us: int
) -> list[Event]:
    """The deliveries by the definition: key by key, from one delivery to the next."""
    out: list[Event] = []
    for name in {key for _, key, _ in events}:
        left = [(at, value) for at, key, value in events if key == name]
        last: list[Value | None] = []
        while left:
            at, value = left.pop(0)
            if changed and last and not differs(last[0], value, least):
                continue
            while True:
                out.append((at, name, value))
                last = [value]
                inside = [each for each in left if each[0] < at + every_us]
                left = left[len(inside) :]
                if not inside:
                    break
                at, value = at + every_us, inside[-1][1]
                if at > until_us or (changed and not differs(last[0], value, least)):
                    break
    return sorted(out, key=lambda each: (each[0], each[1]))


EXAMPLES = [
    ("10s", "", "a 0, b 3, c 7, d 12, e 25, f 41", "a 0, c 10, d 20, e 30, f 41"),
    ("", "v BY 0.5", "20.0 0, 20.3 1, 20.4 2, 20.5 3, 20.1 4, - 5", "20.0 0, 20.5 3, - 5"),
    ("10s", "v", "1 0, 5 2, 1 6, 7 13, 8 15", "1 0, 7 13, 8 23"),
]


def read(text: str) -> list[Event]:
    found: list[Event] = []
    for each in text.split(", "):
        word, seconds = each.split()
        value: Value | None = word
        if word[0].isdigit():
            value = float(word)
        found.append((int(seconds) * SECOND, "k", None if word == "-" else value))
    return found


@pytest.mark.parametrize(("every", "changed", "arrivals", "deliveries"), EXAMPLES)
def test_the_documented_examples(every: str, changed: str, arrivals: str, deliveries: str) -> None:
    machine = Machine(rule(every, changed))
    assert machine.run(read(arrivals), 60 * SECOND) == read(deliveries)


def test_keys_do_not_wait_for_each_other() -> None:
    events: list[Event] = [(0, "x", 1), (4, "y", 2), (5, "x", 3), (6, "y", 4)]
    machine = Machine(rule("10s"))
    got = machine.run([(at * SECOND, key, value) for at, key, value in events], 20 * SECOND)
    assert [(at // SECOND, value) for at, _, value in got] == [(0, 1), (4, 2), (10, 3), (14, 4)]


VALUES: st.SearchStrategy[Value | None] = st.sampled_from(
    [None, True, False, 0, 1, 1.0, 1.5, 2, 2.5, nan, "1", "a", 2**53 + 1, float(2**53)]
)
EVENTS = st.lists(
    st.tuples(
        st.integers(0, 40).map(lambda tenth: tenth * 100_000), st.sampled_from("xyz"), VALUES
    ),
    max_size=40,
).map(lambda events: sorted(events, key=lambda each: each[0]))
TWIN = [("", "v", 0, None), ("", "v BY 0.5", 0, 0.5), ("1s", "", SECOND, None),
        ("500ms", "v", SECOND // 2, None), ("700ms", "v BY 1", 700_000, 1)]  # fmt: skip


@pytest.mark.parametrize(("every", "changed", "every_us", "least"), TWIN)
@settings(max_examples=examples(300), deadline=None)
@given(events=EVENTS)
def test_it_delivers_what_the_definition_says(
    every: str, changed: str, every_us: int, least: float | None, events: list[Event]
) -> None:
    until_us = 20 * SECOND
    got = Machine(rule(every, changed)).run(events, until_us)
    expected = on_lists(events, every_us, least, changed=bool(changed), until_us=until_us)
    assert repr(sorted(got, key=lambda each: (each[0], each[1]))) == repr(expected)


def test_an_idle_key_of_an_interval_is_forgotten() -> None:
    machine = Machine(rule("1s"))
    machine.run([(0, "x", 1)], 0)
    assert len(machine.conflator) == 1
    machine.wake(SECOND)
    assert len(machine.conflator) == 0


def test_the_key_delivered_longest_ago_is_forgotten_at_the_bound() -> None:
    machine = Machine(rule("", "v"), most=2)
    events: list[Event] = [
        (0, "x", 1),
        (1, "y", 1),
        (2, "x", 2),
        (3, "z", 1),
        (4, "x", 2),
        (5, "y", 1),
    ]
    assert [(key, value) for _, key, value in machine.run(events, 9)] == [
        ("x", 1), ("y", 1), ("x", 2), ("z", 1), ("y", 1),
    ]  # fmt: skip


def test_forgetting_returns_the_held_message() -> None:
    machine = Machine(rule("1s"), most=1)
    machine.run([(0, "x", 1), (1, "x", 2)], 1)
    forgotten = machine.conflator.forget_oldest()
    assert forgotten is not None
    assert (forgotten.key, forgotten.message) == (("x",), (2,))
    assert machine.conflator.next_us is None


def test_a_restored_key_goes_on_with_the_rest_of_its_interval() -> None:
    conflator: Conflator[str] = Conflator(rule("10s"))
    conflator.restore(("k",), KeyState(6 * SECOND, held="held"), 0)
    assert conflator.end_interval(5 * SECOND) is None
    ended = conflator.end_interval(6 * SECOND)
    assert ended is not None
    assert ended.message == "held"


@given(one=VALUES, other=VALUES)
def test_same_values_are_equal_by_kind_and_number(one: Value | None, other: Value | None) -> None:
    name_is_same = key_name((one,)) == key_name((other,))
    assert name_is_same == is_same_value(one, other)
    assert not (name_is_same and differs(one, other, None))


def test_a_suppressed_message_outdates_those_sent_before_it() -> None:
    conflator: Conflator[str] = Conflator(rule(changed="v"))
    conflator.delivered(("t",), (2,), 0, ("p", 1))
    conflator.suppressed(("t",), ("p", 3))
    assert conflator.is_outdated(("t",), ("p", 2))
    assert not conflator.is_outdated(("t",), ("p", 4))

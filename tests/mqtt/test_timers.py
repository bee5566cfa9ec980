"""Timers, against a sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shoal.mqtt.timers import MqttTimers

STEPS = st.lists(
    st.tuples(st.sampled_from("sssscd"), st.sampled_from("abcde"), st.integers(0, 20)), max_size=60
)


@given(STEPS)
def test_timers_equal_a_sorted_list(steps: list[tuple[str, str, int]]) -> None:
    timers = MqttTimers()
    naive: list[tuple[int, int, str]] = []
    for number, (what, key, at_us) in enumerate(steps):
        if what != "d":
            timers.cancel(key) if what == "c" else timers.set(key, at_us)
            naive = [each for each in naive if each[2] != key]
            if what == "s":
                naive.append((at_us, number, key))
        else:
            due = sorted(each for each in naive if each[0] <= at_us)
            naive = [each for each in naive if each not in due]
            assert list(timers.take_due(at_us)) == [each[2] for each in due]
        assert timers.next_us == (min(naive)[0] if naive else None)


def test_keys_that_move_often_do_not_pile_up() -> None:
    timers = MqttTimers()
    for number in range(20_000):
        timers.set(number % 10, number)
    assert len(timers._heap) < 2_000
    assert list(timers.take_due(20_000)) == list(range(10))

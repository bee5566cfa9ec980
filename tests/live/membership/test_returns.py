"""Brokers that left and are started by the same command: they join, or report why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.membership.days import BOUND_S, Day, cases, day

# - first, last: brokers of the network file; the first of a link that it lists connects.
# - rejoins: a broker of the network file that is run again with `--join`.
# - joined: a broker that had joined before, too.
ROLES = {"first": "B1", "last": "B3", "rejoins": "B3", "joined": "J1"}


def _begin(today: Day, role: str) -> str:
    today.grow_old()
    if role == "joined":
        today.join("J1", "B2")
        today.are_linked()
        today.publish_at("J1")
        today.publish_on()
    if role == "rejoins":
        today.network.rejoin("B3", "B2")
    return ROLES[role]


def _is_back(today: Day, name: str, role: str) -> bool:
    """Whether the broker is linked; a broker of the file may report instead that it has left."""
    if role in ("first", "last") and today.is_back_or_reports_its_leave(name):
        return False
    today.are_linked()
    return True


@pytest.mark.parametrize(
    ("system", "role"),
    cases(
        [
            ("octopia", "rejoins"),
        ],
        ROLES,
    ),
)
def test_a_broker_returns_by_the_same_command_without_its_old_state(
    tmp_path: Path, system: str, role: str
) -> None:
    """Its retained values are today's, as at each other broker, and not those at its leave."""
    with day(tmp_path, system) as today:
        name = _begin(today, role)
        with today.network.client(name, "first", 0) as first:
            for value in ("kept", "cleared", "changed"):
                first.paho.publish(f"state/{value}", b"1", 1, retain=True).wait_for_publish(BOUND_S)
            today.wait("B2 has what is retained", lambda: len(today.retained("B2")) == 3)
        today.leave(name)
        with today.network.client("B2", "second", 0) as second:
            for value, payload in (("cleared", b""), ("changed", b"2"), ("new", b"2")):
                second.paho.publish(f"state/{value}", payload, 1, True).wait_for_publish(BOUND_S)
        today.run_again(name)
        if _is_back(today, name, role):
            # A ready broker has these values at once.
            found = {"state/kept": b"1", "state/changed": b"2", "state/new": b"2"}
            assert today.retained(name) == found == today.retained("B2")
            today.publish_on()
            today.all_receive_from_all()


@pytest.mark.parametrize(("system", "role"), cases([("dynatops", "last")], ROLES))
def test_a_supervisor_restarts_a_broker_right_after_its_leave(
    tmp_path: Path, system: str, role: str
) -> None:
    with day(tmp_path, system) as today:
        name = _begin(today, role)
        today.leave(name, then=lambda: today.run_again(name))
        if _is_back(today, name, role):
            today.publish_on()
            today.all_receive_from_all()

"""Brokers that leave: their neighbours stay linked; sessions and acknowledged messages survive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.live.membership.days import begin_leave, cases, day, systems


@pytest.mark.parametrize("system", systems("grape"))
def test_a_middle_broker_leaves_while_plain_clients_publish_through_it(
    tmp_path: Path, system: str
) -> None:
    """B2 is the middle; its publisher and its neighbours' publishers never follow redirects."""
    with day(tmp_path, system) as today, today.subscriber("s", "B3") as subscriber:
        # By default publishers are moved after so many publications.
        today.publish_on(120)
        today.leave("B2")
        today.are_linked()
        today.publish_on()
        today.has_all(subscriber)
        today.all_receive_from_all()


@pytest.mark.parametrize("system", systems("geops"))
def test_a_joined_broker_stays_linked_when_its_first_neighbour_leaves(
    tmp_path: Path, system: str
) -> None:
    with day(tmp_path, system) as today:
        today.join("J1", "B2")
        today.are_linked()
        today.publish_at("J1")
        today.publish_on()
        today.leave("B2")
        today.are_linked()
        today.publish_on()
        today.all_receive_from_all()


@pytest.mark.parametrize(("system", "network"), cases([("tco", "old")], ["fresh", "old"]))
def test_a_session_moves_between_joined_brokers_while_their_hub_leaves(
    tmp_path: Path, system: str, network: str
) -> None:
    """Joined brokers that admit a client keep its session, and acknowledged messages for others."""
    with day(tmp_path, system, publishers=("B1",)) as today:
        if network == "old":
            today.grow_old()
        for joiner in ("J1", "J2"):
            today.join(joiner, "B2")
        with today.subscriber("s", "J1") as subscriber:
            today.publish_on()
            leaving = begin_leave(today.network, "B2")
            for joiner in ("J2", "J1", "J2"):
                subscriber.disconnect()
                today.publish_on(5)
                subscriber.connect(joiner)
            today.await_leave("B2", leaving)
            today.publish_on()
            assert subscriber.session_present == [False, True, True, True]
            today.has_all(subscriber)
        today.are_linked()
        today.all_receive_from_all()

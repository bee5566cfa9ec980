"""Session transfers and the session directory when brokers leave, and come back."""

from __future__ import annotations

import pytest

from shoal.mqtt.federation.controls import (
    Entered,
    FederationMembers,
    OwnersSought,
    SessionAdopted,
    Several,
    encode_control,
)
from shoal.mqtt.federation.session_transfer.directory.announcing import MOST_AS_ONE
from shoal.mqtt.federation.time_slices import MOST_AT_ONCE
from tests.mqtt.broker_api import KEPT
from tests.mqtt.network_broker_api import Network, federation_of


@pytest.fixture
def network() -> Network:
    network = Network("B1", "B2", "B3")
    network.after(20)
    return network


def ask(network: Network, broker: str, later_us: int, owner: str | None = "B1") -> Entered:
    """Broker B1 hears that a broker requests the session, or that it owns it."""
    site = network["B1"]
    session = site.clients.sessions.get("c")
    assert session is not None
    began_us = session.began_us if owner is None else 0
    entered = Entered("c", broker, site.now_us + later_us, True, owner, "", began_us)
    federation_of(network, "B1").on_control(encode_control(entered), site.now_us)
    return entered


def test_a_broker_that_has_come_back_is_heard_again_after_the_start(network: Network) -> None:
    """This broker was down while the other one joined again, and remembers its leave."""
    federation, now_us = federation_of(network, "B3"), network["B3"].now_us
    starting = federation.session_transfer.starting
    starting.joined(now_us)
    starting.others = lambda: ["B1"]
    federation.left("B1", now_us)
    assert starting.unheard(now_us) == []
    federation.came("B1", now_us)
    assert starting.unheard(now_us) == ["B1"]
    network["B3"].after(2)
    assert starting.unheard(network["B3"].now_us) == []


def test_a_list_counts_that_precedes_the_news_of_its_brokers_return(network: Network) -> None:
    """The news takes another way than the list, which its broker sends once."""
    federation, now_us = federation_of(network, "B3"), network["B3"].now_us
    starting = federation.session_transfer.starting
    starting.joined(now_us)
    starting.others = lambda: ["B1"]
    federation.left("B1", now_us)
    federation.on_control(encode_control(Several((), "B1", 0, 1)), now_us)
    federation.came("B1", now_us)
    assert starting.unheard(now_us) == []


def test_a_list_that_has_come_counts_when_its_broker_moves(network: Network) -> None:
    federation, now_us = federation_of(network, "B3"), network["B3"].now_us
    starting = federation.session_transfer.starting
    starting.joined(now_us)
    starting.others = lambda: ["B1"]
    federation.came("B1", now_us)
    assert starting.unheard(now_us) == []


def test_no_session_goes_to_a_broker_that_left_after_its_request(network: Network) -> None:
    """A second broker asks during an export, and leaves before its target does."""
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    network.is_slow = True
    ask(network, "B2", 1)
    ask(network, "B3", 2)
    federation = federation_of(network, "B1")
    for name in ("B3", "B2"):
        federation.left(name, network["B1"].now_us)
    network["B1"].after(0.1)
    assert federation.session_transfer.giving.get("c") is None
    assert "c" in network["B1"].clients.sessions


def test_a_session_follows_one_that_went_on_from_a_broker_that_left(network: Network) -> None:
    """The last answer of the leaving broker comes after the news of its leave."""
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    network.is_slow = True
    request = ask(network, "B2", 1)
    federation = federation_of(network, "B1")
    adopted = SessionAdopted(("c", request.at_us))
    federation.on_control(encode_control(adopted), network["B1"].now_us)
    owner = ask(network, "B3", 2, owner=None)
    federation.left("B2", network["B1"].now_us)
    network["B1"].after(0.1)
    move = federation.session_transfer.giving.get("c")
    assert move is not None
    assert move.target == ("B3", ("c", owner.at_us))


def test_the_leave_of_a_target_is_handled_in_slices(network: Network) -> None:
    count = 4 * MOST_AT_ONCE
    site = network["B1"]
    for number in range(count):
        site.connect(f"c{number}", **KEPT).lose()
    network.is_slow = True
    federation = federation_of(network, "B1")
    giving = federation.session_transfer.giving
    for number in range(count):
        entered = Entered(f"c{number}", "B2", site.now_us + 1, True, "B1")
        federation.on_control(encode_control(entered), site.now_us)
    site.after(0.5)
    federation.left("B2", site.now_us)
    assert len(giving._moves) > count // 2
    site.after(1)
    assert not giving._moves


def test_the_leave_of_an_unknown_broker_costs_nothing(network: Network) -> None:
    """A broker that starts knows of many that have left, and none was a registrar."""
    site = network["B1"]
    for number in range(4 * MOST_AS_ONE):
        site.connect(f"c{number}", **KEPT).lose()
    listing = federation_of(network, "B1").session_transfer.listing
    for number in range(100):
        federation_of(network, "B1").left(f"X{number}", site.now_us)
    assert not listing._turns.is_on


def test_questions_for_owners_are_answered_one_at_a_time(network: Network) -> None:
    site = network["B2"]
    network["B1"].connect("c", **KEPT)
    network.after(1)
    network.is_slow = True
    federation = federation_of(network, "B2")
    listing = federation.session_transfer.listing
    site.clients.front_end.take()  # type: ignore[union-attr]
    listing._turns._left = 0
    for _ in range(10_000):
        question = OwnersSought(("B1",), "B3")
        federation.on_control(encode_control(question), site.now_us)
    assert len(listing._turns._steps) <= 2


@pytest.mark.parametrize("is_back", [False, True])
def test_the_groups_of_a_broker_that_left_are_removed_in_slices(
    network: Network, is_back: bool
) -> None:
    federation, site = federation_of(network, "B1"), network["B1"]
    membership = federation.sharing.membership
    for number in range(3 * MOST_AT_ONCE):
        name = f"$share/g{number}/a"
        membership.learn(FederationMembers("B3", name, site.now_us, 1, 1, ""))
    federation.left("B3", site.now_us)
    assert len(membership) == 2 * MOST_AT_ONCE
    if is_back:
        federation.came("B3", site.now_us)
    site.after(0.1)
    assert len(membership) == (2 * MOST_AT_ONCE if is_back else 0)


def test_a_late_announcement_of_a_broker_that_left_gets_no_session(network: Network) -> None:
    """This broker was disconnected: it hears of the leave first, then the earlier announcements."""
    network["B1"].connect("c", **KEPT).subscribe("a", qos=1)
    network.is_slow = True
    ask(network, "B2", 1)
    federation = federation_of(network, "B1")
    federation.left("B2", network["B1"].now_us)
    ask(network, "B2", 5, owner=None)
    assert federation.session_transfer.giving.get("c") is None
    owner = ask(network, "B3", 9, owner=None)
    move = federation.session_transfer.giving.get("c")
    assert move is not None
    assert move.target == ("B3", ("c", owner.at_us))

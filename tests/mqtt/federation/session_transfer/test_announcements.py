"""Announcements of clients: of lasting sessions to all, once; of others to their registrars."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import Control, Entered
from shoal.mqtt.federation.session_transfer.directory.announcing import (
    MOST_MET,
    ClientAnnouncements,
)
from shoal.mqtt.federation.session_transfer.directory.registering import registrars
from shoal.mqtt.federation.session_transfer.session_transfer import SessionTransfer
from shoal.mqtt.front_end.network import EVERY_BROKER
from shoal.mqtt.timers import MqttTimers
from tests.mqtt.broker_api import KEPT
from tests.mqtt.network_broker_api import Network, federation_of

NAMES = ("B1", "B2", "B3", "B4", "B5", "B6")


@pytest.fixture
def network() -> Network:
    """Brokers in a line that know each other."""
    network = Network(*NAMES)
    network.after(20)
    return network


def session_transfer(network: Network, name: str) -> SessionTransfer:
    return federation_of(network, name).session_transfer


def client_with(*its_registrars: str) -> str:
    """A client name with these registrars."""
    return next(
        name
        for name in (f"c{number}" for number in range(1_000))
        if set(registrars(name, NAMES)) == set(its_registrars)
    )


def answer(client: str) -> int:
    """The number of links that the answer of a registrar passes: a client at B1 is nowhere else."""
    asked = registrars(client, NAMES)
    return 0 if "B1" in asked else NAMES.index(asked[0])


def restart(network: Network, name: str, *, waits: bool = True) -> None:
    """Restart the MQTT side of a broker, without memory."""
    site = network[name]
    for end in list(site._ends.values()):
        end.closed = True
    site.clients = BrokerClients(name, site.now_us, limits=site.clients.limits, networked=True)
    site.carry_out(site.clients.take_effects())
    if waits:
        network.after(20)


def places(network: Network, client: str) -> set[str]:
    """Brokers that know anything of a client."""
    found = set()
    for name in network.sites:
        side = session_transfer(network, name)
        if client in side._sessions or client in side._entered or side.registry.place(client):
            found.add(name)
    return found


def test_invented_brokers_fill_no_memory() -> None:
    """A broker that announces names without end fills no memory, and slows no client's entry."""
    told: list[tuple[str, Control]] = []
    telling = ClientAnnouncements(
        "B1", MqttTimers(), lambda to, control, _: told.append((to, control)), lambda *_: None
    )
    for number in range(MOST_MET + 100):
        telling.met(f"C{number}")
    telling.entered(
        Entered("c", "B1", 1, is_kept=False, must_send_session=None, began_us=1),
        1,
        is_known=False,
        is_new=True,
    )
    assert len(telling) == MOST_MET
    [(one, _), (other, _)] = told
    assert {one, other} <= {f"C{number}" for number in range(MOST_MET)}
    for number in range(MOST_MET + 100):
        telling.left(f"C{number}")
    assert len(telling) == 0


def test_all_are_told_while_no_broker_is_known() -> None:
    told: list[str] = []
    telling = ClientAnnouncements(
        "B1", MqttTimers(), lambda to, control, _: told.append(to), lambda *_: None
    )
    numbers = count()

    def heard_by() -> set[str]:
        told.clear()
        control = Entered(
            f"c{next(numbers)}", "B1", 1, is_kept=False, must_send_session=None, began_us=1
        )
        telling.entered(control, 1_000_000_000, is_known=False, is_new=True)
        telling.flush(1_000_000_000)
        return set(told)

    assert heard_by() == {EVERY_BROKER}  # no broker is known
    telling.met("B2")
    telling.met("B3")
    assert EVERY_BROKER not in heard_by()
    telling.left("B3")
    assert EVERY_BROKER not in heard_by()
    telling.left("B2")
    assert heard_by() == {EVERY_BROKER}


def test_only_registrars_are_told_of_a_short_session(network: Network) -> None:
    name = client_with("B4", "B5")
    client = network["B1"].connect(name)
    assert places(network, name) == {"B1", "B4", "B5"}
    client.disconnect()
    assert places(network, name) == set()


def test_an_announcement_costs_the_links_to_the_registrars(network: Network) -> None:
    name = client_with("B2", "B3")
    network.carried = 0
    client = network["B1"].connect(name)
    assert network.carried == 1 + 2 + answer(name)
    client.lose()
    assert network.carried == 2 * (1 + 2) + answer(name)


@pytest.mark.parametrize("both", [("B1", "B2"), ("B1", "B3"), ("B3", "B4"), ("B5", "B6")])
def test_the_old_connection_is_closed(network: Network, both: tuple[str, str]) -> None:
    """Also if one of the two brokers is a registrar itself."""
    name = client_with(*both)
    clients = [network[broker].connect(name) for broker in ("B1", "B3", "B1", "B6")]
    assert [each.closed for each in clients] == [True, True, True, False]
    assert clients[0].take()[-1].reason_code is ReasonCode.SESSION_TAKEN_OVER
    clients[-1].disconnect()
    assert places(network, name) == set()


@pytest.mark.parametrize("dead", ["B4", "B5"])
def test_a_client_is_known_after_a_registrars_death(network: Network, dead: str) -> None:
    """The other one knows, and a starting broker is told again."""
    name = client_with("B4", "B5")
    first = network["B1"].connect(name)
    restart(network, dead, waits=False)
    second = network["B2"].connect(name)
    assert first.closed
    network.after(20)
    for registrar in ("B4", "B5"):
        assert session_transfer(network, registrar).registry.place(name) == "B2"
        restart(network, registrar)
    third = network["B1"].connect(name)
    assert second.closed
    third.disconnect()
    assert places(network, name) == set()


def test_registrars_change_with_joins_and_leaves(network: Network) -> None:
    """A client's registrars are among the present brokers, and no other broker keeps it."""
    strangers = Network(*NAMES[:-1])
    strangers.after(20)
    names = [f"c{number}" for number in range(20)]
    clients = {name: strangers["B1"].connect(name) for name in names}
    for broker in NAMES[:-1]:
        side = session_transfer(strangers, broker)
        side.telling.met("B6")
        side.send_clients("B6", strangers[broker].now_us)
        strangers[broker].carry_out(strangers[broker].clients.take_effects())
    joined = {name for name in names if "B6" in registrars(name, NAMES)}
    assert joined
    for name in names:
        told = set(registrars(name, NAMES)) - {"B6"}
        assert places(strangers, name) == {"B1"} | told
    for broker in NAMES[:-1]:
        federation_of(strangers, broker).left("B6", strangers[broker].now_us)
        strangers[broker].carry_out(strangers[broker].clients.take_effects())
    for name, client in clients.items():
        assert places(strangers, name) == {"B1"} | set(registrars(name, NAMES[:-1]))
        strangers["B2"].connect(name)
        assert client.closed


def test_brokers_that_know_different_members_find_the_client(network: Network) -> None:
    """One of two registrars changes with a broker that not all know yet."""
    for number in range(30):
        name = f"c{number}"
        first = network["B1"].connect(name)
        side = session_transfer(network, "B2")
        side.telling.met("B0")
        network["B2"].connect(name)
        assert first.closed
        side.telling.left("B0")


def test_a_lasting_session_is_announced_once(network: Network) -> None:
    client = network["B1"].connect("c", **KEPT)
    for name in NAMES[1:]:
        assert session_transfer(network, name).homes.get("c") == "B1"
    network.carried = 0
    for _ in range(3):
        client.lose()
        client = network["B1"].connect("c", **KEPT)
        assert client.connack.session_present
    assert network.carried == 0
    client.lose()
    assert network["B5"].connect("c", **KEPT).connack.session_present


def test_a_return_is_later_than_an_entry_elsewhere_before(network: Network) -> None:
    """Its return was not announced; brokers with an older entry are corrected."""
    first = network["B1"].connect("c", **KEPT)
    first.subscribe("a", qos=1)
    first.lose()
    network.after(1)
    network.is_slow = True
    elsewhere = network["B3"].open()
    elsewhere.send(Connect("c", **KEPT))
    network["B1"].after(1)
    back = network["B1"].connect("c", **KEPT)
    network.is_slow = False
    network.settle()
    network.after(1)
    assert back.connack.session_present
    assert not back.closed
    assert elsewhere.closed
    for name in NAMES[1:]:
        assert session_transfer(network, name).homes.get("c") == "B1"


def test_a_lasting_session_ends_at_its_known_broker(network: Network) -> None:
    """Another broker admitted the client before it knew of the session."""
    network.is_slow = True
    name = client_with("B4", "B5")
    kept = network["B1"].connect(name, **KEPT)
    network["B6"].after(1)
    other = network["B6"].connect(name)
    network.is_slow = False
    network.settle()
    network.after(1)
    assert kept.closed
    assert not other.closed
    assert name not in network["B1"].clients.sessions
    other.disconnect()
    for broker in NAMES:
        assert session_transfer(network, broker).homes.get(name) is None
    assert not network["B3"].connect(name, **KEPT).connack.session_present


def test_another_users_client_changes_no_registrars_entry(network: Network) -> None:
    name = client_with("B4", "B5")
    first = network["B1"].connect(name)
    session = network["B1"].clients.sessions[name]
    session.give_to("ann")
    site = network["B1"]
    session_transfer(network, "B1").send_clients("B4", site.now_us)
    session_transfer(network, "B1").send_clients("B5", site.now_us)
    for broker in ("B4", "B5"):
        session_transfer(network, broker).registry.forget("B1")
    session_transfer(network, "B1").send_clients("B4", site.now_us)
    session_transfer(network, "B1").send_clients("B5", site.now_us)
    site.carry_out(site.clients.take_effects())
    other = network["B2"].connect(name)
    assert other.closed
    assert not first.closed
    for broker in ("B4", "B5"):
        assert session_transfer(network, broker).registry.place(name) == "B1"


def test_announcements_to_all_are_batched(network: Network) -> None:
    network.carried = 0
    for number in range(100):
        network["B1"].connect(f"c{number}", **KEPT)
    assert network.carried == 5 + answer("c0")
    network.after(1)
    assert network.carried == 2 * 5 + sum(answer(f"c{number}") for number in range(100))
    for number in range(100):
        assert session_transfer(network, "B6").homes.get(f"c{number}") == "B1"


@pytest.mark.parametrize("how", ["leaves", "subscribes", "goes"])
def test_batched_announcements_precede_dependent_messages(network: Network, how: str) -> None:
    for name in ("a", "b"):
        client = network["B1"].connect(name, **KEPT)
    assert session_transfer(network, "B6").homes.get("b") is None
    if how == "leaves":
        client.lose()
    elif how == "subscribes":
        client.subscribe("x", qos=1)
    else:
        network["B2"].connect("d", **KEPT)
        network["B1"].connect("d", **KEPT)
    assert session_transfer(network, "B6").homes.get("b") == "B1"


@pytest.mark.parametrize("terms", [{}, KEPT], ids=["not kept", "kept"])
@pytest.mark.parametrize("later", ["B2", "B5"])
def test_a_split_network_agrees_after_reconnection(
    network: Network, terms: dict[str, Any], later: str
) -> None:
    """Of two owners of the same client the later one remains, wherever its registrars are."""
    network.cut("B3", "B4")
    names = [f"c{number}" for number in range(20)]
    earlier = "B5" if later == "B2" else "B2"
    first = {name: network[earlier].connect(name, **terms) for name in names}
    network.after(1)
    second = {name: network[later].connect(name, **terms) for name in names}
    network.after(1)
    assert not any(client.closed for client in (*first.values(), *second.values()))
    network.heal("B3", "B4")
    network.after(20)
    for name in names:
        assert first[name].closed
        assert not second[name].closed
        assert name not in network[earlier].clients.sessions
        second[name].disconnect()
    network.after(1_100)
    for name in names:
        assert places(network, name) == set()

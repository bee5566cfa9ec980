"""Controls between MQTT sides reach the part concerned; malformed ones are dropped."""

from __future__ import annotations

from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import Ended, encode_control
from tests.mqtt.network_broker_api import Network


def test_malformed_controls_between_brokers_are_dropped() -> None:
    network = Network("B1", "B2", "B3")
    front_end = network["B1"].clients.front_end
    bad_text = bytearray(encode_control(Ended("client", "B1")))
    bad_text[bad_text.index(b"client")] = 0xFF
    for body in (b"", b"\x00", b"\xc1", bytes(range(50)), bytes(bad_text)):
        front_end.send("*", body, 0)
    network["B1"].carry_out(network["B1"].clients.take_effects())
    assert network["B3"].connect("c").connack.reason_code is ReasonCode.SUCCESS


def test_a_single_broker_grants_at_once_and_joins_no_one() -> None:
    clients, granted = BrokerClients("B1", now_us=0), list[int]()
    clients.when_known(granted.append, 5)
    clients.linked("B2", False, 6)
    clients.linked("B2", True, 7)
    assert granted == [5]
    assert clients.take_effects() == []

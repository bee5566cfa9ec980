"""`$every` spares links, and clients get what they would get without that."""

from __future__ import annotations

import pytest

from tests.mqtt.network_broker_api import Network


def passed(*topic_filters: str, qos: int = 0) -> tuple[int, list[bytes]]:
    """The publications on links, and what the first client gets, of 10 in 1 s each 10 s later."""
    network = Network("B1", "B2", "B3")
    network.after(15)
    clients = []
    for number, topic_filter in enumerate(topic_filters):
        client = network["B3"].connect(f"c{number}")
        client.subscribe(topic_filter, qos=1)
        clients.append(client)
    publisher = network["B1"].connect("p")
    network.after(1)
    network.carried = 0
    for number in range(200):
        publisher.publish("t", b'{"v": %d}' % number, qos=qos)
        network.after(0.1)
    carried = network.carried
    network.after(30)
    return carried, clients[0].take_payloads()


def test_links_carry_what_the_fastest_subscriber_needs() -> None:
    carried, payloads = passed("t?$every=10s", "+?$every=20s")
    assert carried <= 2 * 6  # two links, half an interval
    assert payloads[0] == b'{"v": 0}'
    assert payloads[-1] == b'{"v": 199}'
    assert len(payloads) == 3


@pytest.mark.parametrize(
    ("topic_filters", "qos"),
    [(("t?$every=10s", "#"), 0), (("t?$changed=v",), 0), (("t?$every=10s",), 1)],
)
def test_links_carry_all_that_a_subscriber_or_qos_1_needs(
    topic_filters: tuple[str, ...], qos: int
) -> None:
    carried, payloads = passed(*topic_filters, qos=qos)
    assert carried >= 400
    assert payloads[-1] == b'{"v": 199}'

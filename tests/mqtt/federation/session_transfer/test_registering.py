"""A registrar's knowledge of clients at other brokers."""

from __future__ import annotations

from collections import OrderedDict
from random import Random
from typing import Any

import pytest

from shoal.mqtt.federation.controls import Entered
from shoal.mqtt.federation.session_transfer.directory import registering
from shoal.mqtt.federation.session_transfer.directory.registering import Registry

BROKERS = ("", "B1", "B2", "B3")


class NeverWalked(OrderedDict[str, Any]):
    """A table that may not be iterated over."""

    def __iter__(self) -> Any:
        raise AssertionError

    def items(self) -> Any:
        raise AssertionError


def entered(client_id: str, broker: str, at_us: int = 1) -> Entered:
    return Entered(client_id, broker, at_us, False, None)


def test_a_restarted_brokers_entries_are_dropped_without_a_search() -> None:
    """A search of a million clients at each start of a broker would take 0.4 s."""
    registry = Registry()
    registry._known = NeverWalked()
    for number in range(100):
        registry.put(entered(f"c{number}", f"B{number % 10}"))
    registry.forget("B3")
    registry.forget("B77")
    gone = [number for number in range(100) if registry.place(f"c{number}") is None]
    assert gone == list(range(3, 100, 10))


@pytest.mark.parametrize("seed", range(20))
def test_a_registrar_knows_the_last_announcement(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registering, "MOST_REGISTERED", 12)
    chance, registry = Random(seed), Registry()
    known: dict[str, tuple[int, str]] = {}
    for at_us in range(300):
        client_id, broker = f"c{chance.randrange(16)}", chance.choice(BROKERS)
        match chance.randrange(8):
            case 0:
                registry.forget(broker)
                known = {each: place for each, place in known.items() if place[1] != broker}
            case 1:
                registry.end(client_id, broker)
                if known.get(client_id, (0, None))[1] == broker:
                    del known[client_id]
            case _:
                stamp = at_us - chance.choice((0, 0, 50))
                registry.put(entered(client_id, broker, stamp))
                if (stamp, broker) >= known.get(client_id, (0, "")):
                    if client_id not in known and len(known) == 12:
                        del known[next(iter(known))]
                    known[client_id] = (stamp, broker)
        found = {f"c{number}": registry.place(f"c{number}") for number in range(16)}
        assert {each: place for each, place in found.items() if place is not None} == {
            each: broker for each, (_, broker) in known.items()
        }
    for broker in BROKERS:
        registry.forget(broker)
    assert not registry._known
    assert not registry._clients

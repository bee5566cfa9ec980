"""The wait for brokers at rest; brokers that do not answer are errors with their names."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from shoal.experiments.live import brokers
from shoal.experiments.live.brokers import Counts, LiveBrokers, UnrestError
from shoal.runtime.network_file import NetworkFile, parse_network
from tests.runtime.virtual_loop import Cable, VirtualLoop


def network(**keys: str) -> NetworkFile:
    sections = [{"name": "B1", "peers": "127.0.0.1:7001", **keys}]
    return parse_network({"name": "n", "brokers": sections})


ADMIN = {"admin": "127.0.0.1:7002"}
QUIET: dict[str, Any] = {
    "missing": [],
    "links": [{"buffered_bytes": 0}],
    "forwarding_channels": [],
    "counts": {"publications_in": 3, "MigrationRecord": 1},
    "mqtt": {},
    "tables": {},
    "publishers": [{"publisher": "p", "broker": "B2", "is_moving": False}],
}
# Each keeps a network from resting while it holds or changes.
STATES = [
    {"missing": ["link to B2"]},
    {"links": [{"buffered_bytes": 9}]},
    {"forwarding_channels": [{"buffered_bytes": 9}]},
    {"publishers": [{"publisher": "p", "broker": "B1", "is_moving": True}]},
]
CHANGES = [
    {"counts": {"publications_in": 2}},
    {"mqtt": {"deliveries": 1}},
    {"tables": {"subscriptions": 1}},
    {"publishers": []},
]
AT_REST = Counts(publications=3, moves=1, places={"p": "B2"})


def _no_cable(left: str, right: str) -> Cable:
    raise AssertionError("nobody connects")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The broker's answers, the last of them for ever."""
    found: list[dict[str, Any]] = []

    async def get_json(address: object, path: str, caller: object) -> dict[str, Any]:
        return found.pop(0) if len(found) > 1 else found[0]

    monkeypatch.setattr(brokers, "get_json", get_json)
    monkeypatch.setattr(brokers, "PAUSE_S", 0)
    return found


@pytest.mark.parametrize("state", STATES)
def test_a_network_rests_when_nothing_is_under_way(
    answers: list[dict[str, Any]], state: dict[str, Any]
) -> None:
    answers += [QUIET | state] * 3 + [QUIET]
    assert asyncio.run(LiveBrokers(network(**ADMIN)).at_rest()) == AT_REST


@pytest.mark.parametrize("change", CHANGES)
def test_a_network_rests_when_nothing_happens(
    answers: list[dict[str, Any]], change: dict[str, Any]
) -> None:
    answers += [QUIET | change, QUIET]
    assert asyncio.run(LiveBrokers(network(**ADMIN)).at_rest()) == AT_REST


def test_subscriptions_may_take_any_time_to_spread(
    answers: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers += [QUIET | {"tables": {"subscriptions": number}} for number in range(20)] + [QUIET]
    monkeypatch.setattr(brokers, "PAUSE_S", 2.0)
    monkeypatch.setattr(brokers, "REST_TIMEOUT_S", 20.0)
    # Its time is virtual: no machine is too slow.
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(_no_cable)) as runner:
        assert runner.run(LiveBrokers(network(**ADMIN)).at_rest()) == AT_REST


def test_a_network_that_never_rests_is_an_error(
    answers: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers.append(QUIET | {"missing": ["tables of B2"]})
    monkeypatch.setattr(brokers, "REST_TIMEOUT_S", 0.05)
    with pytest.raises(UnrestError, match="did not come to rest"):
        asyncio.run(LiveBrokers(network(**ADMIN)).at_rest())


def test_missing_and_silent_admin_ports_are_errors() -> None:
    with pytest.raises(UnrestError, match="broker B1 has no admin address"):
        LiveBrokers(network())
    silent = r"^B1 does not answer at 127.0.0.1:1: Connection refused$"
    with pytest.raises(UnrestError, match=silent):
        asyncio.run(LiveBrokers(network(admin="127.0.0.1:1")).at_rest())

"""A broker of which the last link has ended joins again, unless another broker is faster."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from shoal.runtime.links import membership
from shoal.runtime.links.joining import JoinAttempt, NetworkJoining
from shoal.runtime.links.membership import NetworkMembership
from shoal.runtime.storage.overlay_file import OverlayFile
from tests.runtime.live import on_asyncio, until
from tests.runtime.one_service import network, running

X = {"attribute": "x", "low": 0, "high": 10}


class Alone:
    """Broker B1 of which the last link has ended; it knows B2."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, probes: Any) -> None:
        monkeypatch.setattr(membership, "LOOK_S", 0.01)
        monkeypatch.setattr(membership, "ALONE_S", 0.01)
        self.overlay = OverlayFile()
        there: Any = SimpleNamespace(name="B2", addresses={"B2": "127.0.0.1:1"})
        directory: Any = SimpleNamespace(places=[there], addresses=there.addresses)
        self.links: Any = SimpleNamespace(neighbours=[], away=[], have_ended=True)
        clock: Any = SimpleNamespace(now_us=lambda: 1)
        node: Any = SimpleNamespace(id="B1", at_flush=lambda *_: None)
        self.joining = joining = NetworkJoining("B1", (), (), self.overlay, directory, clock)
        self.membership = NetworkMembership(
            node, self.links, directory, joining, probes, lambda: False
        )
        self.membership.rejoin()


@on_asyncio
async def test_a_link_that_another_broker_opens_ends_the_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def why_not_taken(broker: str, address: object) -> str:
        return "another broker is connected"

    alone = Alone(monkeypatch, SimpleNamespace(why_not_taken=why_not_taken))
    joining = alone.joining
    await until(lambda: joining.stage == "asking" and bool(joining.problems))
    assert alone.overlay.joins is not None
    assert all(isinstance(each, JoinAttempt) for each in joining.problems)
    alone.links.neighbours.append("B2")
    await until(lambda: joining.stage == "")
    assert alone.overlay.joins is None
    assert not joining.problems
    await asyncio.sleep(0.05)
    assert joining.stage == ""
    await alone.membership.stop()


@on_asyncio
async def test_a_link_that_comes_up_during_a_probe_stays_the_only_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The link of the member that answered replaced it on the disk."""

    async def why_not_taken(broker: str, address: object) -> str:
        alone.links.neighbours.append("B3")
        alone.overlay.opened("B3", 1)
        return ""

    alone = Alone(monkeypatch, SimpleNamespace(why_not_taken=why_not_taken))
    await until(lambda: bool(alone.links.neighbours) and alone.joining.stage == "")
    assert list(alone.overlay.links) == ["B3"]
    assert alone.overlay.joins is None
    await alone.membership.stop()


@on_asyncio
async def test_a_broker_whose_links_do_not_last_waits_for_others_as_a_founder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed while they asked to join, the brokers of a cluster never started again."""
    monkeypatch.setattr(membership, "LOOK_S", 0.01)
    monkeypatch.setattr(membership, "ALONE_S", 0.01)
    cluster = network(2, links=[], system="bluedove", bluedove={"dimensions": [X]})
    stages = set()
    async with running(cluster, "B1") as (first,):
        for _ in range(50):
            await asyncio.sleep(0.01)
            stages.add(first.joining.stage)
        assert first.missing()[0] == "a link to one of B2"
        async with running(cluster, "B2"):
            await until(lambda: not first.missing())
        await until(lambda: bool(first.missing()))
        await asyncio.sleep(0.2)
        assert stages | {first.joining.stage} == {""}
        overlay = first.links.overlay
        assert (overlay.is_founder, overlay.joins) == (True, None)

"""A broker without any link joins again, unless another broker is faster."""

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


class Probes:
    """No broker admits this one."""

    async def why_not_taken(self, broker: str, address: object) -> str:
        return "another broker is connected"


@on_asyncio
async def test_a_link_that_another_broker_opens_ends_the_questions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(membership, "LOOK_S", 0.01)
    monkeypatch.setattr(membership, "ALONE_S", 0.01)
    overlay = OverlayFile()
    there: Any = SimpleNamespace(name="B2", addresses={"B2": "127.0.0.1:1"})
    directory: Any = SimpleNamespace(places=[there], addresses=there.addresses)
    links: Any = SimpleNamespace(neighbours=[], away=[])
    clock: Any = SimpleNamespace(now_us=lambda: 1)
    node: Any = SimpleNamespace(id="B1", at_flush=lambda *_: None)
    probes: Any = Probes()
    joining = NetworkJoining("B1", (), (), overlay, directory, clock)
    found = NetworkMembership(node, links, directory, joining, probes, lambda: False)
    found.rejoin()
    await until(lambda: joining.stage == "asking" and bool(joining.problems))
    assert overlay.joins is not None
    assert all(isinstance(each, JoinAttempt) for each in joining.problems)
    links.neighbours.append("B2")
    await until(lambda: joining.stage == "")
    assert overlay.joins is None
    assert not joining.problems
    await asyncio.sleep(0.05)
    assert joining.stage == ""
    await found.stop()

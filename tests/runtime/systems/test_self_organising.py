"""Self-organising brokers on sockets: recommendations and exchanges."""

from __future__ import annotations

import asyncio

import pytest

from shoal.broker.effects import Costs
from shoal.overlays.self_organising.parameters import Mode, SelfOrganisingParameters
from shoal.overlays.self_organising.records import ProposalRecord
from shoal.runtime.operations.metrics import render
from tests.runtime.live import LiveNetwork, live, on_loop, until

# All is published at B1 and wanted at B3; B2 only forwards it.
LINE = (("B1", "B2"), ("B2", "B3"))
ALL = ("B1", "B2", "B3")


def outcomes(network: LiveNetwork) -> list[str]:
    return [row.outcome for row in network.records if isinstance(row, ProposalRecord)]


@pytest.mark.parametrize("mode", Mode)
@on_loop
async def test_a_broker_that_only_forwards_is_bypassed(mode: Mode) -> None:
    parameters = SelfOrganisingParameters(mode=mode, interval_us=100_000)
    async with live(LINE, system="self_organising", parameters=parameters) as network:
        for name, node in network.nodes.items():
            node.bring(Costs(1.0, {other: 1.0 for other in ALL if other != name}))
        publisher, subscriber = network.client("P", "B1"), network.client("S", "B3")
        publisher.advertise("a", "TRUE")
        subscriber.subscribe("s", "TRUE")
        await until(lambda: bool(network.nodes["B1"].machine.description["subscriptions"]))
        wanted = "advised" if mode is Mode.ADVICE else "done"
        published = 0
        async with asyncio.timeout(20):
            while wanted not in outcomes(network):
                await publisher.publish({"x": published})
                published += 1
                await asyncio.sleep(0.002)
            await publisher.publish({"x": published})
            found = [await subscriber.deliveries.get() for _ in range(published + 1)]
        # Each once and in order, with exchanges of links meanwhile.
        numbers = [delivery.routed.publication.sequence for delivery in found]
        assert numbers == list(range(published + 1))
        assert found[-1].hops == (2 if mode is Mode.ADVICE else 1)
        if mode is Mode.ADVICE:
            assert set(outcomes(network)) <= {"advised", "refused"}
        assert subscriber.deliveries.empty()
        statuses = [{"counts": node.counts} for node in network.nodes.values()]
        metrics = "".join(render(lambda each=each: each).decode() for each in statuses)
        assert f'shoal_link_proposals_total{{outcome="{wanted}"}}' in metrics

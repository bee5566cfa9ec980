"""A live network on loopback inside one test: nodes with real links, and clients in the process."""

from __future__ import annotations

import asyncio
import inspect
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import wraps
from itertools import count
from typing import Any

import msgspec
import pytest
import uvloop

from shoal.broker.effects import Deliver, Started
from shoal.broker.links.controls import CONTROLS
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.protocol import PROTOCOL
from shoal.broker.machine import Broker
from shoal.broker.messages import Message, Publish
from shoal.broker.wire import COMMON, Codec
from shoal.client import client
from shoal.clients.forwarding_channel import ForwardingChannelLimits
from shoal.model import BrokerId
from shoal.overlays.registry import SYSTEMS, strategy_factory
from shoal.runtime.addresses import Address
from shoal.runtime.driving.timing.clock import Clock
from shoal.runtime.free_ports import free_ports
from shoal.runtime.front_ends.clients import LocalClient
from shoal.runtime.links.forwarding_channels import ForwardingChannels
from shoal.runtime.links.peer_links import PeerLinks
from shoal.runtime.links.peer_settings import PeerSettings
from shoal.runtime.node import Node
from shoal.runtime.storage.overlay_file import OverlayFile
from shoal.runtime.supervisor import get_json
from shoal.runtime.tls.contexts import TlsContexts
from tests.examples import at_length

ANYWHERE = Address("127.0.0.1", 0)
# Enough for the slowest machine; a test that waits so long has failed.
PATIENCE_S = 40.0
# The tests' clients do not give up before.
client.CONNECT_TIMEOUT_S = PATIENCE_S

LOOPS = (asyncio.new_event_loop, uvloop.new_event_loop)


def on_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test on asyncio's own loop or on uvloop, half of them on each; in the soak on both."""
    mine = zlib.crc32(test.__name__.encode()) % 2
    return _on(test, [LOOPS[mine], *at_length([LOOPS[1 - mine]])])


def on_asyncio(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test that takes seconds on asyncio's own loop, and in the soak on uvloop.

    The networks of processes run on uvloop.
    """
    return _on(test, [LOOPS[0], *at_length(LOOPS[1:])])


def _on(test: Callable[..., Coroutine[Any, Any, None]], loops: list[Any]) -> Callable[..., None]:
    @pytest.mark.parametrize("loop", loops)
    @wraps(test)
    def run(*, loop: Callable[[], asyncio.AbstractEventLoop], **options: Any) -> None:
        with asyncio.Runner(loop_factory=loop) as runner:
            runner.run(asyncio.wait_for(test(**options), 3 * PATIENCE_S))

    signature = inspect.signature(test)
    parameter = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    parameters = [*signature.parameters.values(), parameter]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


class LiveNetwork:
    """Brokers that can be started, killed, and started again."""

    def __init__(
        self,
        links: Iterable[tuple[BrokerId, BrokerId]],
        system: str = "tree",
        parameters: msgspec.Struct | None = None,
        limits: LinkLimits | None = None,
        tls: Callable[[BrokerId], TlsContexts] | None = None,
        forwarding_channel_limits: ForwardingChannelLimits | None = None,
        brokers: Iterable[BrokerId] = (),
        *,
        has_journals: bool = False,
        protocols: Mapping[BrokerId, int] | None = None,
        first_incarnation: int = 1,
    ) -> None:
        """With journals restarted brokers remember their links.

        `protocols` are the link protocols of brokers of other versions.
        """
        self.joins = tuple(links)
        self.system = system
        self.parameters = parameters
        # Brokers with another network file.
        self.own_parameters: dict[BrokerId, msgspec.Struct] = {}
        self.limits = limits or LinkLimits()
        self.tls = tls
        self.forwarding_channel_limits = forwarding_channel_limits
        ends = (name for link in self.joins for name in link)
        self.names = list(dict.fromkeys((*brokers, *ends)))
        self.addresses: dict[BrokerId, Address] = {}
        self.nodes: dict[BrokerId, Node] = {}
        self.links: dict[BrokerId, PeerLinks] = {}
        self.forwarding_channels: dict[BrokerId, ForwardingChannels] = {}
        # The durable state of a broker, as on its disk.
        self.overlays: dict[BrokerId, OverlayFile] = {}
        self.former: dict[BrokerId, dict[BrokerId, None]] | None = {} if has_journals else None
        self.records: list[msgspec.Struct] = []
        self.notices: list[Message] = []
        self.protocols = dict(protocols or {})
        # One counter for each network: with a shared one, names would grow longer after more
        # starts, and a seed's run would depend on earlier runs.
        self._incarnations = count(first_incarnation)

    async def start(self, name: BrokerId) -> None:
        neighbours = tuple(
            right if left == name else left for left, right in self.joins if name in (left, right)
        )
        parameters = self.own_parameters.get(name, self.parameters)
        factory = strategy_factory(self.system, parameters)
        overlay = self.overlays.setdefault(name, OverlayFile())
        machine = Broker(name, (), factory, expected=overlay.expected(neighbours), joins=True)
        has_cycles = SYSTEMS[self.system].shape.has_cycles
        admits_bytes = self.limits.high_bytes if has_cycles else None
        node = Node(machine, Clock(), self, admits_bytes, SYSTEMS[self.system].shown_rows)
        codec = Codec(COMMON + CONTROLS + SYSTEMS[self.system].messages)
        shape = SYSTEMS[self.system].shape
        settings = PeerSettings(
            network="test",
            neighbours=neighbours,
            addresses=self.addresses,
            incarnation=next(self._incarnations),
            limits=self.limits,
            tls=self.tls(name) if self.tls else None,
            has_cycles=has_cycles,
            open_to_all=shape.opens_links or shape.mends,
            is_graceful=not shape.opens_links,
            protocol=self.protocols.get(name, PROTOCOL),
        )
        self.nodes[name] = node
        self.links[name] = PeerLinks(node, codec, settings, overlay=overlay)
        self.forwarding_channels[name] = ForwardingChannels(
            node, settings, self.forwarding_channel_limits
        )
        self.links[name].forwarding_channels = self.forwarding_channels[name]
        node.start(self._started(name, node, overlay))
        self.forwarding_channels[name].start()
        if name not in self.addresses:
            self.addresses[name] = Address("127.0.0.1", *free_ports("127.0.0.1", 1))
        await self.links[name].start(self.addresses[name])

    def _started(self, name: BrokerId, node: Node, overlay: OverlayFile) -> Started:
        if self.former is None:
            return Started()
        former = self.former.setdefault(name, {})
        node.at_link.append(lambda neighbour, is_ready: former.setdefault(neighbour))
        node.asides.at_remember = overlay.remember
        left = tuple(each for each in former if each not in overlay.ended)
        return Started(left, self.limits.give_up_us, overlay.facts)

    def published(self, request: Publish) -> None: ...

    def delivered(self, delivery: Deliver, now_us: int) -> None: ...

    def record(self, record: msgspec.Struct) -> None:
        self.records.append(record)

    async def kill(self, name: BrokerId) -> None:
        """Stop a broker; its memory is lost."""
        self.nodes.pop(name).stop()
        await self.forwarding_channels.pop(name).stop()
        await self.links.pop(name).stop()

    async def connected(self) -> None:
        await until(lambda: not any(links.away for links in self.links.values()))

    def client(self, name: str, broker: BrokerId) -> LocalClient:
        return LocalClient(name, broker, self.nodes, self.records.append, self.notices.append)


@asynccontextmanager
async def live(
    links: Iterable[tuple[BrokerId, BrokerId]], **options: object
) -> AsyncIterator[LiveNetwork]:
    """A network that is up; brokers with larger names start first, as they are connected to."""
    network = LiveNetwork(links, **options)  # type: ignore[arg-type]
    try:
        for name in sorted(network.names, reverse=True):
            await network.start(name)
        await network.connected()
        yield network
    finally:
        for name in list(network.nodes):
            await network.kill(name)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


async def status_of(address: Address | None) -> dict[str, Any]:
    """The status of a running broker, however busy: a late answer is retried."""
    assert address is not None
    async with asyncio.timeout(PATIENCE_S):
        while True:
            with suppress(OSError):
                return await get_json(address, "/status")
            await asyncio.sleep(0.05)


async def received(client: LocalClient, count: int) -> list[int]:
    """The sequence numbers of the next deliveries."""
    async with asyncio.timeout(PATIENCE_S):
        found = [await client.deliveries.get() for _ in range(count)]
    return [delivery.routed.publication.sequence for delivery in found]

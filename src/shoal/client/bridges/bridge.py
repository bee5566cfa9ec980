"""A bridge between a shoal network and another MQTT broker, as a client of both.

It stores nothing itself. It acknowledges a message of QoS 1 at the source when the target has
acknowledged it, so messages wait in the bridge's session at the source: while the target is
disconnected, while the bridge is not running, and when it is killed. Then messages under way are
delivered twice; none is lost that the brokers keep. Messages of one topic filter keep their order.

A message does not come back: at either end the bridge subscribes without its own publications (`no
local`), and it adds its name and the network's identity in user properties, so that bridges in a
circle, or side by side, recognise messages that were there before (see `identity`). 3.1.1 has
neither, so that a bridge whose topics lead back to it is refused (see `bridge_file`). Bridges of
one `group` share messages, as members of shared subscriptions: one of them carries each message.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from shoal.client.bridges.bridge_file import Bridge, BridgeRuleSection, EndSection
from shoal.client.bridges.identity import Identity
from shoal.client.bridges.metrics import BridgeTally, Flow
from shoal.client.client import Client
from shoal.client.subscription import Message, Subscription
from shoal.client.terms import ClientError, Keep
from shoal.language import parse
from shoal.matching import matches
from shoal.model import EVERYTHING, Filter
from shoal.mqtt.codec.packets import Publish
from shoal.mqtt.codec.properties import Properties
from shoal.mqtt.content import attributes_of
from shoal.mqtt.messages import PublishedMessage as Sent

# The user properties with the networks that a message has passed, and with the bridges that have
# carried it; and the bound of bridges.
WAS_IN = "shoal-network"
CARRIED_BY = "shoal-bridge"
MOST_BRIDGES = 16
# Refusals after which the bridge tries again.
_PASSING = ("quota exceeded", "server busy", "unspecified error", "implementation specific error")
RETRY_S = 1.0
# The bound of bridge names in a log line, in characters.
_MOST_NAMED = 200
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0

_log = logging.getLogger(__name__)


class _Under(NamedTuple):
    """A message under way; `answer` is None at QoS 0."""

    packet: Publish
    answer: asyncio.Future[None] | None


class Lane:
    """Carries the messages of one rule from one client to the other."""

    def __init__(
        self, rule: BridgeRuleSection, source: Client, target: Client, name: str, flow: Flow
    ) -> None:
        self._rule = rule
        self._source = source
        self._target = target
        self._name = name
        # The identities of the networks at its two ends, once they are known.
        self.identities: tuple[Identity, Identity] | None = None
        # The filter that is applied here; brokers apply those of subscriptions at shoal's side.
        self.judged: Filter = EVERYTHING
        self._flow = flow
        # Messages at QoS 1, by packet identifier: the newest copy, and whether it is done.
        self._copies: dict[int, tuple[Message, bool]] = {}
        self._forgotten = source.forgotten
        # Whether other bridges of a group share its messages.
        self.is_shared = False
        # Bridges that were logged.
        self._others: set[str] = set()

    async def run(self, subscription: Subscription, shares: BridgeShares) -> None:
        """Carry messages until the connection fails for good: ClientError."""
        under_way: deque[asyncio.Task[None]] = deque()
        try:
            while True:
                message = await subscription.get()
                if self._is_news(message, shares):
                    await self._carry(message, shares, under_way)
        finally:
            for task in under_way:
                task.cancel()

    def _is_news(self, message: Message, shares: BridgeShares) -> bool:
        """Whether the message is no copy of one that was carried, or is under way."""
        if self._forgotten != self._source.forgotten:
            self._forgotten = self._source.forgotten
            self._copies.clear()  # the packet identifiers are void
        packet = message.packet
        if not packet.qos:
            return True
        known = self._copies.get(packet.packet_id) if packet.duplicate else None
        self._copies[packet.packet_id] = message, known is not None and known[1]
        if known is None:
            return True
        if known[1]:
            self._settle(packet.packet_id, shares)
        return False

    async def _carry(
        self, message: Message, shares: BridgeShares, under_way: deque[asyncio.Task[None]]
    ) -> None:
        packet = message.packet
        out = self._as_carried(packet)
        reason = self._reason_to_leave(message)
        if not (reason or out.qos or self._target.is_connected):
            reason = "the other end is away"  # QoS 0 is not queued
        if reason:
            self._flow.left[reason] += 1
            self._done(packet, shares)
            return
        answer = await self._target.hand_in(out)
        self._flow.under_way += 1
        task = asyncio.create_task(self._see_through(packet, _Under(out, answer), shares))
        under_way.append(task)
        while under_way and under_way[0].done():
            under_way.popleft().result()

    async def _see_through(self, packet: Publish, under: _Under, shares: BridgeShares) -> None:
        answer = under.answer
        while answer is not None:
            try:
                await answer
            except ClientError as error:
                if not str(error).startswith(_PASSING):
                    left = self._flow.left
                    left[f"refused: {error}"] += 1
                    extra = {"topic": under.packet.topic, "why": str(error), "bridge": self._name}
                    if left[f"refused: {error}"] == 1:
                        _log.warning("not carried", extra=extra)
                    break
                await asyncio.sleep(RETRY_S)
                answer = await self._target.hand_in(under.packet)
            else:
                self._flow.carried += 1
                break
        self._flow.carried += under.answer is None
        self._flow.under_way -= 1
        self._done(packet, shares)

    def _done(self, packet: Publish, shares: BridgeShares) -> None:
        known = self._copies.get(packet.packet_id) if packet.qos else None
        if known is not None:
            self._copies[packet.packet_id] = known[0], True
            self._settle(packet.packet_id, shares)

    def _settle(self, packet_id: int, shares: BridgeShares) -> None:
        """Acknowledge a copy of the present connection; an older one comes again."""
        message, _ = self._copies[packet_id]
        if message.connection == self._source.connections and self._source.is_connected:
            del self._copies[packet_id]
            shares.done(self._source, message)

    def _reason_to_leave(self, message: Message) -> str:
        properties = message.packet.properties
        bridges = [value for name, value in properties.user_properties if name == CARRIED_BY]
        networks = [value for name, value in properties.user_properties if name == WAS_IN]
        if self.identities is not None and self.identities[1].value in networks:
            if not (self.is_shared or self._name in bridges):
                self._note_others(bridges)
            return "was here before"
        if self._name in bridges or len(bridges) >= MOST_BRIDGES:
            return "was here before"
        if self.judged != EVERYTHING:
            sent = Sent(
                message.topic,
                message.payload,
                publisher="",
                published_us=0,
                properties=properties,
            )
            if not matches(self.judged, attributes_of(sent)):
                return "filter"
        return ""

    def _note_others(self, bridges: list[str]) -> None:
        """Log other bridges between the same networks, which an operator may not know."""
        others = ", ".join(dict.fromkeys(bridges))[:_MOST_NAMED]
        if others not in self._others and len(self._others) < MOST_BRIDGES:
            self._others.add(others)
            extra = {"bridge": self._name, "others": others, "topic": self._rule.topic}
            _log.warning("other bridges join the same networks; see group", extra=extra)

    def _as_carried(self, packet: Publish) -> Publish:
        given = packet.properties
        stamps = [(CARRIED_BY, self._name)]
        if self.identities is not None:
            stamps.append((WAS_IN, self.identities[0].value))
        properties = Properties(
            payload_format_indicator=given.payload_format_indicator,
            message_expiry_interval_s=given.message_expiry_interval_s,
            content_type=given.content_type,
            response_topic=given.response_topic,
            correlation_data=given.correlation_data,
            user_properties=(*given.user_properties, *stamps),
        )
        return Publish(
            self._rule.carried(packet.topic),
            packet.payload,
            min(packet.qos, self._rule.qos),
            packet.retain,
            properties=properties,
        )


class BridgeShares:
    """Counts messages that came to several lanes: acknowledged when all lanes are done."""

    def __init__(self) -> None:
        self._done: Counter[tuple[int, int]] = Counter()

    def done(self, source: Client, message: Message) -> None:
        key = message.connection, message.packet.packet_id
        self._done[key] += 1
        if self._done[key] >= message.shares:
            del self._done[key]
            source.acknowledge(message)
        for stale in [each for each in self._done if each[0] != message.connection]:
            del self._done[stale]


async def run_bridge(bridge: Bridge, tally: BridgeTally | None = None) -> None:
    """Run a bridge until cancelled; ValueError for files that cannot be used.

    The `tally` counts its messages.
    """
    tally = tally or BridgeTally()
    pause_s = FIRST_PAUSE_S
    loop = asyncio.get_running_loop()
    while True:
        began_s = loop.time()
        try:
            await _run(bridge, tally)
        except ClientError as error:
            _log.warning("bridge down", extra={"bridge": bridge.name, "why": str(error)})
        if loop.time() - began_s > LONGEST_PAUSE_S:
            pause_s = FIRST_PAUSE_S
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


async def _run(bridge: Bridge, tally: BridgeTally) -> None:
    """Run until one end fails for good: ClientError."""
    here, there = _client(bridge, bridge.here), _client(bridge, bridge.there)
    tally.begin(here, there)
    # Subscribe before they connect: messages queued in their sessions come at once.
    identities = {client: Identity(client) for client in (here, there)}
    lanes: list[tuple[Lane, Subscription, BridgeShares]] = []
    for source, target, rules, direction in (
        (there, here, bridge.incoming, "in"),
        (here, there, bridge.outgoing, "out"),
    ):
        shares = BridgeShares()
        for rule in rules:
            lane = Lane(rule, source, target, bridge.name, tally.flows[direction])
            if rule.where and source is there:
                lane.judged = parse(rule.where)
            lane.is_shared = bool(bridge.group)
            lane.identities = identities[source], identities[target]
            subscription = _subscribe(source, rule, bridge.group, asks=source is here)
            lanes.append((lane, subscription, shares))
    async with here, there:
        for _, subscription, _ in lanes:
            await subscription.granted()
        await asyncio.gather(*(each.known() for each in identities.values()))
        _log.info("bridge up", extra={"bridge": bridge.name, "here": here.address,
                                      "there": there.address})  # fmt: skip
        running = [asyncio.create_task(lane.run(each, shares)) for lane, each, shares in lanes]
        running += [asyncio.create_task(each.follow()) for each in identities.values()]
        try:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


def _client(bridge: Bridge, end: EndSection) -> Client:
    return Client(
        end.address,
        f"bridge-{bridge.name}",
        follow=False,
        username=end.username,
        password=end.password(),
        tls=end.tls,
        version=end.version,
        keep=Keep(
            seconds=bridge.keep_s,
            window=bridge.window,
            maximum_packet_size=bridge.maximum_packet_size,
            manual_ack=True,
        ),
    )


def _subscribe(source: Client, rule: BridgeRuleSection, group: str, *, asks: bool) -> Subscription:
    """Subscribe for a rule; the subscription identifier is a hash of the rule.

    A member of a group cannot use no-local: the bridge drops its own messages by their properties.
    """
    digest = blake2b(msgspec.json.encode(rule), digest_size=3).digest()
    return source.subscribe(
        f"$share/{group}/{rule.topic}" if group else rule.topic,
        rule.where if asks and rule.where else None,
        qos=rule.qos,
        no_local=not group,
        retain_as_published=True,
        identifier=1 + int.from_bytes(digest, "big"),
    )

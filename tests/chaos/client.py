"""Publishers and subscribers that survive faults and record events.

Each client keeps MQTT's rules whatever happens to its connection: it retransmits unacknowledged
messages in order, and does not accept a QoS 2 message twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Protocol

from tests.chaos import packets
from tests.chaos.history import (
    Asked,
    Done,
    Entered,
    Event,
    GivenUp,
    Got,
    Granted,
    Left,
    Refused,
    Sent,
    Silent,
    Taken,
    TurnedAway,
)
from tests.chaos.packets import Packet
from tests.chaos.schedule import X_LIMIT, PublisherPlan, SubscriberPlan

# Longer than any offset of a clock.
EXPIRY_S = 10_000
# Bound on the unacknowledged publications of a publisher.
WINDOW = 20
# Between two connections.
PAUSE_S = 0.1
# A roaming client tries another broker after so many failed connections.
PATIENT_ATTEMPTS = 3


class World(Protocol):
    """The run as its clients see it."""

    @property
    def brokers(self) -> Sequence[str]:
        """Brokers that are in the network, and are to stay."""

    def now(self) -> float: ...

    def record(self, event: Event) -> None: ...

    def address(self, broker: str) -> tuple[str, int]: ...

    def broker_at(self, address: str) -> str: ...


class Client:
    """A client that connects to its broker again whenever the connection ends."""

    lasts = True
    roams = False

    def __init__(self, world: World, name: str, broker: str, patience_s: float, seed: int) -> None:
        self.world = world
        self.name = name
        self.broker = broker
        self.is_in = False
        self.at = ""
        self._patience_s = patience_s
        self._random = Random(f"{name} {seed}")
        self._visiting = ""
        self._away_until_s = float("-inf")
        self._stalled_until_s = float("-inf")
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        # Open connections that the client has abandoned without closing.
        self._forgotten: list[asyncio.StreamWriter] = []
        self._pong = asyncio.Event()
        self._vain = 0

    # --- faults -------------------------------------------------------------------------------

    def go(self, broker: str, *, says_so: bool) -> None:
        """Connect to that broker from now on."""
        self.broker = broker
        self._hang_up(says_so)

    def vanish(self, broker: str) -> None:
        """Connect to that broker from now on; the old connection stays open and unread."""
        self.broker = broker
        if self._writer is not None and self._reader is not None:
            self._writer.transport.pause_reading()  # type: ignore[attr-defined]
            self._forgotten.append(self._writer)
            self._writer = None
            self._reader.feed_eof()

    def leave(self, seconds: float) -> None:
        """Disconnect, and come back later."""
        self._away_until_s = self.world.now() + seconds
        self._hang_up(says_so=False)

    def stall(self, seconds: float) -> None:
        """Stop reading for a while."""
        self._stalled_until_s = self.world.now() + seconds

    def look_in(self, broker: str, seconds: float) -> None:
        """Connect to that broker for a moment, whatever the outcome, then to the client's own."""
        self._visiting = broker
        self._hang_up(says_so=False)
        asyncio.get_running_loop().call_later(seconds, self._return, broker)

    def _return(self, visited: str) -> None:
        if self._visiting == visited:
            self._visiting = ""
            self._hang_up(says_so=False)

    def _hang_up(self, says_so: bool) -> None:
        writer = self._writer
        if writer is None:
            return
        if says_so and self.is_in:
            writer.write(packets.disconnect())
            writer.close()
        else:
            writer.transport.abort()

    async def ping(self, patience_s: float) -> None:
        """Record a `Silent` if the broker does not answer a ping."""
        self._pong.clear()
        if self.is_in:
            self.write(packets.pingreq())
        try:
            async with asyncio.timeout(patience_s):
                await self._pong.wait()
        except TimeoutError:
            self.world.record(Silent(at_s=self.world.now(), client=self.name, broker=self.broker))

    # --- connections --------------------------------------------------------------------------

    async def run(self) -> None:
        """Connect and reconnect until cancelled."""
        try:
            await self._live()
        finally:
            for writer in self._forgotten:
                writer.transport.abort()

    async def _live(self) -> None:
        while True:
            now_s = self.world.now()
            if now_s < self._away_until_s:
                await asyncio.sleep(min(self._away_until_s - now_s, PAUSE_S))
                continue
            broker = self._visiting or self.broker
            why = "the end"
            try:
                await self._connected(broker)
            except (OSError, EOFError, TimeoutError, ValueError) as error:
                why = repr(error)
            finally:
                self._close(broker, why)
            await asyncio.sleep(PAUSE_S)

    async def _connected(self, broker: str) -> None:
        """Handle one connection to its end."""
        self._vain += 1
        is_gone = broker not in self.world.brokers
        if (is_gone or (self.roams and self._vain > PATIENT_ATTEMPTS)) and not self._visiting:
            self._vain = 0
            self.broker = self._random.choice(self.world.brokers)
            return
        host, port = self.world.address(broker)
        stream = packets.Stream()
        async with asyncio.timeout(self._patience_s) as patience:
            reader, self._writer = await asyncio.open_connection(host, port)
            self._reader = reader
            hello = packets.connect(
                self.name,
                clean_start=not self.lasts,
                expiry_s=EXPIRY_S if self.lasts else 0,
                user=self.user_properties(),
            )
            self.write(hello)
            self.world.record(Asked(at_s=self.world.now(), client=self.name, broker=broker))
            self.at = broker
            while True:
                await asyncio.sleep(self._stalled_until_s - self.world.now())
                data = await reader.read(65_536)
                if not data or self._writer is None:
                    raise EOFError("closed")
                for packet in stream.feed(data):
                    self._receive(packet, broker)
                if self.is_in:
                    patience.reschedule(None)

    def _receive(self, packet: Packet, broker: str) -> None:
        now_s = self.world.now()
        match packet.kind:
            case packets.CONNACK if packet.reason < packets.REFUSED:
                present = bool(packet.flags & 1)
                self.world.record(
                    Entered(at_s=now_s, client=self.name, broker=broker, present=present)
                )
                self.is_in = True
                self._vain = 0
                self.entered(present)
            case packets.CONNACK:
                self.world.record(
                    TurnedAway(at_s=now_s, client=self.name, broker=broker, reason=packet.reason)
                )
                raise EOFError(f"CONNACK {packet.reason:#x}")
            case packets.DISCONNECT:
                if packet.reason == packets.USE_ANOTHER_SERVER:
                    self.broker = self.world.broker_at(
                        str(packet.properties[packets.SERVER_REFERENCE])
                    )
                raise EOFError(f"DISCONNECT {packet.reason:#x}")
            case packets.PINGRESP:
                self._pong.set()
            case _:
                self.received(packet)

    def _close(self, broker: str, why: str) -> None:
        self.is_in = False
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None
        self.ended()
        self.world.record(Left(at_s=self.world.now(), client=self.name, broker=broker, why=why))

    def write(self, data: bytes) -> None:
        with suppress(OSError):
            if self._writer is not None and not self._writer.is_closing():
                self._writer.write(data)

    # --- publishers and subscribers ------------------------------------------------------------

    def user_properties(self) -> list[tuple[str, str]]:
        return []

    def entered(self, present: bool) -> None: ...

    def received(self, packet: Packet) -> None: ...

    def ended(self) -> None: ...


class Publisher(Client):
    """Publishes consecutive numbers at its QoS."""

    def __init__(self, world: World, plan: PublisherPlan, seed: int) -> None:
        super().__init__(world, plan.name, plan.broker, plan.patience_s, seed)
        self.plan = plan
        self.topic = f"chaos/{plan.name}"
        # Number to (x, whether PUBREC has arrived), in the order of sending.
        self.open: dict[int, tuple[int, bool]] = {}
        self.is_finished = False
        self._next = 1
        self._producing: asyncio.Task[None] | None = None

    def user_properties(self) -> list[tuple[str, str]]:
        said = [("$advertise", "x >= 0")] if self.plan.advertises else []
        return [*said, ("$follow", "yes")] if self.plan.follows else said

    def entered(self, present: bool) -> None:
        for number, (_, is_released) in list(self.open.items()):
            if not present and self.plan.qos == 2:
                del self.open[number]
                now_s = self.world.now()
                self.world.record(GivenUp(at_s=now_s, client=self.name, number=number))
            elif is_released:
                self.write(packets.answer(packets.PUBREL, _packet_id(number)))
            else:
                self._send(number, again=True)
        self._producing = asyncio.create_task(self._produce())

    def ended(self) -> None:
        if self._producing is not None:
            self._producing.cancel()
            self._producing = None

    async def _produce(self) -> None:
        while not self.is_finished:
            if len(self.open) < WINDOW:
                self.open[self._next] = self._random.randrange(X_LIMIT), False
                self._send(self._next)
                self._next += 1
            await asyncio.sleep(1 / self.plan.rate)

    def _send(self, number: int, *, again: bool = False) -> None:
        x, qos = self.open[number][0], self.plan.qos
        payload = json.dumps({"p": self.name, "n": number, "x": x}).encode()
        self.write(
            packets.publish(self.topic, payload, qos=qos, packet_id=_packet_id(number), again=again)
        )
        self.world.record(
            Sent(
                at_s=self.world.now(),
                client=self.name,
                number=number,
                qos=qos,
                x=x,
                broker=self.at,
                again=again,
            )
        )

    def received(self, packet: Packet) -> None:
        number = next((n for n in self.open if _packet_id(n) == packet.packet_id), None)
        if number is None:
            return
        if packet.reason >= packets.REFUSED and packet.kind != packets.PUBCOMP:
            del self.open[number]
            refused = Refused(
                at_s=self.world.now(), client=self.name, number=number, reason=packet.reason
            )
            self.world.record(refused)
        elif packet.kind == packets.PUBREC:
            self._taken(number)
            self.open[number] = self.open[number][0], True
            self.write(packets.answer(packets.PUBREL, packet.packet_id))
        elif packet.kind in (packets.PUBACK, packets.PUBCOMP):
            self._taken(number)
            del self.open[number]
            self.world.record(Done(at_s=self.world.now(), client=self.name, number=number))

    def _taken(self, number: int) -> None:
        if not self.open[number][1]:
            self.world.record(Taken(at_s=self.world.now(), client=self.name, number=number))


class Subscriber(Client):
    """Holds one subscription, and renews it when its session is lost."""

    def __init__(self, world: World, plan: SubscriberPlan, seed: int) -> None:
        super().__init__(world, plan.name, plan.broker, plan.patience_s, seed)
        self.plan = plan
        self.lasts = plan.lasts
        self.roams = plan.roams
        self.is_granted = False
        # QoS 2 packet identifiers that are received and not released.
        self._unreleased: set[int] = set()

    def entered(self, present: bool) -> None:
        if not present:
            self._unreleased.clear()
            self.is_granted = False
        if not self.is_granted:
            shared = f"$share/{self.plan.group}/" if self.plan.group else ""
            where = [("$where", f"x >= {self.plan.least}")] if self.plan.least else []
            topic = f"{shared}chaos/{self.plan.publisher or '#'}"
            self.write(packets.subscribe(1, topic, self.plan.qos, where))

    def received(self, packet: Packet) -> None:
        match packet.kind:
            case packets.SUBACK:
                if packet.reason >= packets.REFUSED:
                    raise EOFError(f"SUBACK {packet.reason:#x}")
                self.is_granted = True
                self.world.record(Granted(at_s=self.world.now(), client=self.name))
            case packets.PUBREL:
                self._unreleased.discard(packet.packet_id)
                self.write(packets.answer(packets.PUBCOMP, packet.packet_id))
            case packets.PUBLISH:
                if packet.qos < 2 or packet.packet_id not in self._unreleased:
                    self._take(packet)
                if packet.qos == 1:
                    self.write(packets.answer(packets.PUBACK, packet.packet_id))
                elif packet.qos == 2:
                    self._unreleased.add(packet.packet_id)
                    self.write(packets.answer(packets.PUBREC, packet.packet_id))

    def _take(self, packet: Packet) -> None:
        said = json.loads(packet.payload)
        self.world.record(
            Got(
                at_s=self.world.now(),
                client=self.name,
                publisher=said["p"],
                number=said["n"],
                x=said["x"],
                broker=self.at,
                again=bool(packet.flags & 8),
            )
        )


def _packet_id(number: int) -> int:
    return (number - 1) % 65_535 + 1

"""An exactly-once, in-order link over one that loses, doubles and reorders.

A machine around a machine: it has the broker's own front end, numbers the broker's messages to each
neighbour, keeps each until it is acknowledged, retransmits after a timeout, and delivers incoming
messages once and in order. Drivers with reliable links (a simulated wire, one TCP connection) use
the broker without it.

The protocol is go-back-n with cumulative acknowledgements that ride on whatever goes the other
way.  A link that comes up starts from nothing on both sides.
"""

from __future__ import annotations

from collections import deque

from shoal.broker.effects import (
    CancelTimer,
    Effect,
    Hold,
    Input,
    LinkChanged,
    Received,
    Record,
    Release,
    Requested,
    ResetLink,
    Send,
    SetTimer,
    TimerFired,
    TimerKey,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Message
from shoal.broker.records import RefusalRecord
from shoal.broker.strategy import Strategy, unexpected
from shoal.model import BrokerId

# Frames under way on one link; more wait at the sender.  Covers a second at 1,000 messages/s.
WINDOW = 1_024
# Messages waiting behind the window; a link that far behind is closed, to start again from nothing.
MAX_WAITING = 1_000_000
RESEND_US = 500_000

_TIMER = "link"
_HELD: TimerKey = ("held",)


class ReliableFrame(Message, frozen=True):
    """A numbered message, or without one just an acknowledgement.

    `sequence` counts the link's messages from 1; `acknowledged` is the last one the sender has
    received in order.
    """

    sequence: int
    acknowledged: int
    message: Message | None


class _ReliableChannel:
    """Both directions of one link, seen from one end."""

    __slots__ = (
        "early",
        "given_up",
        "owes_acknowledgement",
        "received",
        "sent",
        "unacknowledged",
        "waiting",
    )

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0
        self.unacknowledged: deque[tuple[int, Message]] = deque()
        self.waiting: deque[Message] = deque()
        self.early: dict[int, Message] = {}
        self.owes_acknowledgement = False
        self.given_up = False  # closed; the driver is about to say so


class ReliableBroker:
    """A broker behind reliable links; the same front end, but `Send` carries frames."""

    def __init__(self, broker: Broker, resend_us: int = RESEND_US) -> None:
        self._broker = broker
        self._resend_us = resend_us
        self._channels: dict[BrokerId, _ReliableChannel] = {}
        # While it holds: of which neighbours it takes messages, and the requests that wait.
        self._but: tuple[BrokerId, ...] | None = None
        self._requests: deque[Requested] = deque()

    @property
    def id(self) -> BrokerId:
        return self._broker.id

    @property
    def strategy(self) -> Strategy:
        return self._broker.strategy

    def handle(self, input: Input, now_us: int) -> list[Effect]:
        """As `Broker.handle`; input of neighbours must be frames."""
        out: list[Effect] = []
        match input:
            case Requested() if self._but is not None or self._requests:
                self._requests.append(input)
            case Received(neighbour, ReliableFrame() as frame):
                self._receive(neighbour, frame, now_us, out)
            case Received(neighbour, message):
                error = unexpected(message, f"neighbour {neighbour}")
                record = RefusalRecord(broker=self.id, sender=neighbour, reason=str(error))
                out.append(Record(record))
            case TimerFired((kind, neighbour)) if kind == _TIMER:
                self._resend(neighbour, now_us, out)
            case TimerFired(key) if key == _HELD:
                self._bring_held(now_us, out)
            case LinkChanged(neighbour):
                if self._channels.pop(neighbour, None) is not None:
                    out.append(CancelTimer((_TIMER, neighbour)))
                self._carry_out(self._broker.handle(input, now_us), now_us, out)
            case _:
                self._carry_out(self._broker.handle(input, now_us), now_us, out)
        self._acknowledge(out)
        return out

    @property
    def is_holding(self) -> bool:
        """Return whether the broker takes nothing, or not all, for now, or held input is yet to
        come.
        """
        return self._but is not None or bool(self._requests)

    def owes(self, neighbour: BrokerId) -> bool:
        """Return whether something sent to this neighbour is not acknowledged."""
        channel = self._channels.get(neighbour)
        return channel is not None and bool(channel.unacknowledged or channel.waiting)

    def _channel(self, neighbour: BrokerId) -> _ReliableChannel:
        return self._channels.setdefault(neighbour, _ReliableChannel())

    def _receive(
        self, neighbour: BrokerId, frame: ReliableFrame, now_us: int, out: list[Effect]
    ) -> None:
        channel = self._channel(neighbour)
        if channel.given_up or frame.acknowledged > channel.sent:
            return  # the second is garbage: nothing that high was sent
        self._acknowledged(neighbour, channel, frame.acknowledged, now_us, out)
        if frame.message is None:
            return
        channel.owes_acknowledgement = True
        if channel.received < frame.sequence <= channel.received + WINDOW:
            channel.early[frame.sequence] = frame.message
        self._deliver_in_order(neighbour, channel, now_us, out)

    def _deliver_in_order(
        self, neighbour: BrokerId, channel: _ReliableChannel, now_us: int, out: list[Effect]
    ) -> None:
        """Bring received messages in order, as far as the broker does not hold them back."""
        while self._but is None or neighbour in self._but:
            message = channel.early.pop(channel.received + 1, None)
            if message is None:
                return
            channel.received += 1
            channel.owes_acknowledgement = True
            effects = self._broker.handle(Received(neighbour, message), now_us)
            self._carry_out(effects, now_us, out)

    def _bring_held(self, now_us: int, out: list[Effect]) -> None:
        """Bring held input, unless the broker holds again meanwhile."""
        for neighbour, channel in list(self._channels.items()):
            self._deliver_in_order(neighbour, channel, now_us, out)
        while self._requests and self._but is None:
            self._carry_out(self._broker.handle(self._requests.popleft(), now_us), now_us, out)

    def _acknowledged(
        self,
        neighbour: BrokerId,
        channel: _ReliableChannel,
        acknowledged: int,
        now_us: int,
        out: list[Effect],
    ) -> None:
        pending = channel.unacknowledged
        if not pending or pending[0][0] > acknowledged:
            return
        while pending and pending[0][0] <= acknowledged:
            pending.popleft()
        while channel.waiting and len(pending) < WINDOW:
            self._transmit(neighbour, channel, channel.waiting.popleft(), out)
        out.append(
            SetTimer(_key(neighbour), now_us + self._resend_us)
            if pending
            else CancelTimer(_key(neighbour))
        )

    def _carry_out(self, effects: list[Effect], now_us: int, out: list[Effect]) -> None:
        """Pass the broker's effects on, with its messages to neighbours in frames."""
        for effect in effects:
            if type(effect) is not Send:
                if type(effect) is Hold or type(effect) is Release:
                    self._but = effect.but if type(effect) is Hold else None
                    out.append(SetTimer(_HELD, now_us))
                else:
                    out.append(effect)
                continue
            channel = self._channel(effect.neighbour)
            if channel.given_up:
                continue
            if len(channel.waiting) >= MAX_WAITING:
                self._give_up_channel(effect.neighbour, channel, out)
            elif len(channel.unacknowledged) >= WINDOW:
                channel.waiting.append(effect.message)
            else:
                if not channel.unacknowledged:
                    out.append(SetTimer(_key(effect.neighbour), now_us + self._resend_us))
                self._transmit(effect.neighbour, channel, effect.message, out)

    def _give_up_channel(
        self, neighbour: BrokerId, channel: _ReliableChannel, out: list[Effect]
    ) -> None:
        channel.given_up = True
        channel.unacknowledged.clear()
        channel.waiting.clear()
        channel.early.clear()
        out.append(ResetLink(neighbour))

    def _transmit(
        self, neighbour: BrokerId, channel: _ReliableChannel, message: Message, out: list[Effect]
    ) -> None:
        channel.sent += 1
        channel.unacknowledged.append((channel.sent, message))
        channel.owes_acknowledgement = False
        out.append(Send(neighbour, ReliableFrame(channel.sent, channel.received, message)))

    def _resend(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        channel = self._channel(neighbour)
        for sequence, message in channel.unacknowledged:
            out.append(Send(neighbour, ReliableFrame(sequence, channel.received, message)))
        if channel.unacknowledged:
            out.append(SetTimer(_key(neighbour), now_us + self._resend_us))

    def _acknowledge(self, out: list[Effect]) -> None:
        for neighbour, channel in self._channels.items():
            if channel.owes_acknowledgement:
                channel.owes_acknowledgement = False
                out.append(Send(neighbour, ReliableFrame(0, channel.received, None)))


def _key(neighbour: BrokerId) -> TimerKey:
    return _TIMER, neighbour

"""Two ends of a link, and the bytes between them."""

from __future__ import annotations

from shoal.broker.effects import LinkChanged
from shoal.broker.links.controls import CONTROLS
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.session import LinkSession
from shoal.broker.links.states import LinkSessionState
from shoal.broker.messages import Unsubscribe
from shoal.broker.wire import COMMON, Codec

CODEC = Codec(COMMON + CONTROLS)
SMALL = LinkLimits(window_bytes=200, high_bytes=500, low_bytes=200, limit_bytes=4_000)


def end(name: str, other: str, incarnation: int = 1, limits: LinkLimits = SMALL) -> LinkSession:
    return LinkSession("net", name, other, incarnation, CODEC, limits)


def changes(found: list[LinkChanged]) -> list[bool]:
    return [change.up for change in found]


class Wire:
    """Two ends and the connection between them, with the messages of each."""

    def __init__(self) -> None:
        self.ends = {"A": end("A", "B"), "B": end("B", "A")}
        self.under_way: dict[str, bytearray] = {"A": bytearray(), "B": bytearray()}
        self.connected = False
        self.now_us = 0
        self.incarnations = 1
        # Each end's messages name its link: the number of its incarnations here, over restarts.
        self.ups = {"A": 0, "B": 0}
        self.sent = {"A": 0, "B": 0}
        self.seen: dict[str, list[tuple[int, int]]] = {"A": [], "B": []}

    def connect(self, lose: str = "") -> None:
        """Connect, A dialling; with `lose` the answering hello is lost, with all else."""
        self.cut()
        dialler, answerer = self.ends["A"], self.ends["B"]
        said = dialler.hello()
        answer = answerer.hello()
        self.tell("B", answerer.connected(said, self.now_us))
        self.connected = True
        if lose:
            self.cut()
        else:
            self.tell("A", dialler.connected(answer, self.now_us))

    def cut(self) -> None:
        if self.connected:
            self.connected = False
            for name in ("A", "B"):
                self.ends[name].lost(self.now_us)
                self.under_way[name].clear()

    def restart(self, name: str) -> None:
        self.cut()
        self.incarnations += 1
        self.ends[name] = end(name, "B" if name == "A" else "A", self.incarnations)
        self.sent[name] = 0

    def tell(self, name: str, found: list[LinkChanged]) -> None:
        for up in changes(found):
            if up:
                self.ups[name] += 1
                self.sent[name] = 0
                self.seen[name] = []

    def send(self, name: str) -> None:
        if self.ends[name].state is LinkSessionState.IDLE or self.ends[name].is_full:
            return
        assert self.ends[name].send(Unsubscribe(f"{self.ups[name]} {self.sent[name]}"))
        self.sent[name] += 1

    def write(self, name: str) -> None:
        if self.connected:
            self.under_way["B" if name == "A" else "A"] += self.ends[name].to_write()

    def arrive(self, name: str, size: int) -> None:
        if self.connected:
            data = bytes(self.under_way[name][:size])
            del self.under_way[name][:size]
            self.ends[name].receive(data, self.now_us)

    def take(self, name: str) -> None:
        for message in self.ends[name].take():
            assert isinstance(message, Unsubscribe)
            link, number = map(int, message.subscription_id.split())
            self.seen[name].append((link, number))

    def settle(self) -> None:
        for _ in range(2_000):
            for name in ("A", "B"):
                self.write(name)
                self.arrive(name, 10_000)
                self.take(name)

    def check(self) -> None:
        """An end's messages since link up are a beginning of the other's sent messages."""
        for name in ("A", "B"):
            seen = self.seen[name]
            assert [number for _, number in seen] == list(range(len(seen)))
            assert len({link for link, _ in seen}) <= 1
            assert self.ends[name].buffered_bytes <= SMALL.high_bytes + 50

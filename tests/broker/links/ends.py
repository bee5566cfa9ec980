"""Two ends of a link, the brokers that use it, and all events of the link."""

from __future__ import annotations

from functools import partial
from itertools import count
from random import Random

from shoal.broker.ack_tracker import AckTracker
from shoal.broker.effects import LinkChanged, LinkState
from shoal.broker.links.controls import Hello
from shoal.broker.links.inbox import Debt
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.session import LinkSession
from shoal.broker.links.spool import Spool
from shoal.broker.links.states import LinkSessionState
from shoal.broker.messages import Carrier, Unsubscribe
from shoal.broker.wire import WireError
from tests.broker.links.keeping import batch
from tests.broker.links.memory_disk import Disk
from tests.broker.links.wire import CODEC

LIMITS = LinkLimits(window_bytes=400, high_bytes=2_000, low_bytes=500, limit_bytes=100_000)
OTHER = {"A": "B", "B": "A"}
UP, FAILED, ENDED = LinkState.UP, LinkState.FAILED, LinkState.ENDED


class End:
    """One end: its broker's messages, sent and received, and the events of the link."""

    def __init__(self, net: Net, name: str, *, with_spool: bool = False) -> None:
        self.net = net
        self.name = name
        self.numbers = count()
        self.spool = Spool(Disk()) if with_spool else None
        self.session = LinkSession(
            "n",
            name,
            OTHER[name],
            next(net.incarnations),
            CODEC,
            LIMITS,
            is_graceful=with_spool,
            spool=self.spool,
        )
        self.heard: list[LinkState] = []
        self.published: list[int] = []
        self.settled: set[int] = set()
        self.returned: list[int] = []
        self.said: list[str] = []
        self.got: list[int | str] = []
        self.debts: list[Debt] = []
        # Messages before this end's request to end the link.
        self.before: tuple[list[int], list[str]] | None = None

    def tell(self, changes: list[LinkChanged]) -> None:
        for change in changes:
            self.heard.append(change.state)
            for carrier, ack_tracker in self.session.returned():
                (routed,) = carrier.publications
                self.returned.append(routed.publication.sequence)
                ack_tracker.settle()

    def publish(self) -> None:
        number = next(self.numbers)
        if (
            self.session.state in (LinkSessionState.IDLE, LinkSessionState.GONE)
            or self.session.is_full
        ):
            return
        self.published.append(number)
        ack_tracker = AckTracker(partial(self.settled.add, number))
        assert self.session.send(batch(number), ack_tracker)
        ack_tracker.settle()

    def send_control(self) -> None:
        if self.session.state not in (LinkSessionState.IDLE, LinkSessionState.GONE):
            self.said.append(f"{self.name}{next(self.numbers)}")
            assert self.session.send(Unsubscribe(self.said[-1]))

    def take(self, most: int = 3) -> None:
        messages = self.session.take_run(most)
        for number, message in enumerate(messages, self.session.handled - len(messages)):
            if isinstance(message, Carrier):
                (routed,) = message.publications
                self.got.append(routed.publication.sequence)
                self.debts.append(self.session.owe(number, number))
            else:
                assert isinstance(message, Unsubscribe)
                self.got.append(message.subscription_id)

    def settle(self, random: Random) -> None:
        if self.debts:
            self.session.settle(self.debts.pop(random.randrange(len(self.debts))))

    @property
    def is_disk_empty(self) -> bool:
        return self.spool is None or self.spool.is_empty

    def write_to_disk(self) -> None:
        if self.spool is not None:
            self.spool.write(10_000)

    def end(self) -> None:
        if self.before is None:
            self.before = list(self.published), list(self.said)
        self.tell(self.session.end())


class Net:
    def __init__(self, *, with_spools: bool = False) -> None:
        self.incarnations = iter(range(1, 1_000))
        self.with_spools = with_spools
        self.ends = {name: End(self, name, with_spool=with_spools) for name in "AB"}
        self.under_way: dict[str, bytearray] = {"A": bytearray(), "B": bytearray()}
        self.is_connected = False
        self.now_us = 0

    def connect(self, dialler: str, lose: str = "") -> None:
        """As drivers do: an end without the link does not dial; it closes after its last."""
        self.cut()
        one, other = self.ends[dialler], self.ends[OTHER[dialler]]
        if one.session.state is LinkSessionState.GONE:
            return
        said = one.session.hello()
        if other.session.state is LinkSessionState.GONE and not other.session.knows(said):
            one.tell(one.session.vanish())
            return
        answer = other.session.hello()
        self.is_connected = True
        self.greet(other, said)
        if lose:
            self.cut()
        else:
            self.greet(one, answer)

    def greet(self, end: End, hello: Hello) -> None:
        try:
            end.tell(end.session.connected(hello, self.now_us))
        except WireError:
            self.cut()

    def cut(self) -> None:
        self.is_connected = False
        for name, end in self.ends.items():
            end.session.lost(self.now_us)
            self.under_way[name].clear()

    def restart(self, name: str) -> None:
        self.cut()
        self.ends[name] = End(self, name, with_spool=self.with_spools)

    def write(self, name: str) -> None:
        if self.is_connected:
            self.under_way[OTHER[name]] += self.ends[name].session.to_write()

    def arrive(self, name: str, size: int) -> None:
        if not self.is_connected:
            return
        data = bytes(self.under_way[name][:size])
        del self.under_way[name][:size]
        end = self.ends[name]
        if data:
            end.tell(end.session.receive(data, self.now_us))

    def step(self, random: Random, asker: str, actions: dict[str, int]) -> None:
        self.now_us += 1_000
        name = random.choice("AB")
        end = self.ends[name]
        match random.choices(list(actions), list(actions.values()))[0]:
            case "publish":
                end.publish()
            case "send_control":
                end.send_control()
            case "write":
                self.write(name)
            case "arrive":
                self.arrive(name, random.randint(1, 150))
            case "take":
                end.take(random.randint(1, 3))
            case "settle":
                end.settle(random)
            case "tick":
                end.tell(end.session.tick(self.now_us))
            case "end":
                if name in asker:
                    end.end()
            case "connect" if not self.is_connected:
                self.connect(name)
            case "half" if not self.is_connected:
                self.connect(name, lose="answer")
            case "cut":
                self.cut()
            case "give up":
                end.tell(end.session.give_up())
                self.cut()
            case "restart":
                self.restart(name)

    def send_tables(self, name: str) -> None:
        """Its broker sends tables over a link that it wants; the other end may then send
        publications.
        """
        other = self.ends[OTHER[name]]
        if self.is_connected and self.ends[name].before is None:
            other.session.open_gate()

    def come_to_rest(self, random: Random, steps: int = 4_000) -> None:
        """No more faults: drivers dial, everything arrives and is settled."""
        quiet = {"write": 20, "arrive": 20, "take": 10, "settle": 20, "connect": 5}
        for _ in range(steps):
            self.step(random, "", quiet)
            if all(end.session.state is LinkSessionState.GONE for end in self.ends.values()):
                break


ACTIONS = {
    "publish": 15,
    "send_control": 8,
    "write": 25,
    "arrive": 35,
    "take": 15,
    "settle": 15,
    "tick": 3,
    "connect": 6,
    "half": 2,
    "cut": 3,
    "end": 1,
}


def numbers_of(recalled: list[tuple[Carrier, AckTracker]]) -> list[int]:
    """Numbers of returned publications, which are settled elsewhere."""
    found = []
    for carrier, ack_tracker in recalled:
        (routed,) = carrier.publications
        assert routed.publication.again
        found.append(routed.publication.sequence)
        ack_tracker.settle()
    return found

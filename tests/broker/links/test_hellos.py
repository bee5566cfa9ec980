"""Connections that cross, break anywhere, and come late: messages arrive exactly once."""

from __future__ import annotations

from itertools import count
from random import Random

import pytest

from shoal.broker.effects import LinkChanged
from shoal.broker.links.controls import CONTROLS, Hello
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.protocol import PROTOCOL
from shoal.broker.links.session import LinkSession
from shoal.broker.links.states import LinkSessionState
from shoal.broker.messages import Unsubscribe
from shoal.broker.wire import COMMON, Codec, WireError
from tests.examples import examples, one_in

CODEC = Codec(COMMON + CONTROLS)
LIMITS = LinkLimits(window_bytes=300, high_bytes=600, low_bytes=200, limit_bytes=100_000)
OTHER = {"A": "B", "B": "A"}


class Connection:
    """Two byte streams that begin with a hello; each end closes for itself."""

    def __init__(self, dialler: str) -> None:
        self.dialler = dialler
        self.under_way: dict[str, list[Hello | bytes]] = {"A": [], "B": []}
        self.open = {"A": True, "B": True}
        self.greeted = {"A": False, "B": False}


class Side:
    """One broker: its session, and its driver's handling of connections."""

    def __init__(self, net: Net, name: str) -> None:
        self.net = net
        self.name = name
        self.incarnation = next(net.incarnations)
        self.numbers = count(1)
        self.connection: Connection | None = None
        self.ups = self.sent = 0
        self.seen: list[tuple[int, int]] = []
        self.open_new()

    def open_new(self) -> None:
        """As a driver whose link ended and is opened again."""
        self.session = LinkSession(
            "n",
            self.name,
            OTHER[self.name],
            self.incarnation,
            CODEC,
            LIMITS,
            numbers=self.numbers,
        )

    def tell(self, changes: list[LinkChanged]) -> None:
        for change in changes:
            if change.up:
                self.ups = next(self.net.ups)
                self.sent = 0
                self.seen = []

    def dial(self) -> None:
        if self.connection is None:
            self.connection = connection = Connection(self.name)
            self.net.connections.append(connection)
            connection.under_way[OTHER[self.name]].append(self.session.hello())

    def drop(self) -> None:
        if self.connection is not None:
            self.connection.open[self.name] = False
            self.connection = None
            self.session.lost(self.net.now_us)

    def greet(self, connection: Connection, hello: Hello) -> None:
        if connection is not self.connection:
            if self.session.is_overtaken(hello):
                raise WireError("late")
            if self.connection is not None:
                if self.connection.dialler == self.name and self.name < OTHER[self.name]:
                    raise WireError("this end is connecting")
                self.drop()
            self.connection = connection
            connection.under_way[OTHER[self.name]].append(self.session.hello())
        self.tell(self.session.connected(hello, self.net.now_us))
        connection.greeted[self.name] = True

    def arrive(self, connection: Connection) -> None:
        """The next bytes under way arrive, or the end of the stream."""
        if not connection.open[self.name]:
            return
        if not connection.under_way[self.name]:
            if not connection.open[OTHER[self.name]]:
                self.close(connection)
            return
        what = connection.under_way[self.name].pop(0)
        try:
            if isinstance(what, Hello):
                self.greet(connection, what)
            elif connection is self.connection:
                self.session.receive(what, self.net.now_us)
        except WireError as error:
            self.net.problems.append(str(error))
            self.close(connection)

    def close(self, connection: Connection) -> None:
        connection.open[self.name] = False
        if connection is self.connection:
            self.drop()

    def send(self) -> None:
        if self.session.state is not LinkSessionState.IDLE and not self.session.is_full:
            assert self.session.send(Unsubscribe(f"{self.ups} {self.sent}"))
            self.sent += 1

    def write(self) -> None:
        data = self.session.to_write()
        if data and self.connection is not None:
            self.connection.under_way[OTHER[self.name]].append(data)

    def take(self) -> None:
        for message in self.session.take():
            assert isinstance(message, Unsubscribe)
            link, number = map(int, message.subscription_id.split())
            self.seen.append((link, number))


class Net:
    def __init__(self) -> None:
        self.now_us = 0
        self.incarnations = count(1)
        self.ups = count(1)
        self.problems: list[str] = []
        self.connections: list[Connection] = []
        self.sides = {"A": Side(self, "A"), "B": Side(self, "B")}

    def check(self) -> None:
        """An end's messages since link up are one incarnation's, from the first on."""
        for side in self.sides.values():
            assert [number for _, number in side.seen] == list(range(len(side.seen)))
            assert len({link for link, _ in side.seen}) <= 1

    def step(self, random: Random, *, faults: bool) -> None:
        self.now_us += 1_000
        side = self.sides[random.choice("AB")]
        what = random.choices(
            ["arrive", "send", "write", "take", "dial", "drop", "give up", "restart", "open"],
            [40, 20, 20, 20, 10, *((6, 1, 1, 2) if faults else (0, 0, 0, 0))],
        )[0]
        match what:
            case "arrive":
                alive = [each for each in self.connections if each.open[side.name]]
                if alive:
                    side.arrive(random.choice(alive))
            case "dial":
                side.dial()
            case "drop":
                side.drop()
            case "give up":
                side.tell(side.session.give_up())
                if side.connection is not None:
                    side.close(side.connection)
            case "restart":
                side.drop()
                for each in self.connections:
                    each.open[side.name] = False
                self.sides[side.name] = Side(self, side.name)
            case "open" if side.session.state is LinkSessionState.IDLE and side.connection is None:
                side.open_new()
            case "send" | "write" | "take":
                getattr(side, what)()


@pytest.mark.parametrize("seed", one_in(3, range(examples(150))))
def test_links_come_up_and_keep_order_over_any_connections(seed: int) -> None:
    random, net = Random(seed), Net()
    for _ in range(random.randint(20, 400)):
        net.step(random, faults=True)
        net.check()
    net.problems.clear()
    made = len(net.connections)
    for _ in range(1_500):
        net.step(random, faults=False)
        net.check()
    assert len(net.connections) - made <= 6, net.problems
    assert not [row for row in net.problems if "cannot be handled" in row]
    for side in net.sides.values():
        other = net.sides[OTHER[side.name]]
        assert side.session.state is LinkSessionState.UP
        assert side.connection is other.connection
        side.write()
    for side in net.sides.values():
        sent = side.sent
        side.send()
        assert side.sent == sent + 1 or side.session.is_full


@pytest.mark.parametrize("late", ["before", "after"])
def test_a_hello_of_an_earlier_connection_never_makes_the_ends_disagree(late: str) -> None:
    """One end alone continues with the earlier hello; then both begin anew, under other names."""
    one, other = (LinkSession("n", name, OTHER[name], 1, CODEC, LIMITS) for name in ("A", "B"))
    early = other.hello()
    said, answer = other.hello(), one.hello()
    one.connected(said, 0)
    other.connected(answer, 0)
    for number in range(4):
        one.send(Unsubscribe(str(number)))
    other.receive(one.to_write(), 0)
    assert len(other.take()) == 4
    one.lost(1)
    other.lost(1)
    assert one.is_overtaken(early)
    if late == "after":  # a driver that took it all the same
        one.hello()
        one.connected(early, 1)
        one.lost(2)
    said, answer = other.hello(), one.hello()
    ups = one.connected(said, 3), other.connected(answer, 3)
    assert [bool(changes) for changes in ups] == [late == "after"] * 2
    assert one.send(Unsubscribe("next"))


def test_a_link_out_of_step_reports_that_it_is_down() -> None:
    one, other = (LinkSession("n", name, OTHER[name], 1, CODEC, LIMITS) for name in ("A", "B"))
    said, answer = one.hello(), other.hello()
    one.connected(answer, 0)
    other.connected(said, 0)
    one.send(Unsubscribe("x"))
    one.lost(1)
    before = one.hello()
    liar = Hello(PROTOCOL, "n", "B", (1, 1), before.session, 7, begins=9)
    with pytest.raises(WireError, match="7 messages cannot be handled, 1 were sent") as caught:
        one.connected(liar, 1)
    assert [change.up for change in caught.value.changes] == [False]  # type: ignore[attr-defined]
    assert one.state is LinkSessionState.IDLE

"""Links that are ended on purpose: both ends hear it once all is settled, whatever breaks."""

from __future__ import annotations

from functools import partial
from itertools import count
from random import Random

import pytest

from shoal.broker.custody import Custody
from shoal.broker.effects import LinkChanged, LinkState
from shoal.broker.links.controls import Hello, Over
from shoal.broker.links.inbox import Debt
from shoal.broker.links.outbox import LinkLimits
from shoal.broker.links.session import LinkSession
from shoal.broker.links.spool import Spool
from shoal.broker.links.states import State
from shoal.broker.messages import Carrier, Unsubscribe
from shoal.broker.wire import WireError
from tests.broker.links.keeping import batch, keeping
from tests.broker.links.memory_disk import Disk
from tests.broker.links.wire import CODEC
from tests.examples import examples

LIMITS = LinkLimits(window_bytes=400, high_bytes=2_000, low_bytes=500, limit_bytes=100_000)
OTHER = {"A": "B", "B": "A"}
UP, FAILED, ENDED = LinkState.UP, LinkState.FAILED, LinkState.ENDED


class End:
    """One end, what its broker has sent and got, and what it has heard of the link."""

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
        # What was sent before this end asked for the end.
        self.before: tuple[list[int], list[str]] | None = None

    def tell(self, changes: list[LinkChanged]) -> None:
        for change in changes:
            self.heard.append(change.state)
            for carrier, custody in self.session.returned():
                (routed,) = carrier.publications
                self.returned.append(routed.publication.sequence)
                custody.settle()

    def publish(self) -> None:
        number = next(self.numbers)
        if self.session.state in (State.IDLE, State.GONE) or self.session.is_full:
            return
        self.published.append(number)
        custody = Custody(partial(self.settled.add, number))
        assert self.session.send(batch(number), custody)
        custody.settle()

    def say(self) -> None:
        if self.session.state not in (State.IDLE, State.GONE):
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
        """As drivers: who has no link any more does not dial, and closes behind its last word."""
        self.cut()
        one, other = self.ends[dialler], self.ends[OTHER[dialler]]
        if one.session.state is State.GONE:
            return
        said = one.session.hello()
        if other.session.state is State.GONE and not other.session.knows(said):
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
            case "say":
                end.say()
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

    def say_tables(self, name: str) -> None:
        """Its broker does, over a link that it wants; the other may then send publications."""
        other = self.ends[OTHER[name]]
        if self.is_connected and self.ends[name].before is None:
            other.session.open_gate()

    def come_to_rest(self, random: Random, steps: int = 4_000) -> None:
        """Nothing breaks any more: drivers dial, all arrives and is settled."""
        quiet = {"write": 20, "arrive": 20, "take": 10, "settle": 20, "connect": 5}
        for _ in range(steps):
            self.step(random, "", quiet)
            if all(end.session.state is State.GONE for end in self.ends.values()):
                break


ACTIONS = {
    "publish": 15,
    "say": 8,
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


@pytest.mark.parametrize("seed", range(examples(200)))
def test_a_link_ends_at_both_ends_once_all_is_settled(seed: int) -> None:
    random, net = Random(seed), Net()
    net.connect("A")
    asker = random.choice(["A", "B", "AB"])
    for _ in range(random.randint(20, 500)):
        net.step(random, asker, ACTIONS)
    net.ends[asker[0]].end()
    net.come_to_rest(random)
    for name, end in net.ends.items():
        other = net.ends[OTHER[name]]
        assert end.heard == [UP, ENDED]
        assert end.session.state is State.GONE
        got = other.got
        numbers = [each for each in got if isinstance(each, int)]
        words = [each for each in got if isinstance(each, str)]
        assert numbers == end.published[: len(numbers)], "once and in order"
        assert words == end.said[: len(words)]
        assert numbers + end.returned == end.published, "nothing is lost"
        assert end.settled == set(end.published)
        if end.before is None:
            assert (numbers, words) == (end.published, end.said), "who did not ask misses nothing"
        else:
            assert numbers[: len(end.before[0])] == end.before[0]
            assert words[: len(end.before[1])] == end.before[1]
        assert end.session.to_write() is not None


@pytest.mark.parametrize("seed", range(examples(100)))
def test_an_end_that_has_forgotten_does_not_bring_the_link_back(seed: int) -> None:
    """Both ends hear that it is gone, and what they published is settled or back."""
    random, net = Random(seed), Net()
    net.connect("A")
    for _ in range(random.randint(20, 200)):
        net.step(random, "", ACTIONS)
    net.ends["A"].end()
    for _ in range(random.randint(0, 60)):
        net.step(random, "", ACTIONS)
    fault = random.choice(["restart", "give up", "give up"])
    net.step(random, "", {fault: 1})
    ups = [end.heard.count(UP) for end in net.ends.values()]
    net.come_to_rest(random)
    if net.ends["A"].before is None:
        return  # who asked was started again: its driver has that on disk
    assert ups == [end.heard.count(UP) for end in net.ends.values()]
    for end in net.ends.values():
        assert end.session.state is State.GONE
        assert end.heard[-1] in (ENDED, FAILED)
        assert end.settled == set(end.published)


def test_a_link_that_is_not_up_ends_at_once() -> None:
    net = Net()
    net.ends["A"].end()
    assert net.ends["A"].heard == [ENDED]
    net.connect("B")
    assert net.ends["B"].heard == [FAILED]
    assert net.ends["A"].session.may_be_forgotten(0)


def test_the_last_word_is_said_again_until_it_is_heard() -> None:
    net = Net()
    net.connect("A")
    net.ends["A"].end()
    net.write("A")
    net.arrive("B", 1_000)
    assert net.ends["B"].heard == [UP, ENDED]
    net.cut()
    assert net.ends["A"].heard == [UP]
    assert not net.ends["B"].session.may_be_forgotten(LIMITS.give_up_us)
    assert net.ends["B"].session.may_be_forgotten(2 * LIMITS.give_up_us)
    net.connect("A")
    net.write("B")
    net.arrive("A", 1_000)
    assert net.ends["A"].heard == [UP, ENDED]
    net.write("A")
    net.arrive("B", 1_000)
    assert all(end.session.may_be_forgotten(0) for end in net.ends.values())


def test_a_link_that_nobody_ends_has_no_end() -> None:
    net = Net()
    net.connect("A")
    with pytest.raises(WireError, match="the end of a link that nobody has ended"):
        net.ends["A"].session.receive(CODEC.encode(Over()), 1)


def with_one_on_disk() -> tuple[Net, Spool]:
    """B is away, and what A has published meanwhile is in A's spool."""
    net = Net(with_spools=True)
    net.connect("A")
    one = net.ends["A"]
    one.session.open_gate()
    net.cut()
    net.now_us = 3 * LIMITS.park_us
    one.tell(one.session.tick(net.now_us))
    one.publish()
    one.write_to_disk()
    assert one.spool is not None
    return net, one.spool


def test_what_is_on_disk_for_the_other_end_is_brought_before_the_link_ends() -> None:
    net, spool = with_one_on_disk()
    one, other = net.ends["A"], net.ends["B"]
    assert one.settled == {0}
    one.end()
    net.connect("B")
    for end in (one, other):
        end.session.open_gate()
    net.come_to_rest(Random(1))
    assert other.got == [0]
    assert (one.heard[-1], other.heard[-1]) == (ENDED, ENDED)
    assert spool.is_empty


@pytest.mark.parametrize("seed", range(examples(200)))
def test_a_link_with_spools_ends_whoever_is_away_meanwhile(seed: int) -> None:
    """Ends that park begin anew; who wants no link says no tables."""
    random, net = Random(seed), Net(with_spools=True)
    net.connect("A")
    asker = random.choice(["A", "B", "AB"])
    for _ in range(random.randint(50, 500)):
        match random.randrange(12):
            case 0:
                net.say_tables(random.choice("AB"))
            case 1:
                net.ends[random.choice("AB")].write_to_disk()
            case 2 if not net.is_connected:
                net.now_us += 2 * LIMITS.park_us
            case _:
                net.step(random, asker, ACTIONS)
    net.ends[asker[0]].end()
    for _ in range(20):
        net.come_to_rest(random, steps=200)
        for name in net.ends:
            net.say_tables(name)
    for name, end in net.ends.items():
        assert end.heard[-1] == ENDED, "once all is settled"
        assert end.session.state is State.GONE
        assert end.is_disk_empty
        numbers = [each for each in net.ends[OTHER[name]].got if isinstance(each, int)]
        assert {*numbers, *end.returned} == {*end.published}
        assert end.settled == {*end.published}
        first = list(dict.fromkeys(numbers))
        assert first == sorted(first), "doors drop repeats, and nothing else"


@pytest.mark.parametrize("askers", ["B", "AB"])
@pytest.mark.parametrize("is_early", [False, True])
def test_it_is_brought_though_no_tables_are_said_over_a_link_that_is_to_end(
    askers: str, is_early: bool
) -> None:
    """The gate stayed shut, and the link never ended."""
    net, spool = with_one_on_disk()
    if is_early:
        net.connect("B")
    for name in askers:
        net.ends[name].end()
    if not is_early:
        net.connect("B")
    net.come_to_rest(Random(1))
    for end in net.ends.values():
        assert end.heard == [UP, UP, ENDED]
    assert net.ends["B"].got == [0]
    assert spool.is_empty


def test_it_waits_for_the_tables_of_an_end_that_wants_the_link() -> None:
    """That one may have started again, and would not know for whom it is."""
    net, spool = with_one_on_disk()
    net.ends["A"].end()
    net.restart("B")
    net.connect("B")
    net.come_to_rest(Random(1))
    assert net.ends["B"].got == []
    net.say_tables("B")
    net.come_to_rest(Random(2))
    assert net.ends["B"].got == [0]
    assert spool.is_empty


def test_what_waits_at_the_gate_is_brought_when_the_other_end_wants_no_link() -> None:
    """B has started again, and its broker wants no link to A before it has said its tables."""
    wire = keeping()
    wire.publish(0, 1)
    wire.go()
    wire.come_back()
    wire.publish(2)
    wire.got.clear()
    wire.ends["B"].end()
    wire.go()
    assert wire.got == [(0, True), (1, True), (2, False)]
    wire.settle(0, 1, 2)
    assert [end.state for end in wire.ends.values()] == [State.GONE, State.GONE]


def test_what_waits_at_the_gate_comes_back_when_the_link_is_to_end() -> None:
    """B has started again; before it can take publications, A's broker wants no link to it."""
    wire = keeping()
    wire.publish(0, 1)
    wire.go()
    wire.come_back()
    wire.publish(2)
    a, b = wire.ends["A"], wire.ends["B"]
    assert a.end() == []
    assert wire.returned() == [0, 1, 2]
    assert wire.settled == [0, 1, 2]
    wire.go()
    assert (a.state, b.state) == (State.GONE, State.GONE)
    assert wire.got == [(0, False), (1, False)], "in its earlier life"


def test_a_link_ends_without_what_is_recalled() -> None:
    wire = keeping()
    wire.publish(0, 1, 2)
    wire.go()
    wire.settle(1)
    a, b = wire.ends["A"], wire.ends["B"]
    recalled = a.recall(None, moves=True)
    assert a.end() == []
    wire.go()
    assert (a.state, b.state) == (State.GONE, State.GONE)
    assert wire.returned() == []
    assert wire.settled == [1]
    assert _numbers(recalled) == [0, 2]
    assert wire.settled == [1, 0, 2], "once they are settled elsewhere"


def test_what_goes_another_way_as_well_is_to_be_settled_by_both() -> None:
    wire = keeping()
    a = wire.ends["A"]
    wire.publish(0, 1)
    came_over_c = Custody(partial(wire.settled.append, 2), "C")
    assert a.send(batch(2), came_over_c)
    came_over_c.settle()
    wire.publish(3, 3)
    assert _numbers(a.recall("C", moves=False)) == [0, 1, 3], "each once, and none of C's own"
    assert wire.settled == []
    wire.go()
    wire.settle(0, 1, 2)
    assert wire.settled == [0, 1, 2]


def test_what_an_exchange_brought_behind_what_is_newer_is_recalled_in_its_turn() -> None:
    """0, 1 and 2 were for somebody else as well, and came here when 2 had been sent here."""
    wire = keeping()
    wire.publish(2)
    wire.go()
    wire.publish(0, 1, 2)
    wire.go()
    assert _numbers(wire.ends["A"].recall(None, moves=False)) == [0, 1, 2]


def test_it_is_sent_in_its_turn_when_the_other_end_has_forgotten_all() -> None:
    wire = keeping()
    wire.publish(2)
    wire.publish(0, 1, 2)
    wire.go()
    wire.come_back()
    wire.ends["A"].open_gate()
    before = len(wire.got)
    wire.go()
    assert [number for number, _ in wire.got[before:]] == [0, 1, 2, 2]


def test_it_comes_back_in_its_turn() -> None:
    wire = keeping()
    wire.publish(2)
    wire.publish(0, 1, 2)
    wire.go()
    wire.ends["A"].give_up()
    assert wire.returned() == [0, 1, 2, 2]


def test_what_is_on_disk_is_recalled_and_stays_there_until_it_is_settled_elsewhere() -> None:
    net, spool = with_one_on_disk()
    one, other = net.ends["A"], net.ends["B"]
    one.publish()
    recalled = one.session.recall(None, moves=True)
    one.end()
    net.connect("B")  # and nobody opens the gate: the other end is told no tables any more
    net.come_to_rest(Random(1))
    assert not spool.is_empty
    assert one.session.state is State.ENDING
    assert one.settled == {0}
    assert _numbers(recalled) == [0, 1]
    assert one.settled == {0, 1}
    net.come_to_rest(Random(2))
    assert spool.is_empty
    assert (one.heard[-1], other.heard[-1]) == (ENDED, ENDED)
    assert other.got == []


def _numbers(recalled: list[tuple[Carrier, Custody]]) -> list[int]:
    """Of what was recalled, and is settled elsewhere now."""
    found = []
    for carrier, custody in recalled:
        (routed,) = carrier.publications
        assert routed.publication.again
        found.append(routed.publication.sequence)
        custody.settle()
    return found

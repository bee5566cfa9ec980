"""A seed becomes a plan: brokers, clients, and what goes wrong when.  Pure; printed, it says all.

Times are seconds since the network was whole.  The plan is the same for the same seed, system and
length; what the network does at that time is not, so a failing seed may have to run several times.

>>> plan = make_plan("tree", seed=3, seconds=10)
>>> plan == make_plan("tree", seed=3, seconds=10)
True
>>> print(Action(1.5, "kill", "B2"))
   1.50 kill B2
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations
from random import Random
from typing import NamedTuple

from shoal.overlays.octopia.parameters import OctopiaParameters
from shoal.overlays.octopia.parameters import links as octopia_links
from shoal.overlays.registry import MODULES
from shoal.overlays.registry import SYSTEMS as REGISTERED
from tests.chaos.further import FURTHER, FURTHER_KINDS, Further

# Systems of one's own need links and constants of theirs here and in `network.py`.
SYSTEMS = tuple(MODULES)
# What x of a publication is below; subscribers may want only what is at least something.
X_LIMIT = 100
# A broker that is away for 60 s counts as gone; no plan comes near.
LONGEST_AWAY_S = 15.0
# From a kill to the next life of that broker, on a busy machine.
LONGEST_START_S = LONGEST_AWAY_S + 10.0
# A disk that has been full has everything again after this: it is tried each second.
KNOWN_AGAIN_S = 3.0


# What can be done; see `Run.play`.  Who is killed starts again by itself after so many seconds, who
# is ended or stopped does not.
KINDS = (
    "kill", "end", "stop", "start", "pause", "resume", "slow disk", "full disk", "good disk", "hog",
    "move", "jump", "look in", "leave", "stall",
    *FURTHER_KINDS,
)  # fmt: skip


class PublisherPlan(NamedTuple):
    """`advertises`: it says what it will publish, so it may be moved; `follows` in person."""

    name: str
    broker: str
    qos: int
    rate: float
    patience_s: float
    advertises: bool = False
    follows: bool = False


class SubscriberPlan(NamedTuple):
    """It wants x of at least `least`, of one publisher if it names one.

    Without `lasts` its session ends with each connection.
    `patience_s` is how long it waits for CONNACK; one that `roams` then tries another broker.
    """

    name: str
    broker: str
    qos: int
    least: int = 0
    group: str = ""
    lasts: bool = True
    patience_s: float = 15.0
    roams: bool = False
    publisher: str = ""


class Action(NamedTuple):
    """What is done when, to whom: a broker, a client, or "@client", the broker where it is."""

    at_s: float
    kind: str
    whom: str = ""
    where: str = ""
    value: float = 0.0

    def __str__(self) -> str:
        value = f"{self.value:g}" if self.value else ""
        return " ".join(filter(None, (f"{self.at_s:7.2f}", *self[1:4], value)))


def read_action(line: str) -> Action:
    """An action as it is printed.

    >>> read_action("   2.50 look in S1 B2 0.3")
    Action(at_s=2.5, kind='look in', whom='S1', where='B2', value=0.3)
    """
    at_s, *words = line.split()
    kind = next(kind for kind in KINDS if kind.split() == words[: len(kind.split())])
    rest = words[len(kind.split()) :]
    is_number = bool(rest) and rest[-1].lstrip("-").replace(".", "").isdecimal()
    value = float(rest.pop()) if is_number else 0.0
    whom, where = (*rest, "", "")[:2]
    return Action(float(at_s), kind, whom, where, value)


class Plan(NamedTuple):
    """`acknowledge` is `[storage]`'s: when publications are acknowledged."""

    system: str
    seed: int
    seconds: float
    acknowledge: str
    brokers: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    publishers: tuple[PublisherPlan, ...]
    subscribers: tuple[SubscriberPlan, ...]
    actions: tuple[Action, ...]

    def __str__(self) -> str:
        links = ", ".join(f"{left}-{right}" for left, right in self.links)
        head = f"{self.system}, seed {self.seed}, {self.seconds:g} s, {self.acknowledge}"
        lines = [f"{head}: {links or 'no links'}"]
        lines += [f"  {client}" for client in (*self.publishers, *self.subscribers)]
        return "\n".join([*lines, *map(str, self.actions)])


def make_plan(system: str, seed: int, seconds: float = 20.0, faults: Collection[str] = ()) -> Plan:
    """The plan of a seed; with `faults` only of these kinds (see `FAULTS`)."""
    random = Random(f"{system} {seed}")
    count = random.choice((3, 3, 4))
    brokers = tuple(f"B{number}" for number in range(1, count + 1))
    links = _links(system, brokers, random)
    stores = REGISTERED[system].stores
    acknowledge = random.choice(("stored", "settled")) if stores else "settled"
    publishers = tuple(_publisher(number, system, brokers, random) for number in range(1, 4))
    subscribers = tuple(_choosy(_subscribers(brokers, random), publishers, system, seed))
    maker = _Maker(random, brokers, publishers, subscribers)
    kinds = [kind for kind in FAULTS if not faults or kind in faults]
    # A few runs are crowded, most have one thing after the other.
    pace_s = random.choice((1.0, 2.0, 2.0, 3.5))
    at_s = random.uniform(0.5, 1.5)
    while kinds and at_s < seconds:
        weights = [FAULTS[kind][0] for kind in kinds]
        FAULTS[random.choices(kinds, weights)[0]][1](maker, at_s)
        at_s += random.uniform(0.2, 2 * pace_s)
    _further(system, seed, seconds, faults, maker)
    actions = tuple(sorted(maker.harmless()))
    return Plan(
        system, seed, seconds, acknowledge, brokers, links, publishers, subscribers, actions
    )


def _further(
    system: str, seed: int, seconds: float, faults: Collection[str], maker: _Maker
) -> None:
    """Most plans have some of these, too; a few have none."""
    random = Random(f"{system} {seed} further")
    kinds = [kind for kind in FURTHER if not faults or kind in faults]
    if not kinds or (not faults and random.random() < 0.2):
        return
    further = Further(random, maker.brokers, maker.clients, maker.do)
    at_s = random.uniform(0.5, 3.0)
    while at_s < seconds:
        weights = [FURTHER[kind][0] for kind in kinds]
        FURTHER[random.choices(kinds, weights)[0]][1](further, at_s)
        at_s += random.uniform(1.0, 7.0)


def clusters_of(brokers: Sequence[str]) -> int:
    """Of octopia: one region, in which they carry for each other, or two clusters of two."""
    return 3 if len(brokers) == 3 else 2


def _links(system: str, brokers: tuple[str, ...], random: Random) -> tuple[tuple[str, str], ...]:
    """A tree, or more where it may be."""
    if REGISTERED[system].shape.opens_links:
        return ()
    if system == "octopia":
        return tuple(octopia_links(OctopiaParameters(clusters=clusters_of(brokers)), brokers))
    tree = [(brokers[random.randrange(place)], brokers[place]) for place in range(1, len(brokers))]
    if system == "tid":
        others = [pair for pair in combinations(brokers, 2) if pair not in tree]
        tree += random.sample(others, random.randint(0, len(others)))
    return tuple(tree)


def _publisher(number: int, system: str, brokers: tuple[str, ...], random: Random) -> PublisherPlan:
    moves = system in ("grape", "pop") and random.random() < 0.6
    return PublisherPlan(
        name=f"P{number}",
        broker=random.choice(brokers),
        qos=1 + number % 2,
        rate=random.choice((20.0, 40.0, 80.0)),
        patience_s=random.choice((2.0, 15.0)),
        advertises=moves,
        follows=moves and random.random() < 0.5,
    )


def _subscribers(brokers: tuple[str, ...], random: Random) -> list[SubscriberPlan]:
    found = [
        SubscriberPlan(
            name=f"S{number}",
            broker=random.choice(brokers),
            qos=1 + number % 2,
            least=random.choice((0, 0, 30, 60)),
            patience_s=random.choice((1.0, 4.0, 15.0)),
            roams=random.random() < 0.4,
        )
        for number in range(1, 6)
    ]
    found += [
        SubscriberPlan(f"G{number}", random.choice(brokers), 2, group="g", patience_s=15.0)
        for number in range(1, 4)
    ]
    # Of this group one has a session that lasts, the other none.
    found += [
        SubscriberPlan("H1", random.choice(brokers), 1, group="h"),
        SubscriberPlan("H2", random.choice(brokers), 1, group="h", lasts=False),
    ]
    return [*found, SubscriberPlan("F1", random.choice(brokers), 1, lasts=False)]


def _choosy(
    subscribers: list[SubscriberPlan],
    publishers: tuple[PublisherPlan, ...],
    system: str,
    seed: int,
) -> Iterator[SubscriberPlan]:
    """Some of those that share with nobody want one topic: some systems go by topics."""
    random = Random(f"{system} {seed} topics")
    for each in subscribers:
        if each.group or random.random() < 0.5:
            yield each
        else:
            yield each._replace(publisher=random.choice(publishers).name)


class _Maker:
    """Makes actions; each method is a kind of fault that begins at a time."""

    def __init__(
        self,
        random: Random,
        brokers: tuple[str, ...],
        publishers: tuple[PublisherPlan, ...],
        subscribers: tuple[SubscriberPlan, ...],
    ) -> None:
        self.actions: list[Action] = []
        self._random = random
        self.brokers = brokers
        self._publishers = [each.name for each in publishers]
        self._subscribers = [each.name for each in subscribers]
        self.clients = [*self._publishers, *self._subscribers]
        # Whose disk is full, from when on, and until when all is on it again.
        self._full: list[tuple[str, float, float]] = []

    def kill(self, at_s: float) -> None:
        self._kill(at_s, self._broker())

    def kill_two(self, at_s: float) -> None:
        one, other = self._random.sample(self.brokers, 2)
        self._kill(at_s, one)
        self._kill(at_s + self._random.choice((0.0, 0.05, 0.5)), other)

    def kill_publishers_own(self, at_s: float) -> None:
        self._kill(at_s, "@" + self._random.choice(self._publishers))

    def pause(self, at_s: float) -> None:
        broker = self._broker()
        self.do(at_s, "pause", broker)
        self.do(at_s + self._random.choice((0.3, 1.0, 3.0, 7.0)), "resume", broker)

    def cold_start(self, at_s: float) -> None:
        """All end, some by a signal that lets them drain; they start one after the other."""
        how = self._random.choice(("end", "end", "stop"))
        for broker in self.brokers:
            self.do(at_s, how, broker)
        at_s += self._random.uniform(0.5, 6.0)
        order = list(self.brokers)
        self._random.shuffle(order)
        last = self._random.choice((1.0, 3.0, 8.0, LONGEST_AWAY_S - 2.0))
        for place, broker in enumerate(order):
            wait_s = last if place == len(order) - 1 else self._random.uniform(0.0, 2.0)
            self.do(at_s + wait_s, "start", broker)

    def slow_disk(self, at_s: float) -> None:
        broker = self._broker()
        self.do(at_s, "slow disk", broker, value=self._random.choice((0.01, 0.05, 0.2)))
        self.do(at_s + self._random.uniform(1.0, 5.0), "good disk", broker)

    def full_disk(self, at_s: float) -> None:
        """What comes meanwhile is in memory only, so nobody is killed who has it."""
        broker = self._broker()
        good_s = at_s + self._random.uniform(0.3, 2.0)
        self.do(at_s, "full disk", broker)
        self.do(good_s, "good disk", broker)
        self._full.append((broker, at_s, good_s + KNOWN_AGAIN_S))

    def hog(self, at_s: float) -> None:
        for _ in range(self._random.choice((1, 2, 3))):
            self.do(at_s, "hog", value=round(self._random.uniform(1.0, 4.0), 2))

    def move(self, at_s: float) -> None:
        self.do(at_s, self._going(), self._client(), self._broker())

    def move_often(self, at_s: float) -> None:
        """On before the session can have followed."""
        client = self._client()
        for _ in range(self._random.randint(2, 6)):
            self.do(at_s, self._going(), client, self._broker())
            at_s += self._random.choice((0.02, 0.1, 0.5, 1.0))

    def move_and_kill(self, at_s: float) -> None:
        """Several go to one broker, and it dies, or one that they leave."""
        broker = self._broker()
        clients = self._random.sample(self._subscribers, self._random.randint(1, 4))
        for client in clients:
            self.do(at_s, self._going(), client, broker)
        whom = self._random.choice((broker, broker, self._broker()))
        self._kill(at_s + self._random.choice((0.0, 0.02, 0.1, 0.3, 1.0)), whom)

    def ask_elsewhere(self, at_s: float) -> None:
        """While a client's broker is down it looks in at another, for a moment."""
        client = self._random.choice(self._subscribers)
        away_s = self._random.choice((2.0, 5.0, 12.0))
        self._kill(at_s, f"@{client}", away_s)
        for _ in range(self._random.randint(1, 2)):
            at_s += self._random.uniform(0.3, 1.0)
            stay_s = self._random.choice((0.1, 0.3, 1.0))
            self.do(at_s, "look in", client, self._broker(), stay_s)
            at_s += stay_s

    def hang_up(self, at_s: float) -> None:
        """A broker dies at the moment in which its clients go, for a while."""
        client = self._client()
        self._kill(at_s, f"@{client}")
        gap_s = self._random.choice((-0.05, -0.01, 0.0, 0.01))
        self.do(at_s + gap_s, "leave", client, value=self._random.choice((0.5, 2.0, 6.0)))

    def leave(self, at_s: float) -> None:
        self.do(at_s, "leave", self._client(), value=self._random.choice((0.0, 0.5, 3.0)))

    def harmless(self) -> list[Action]:
        """What was made, without full disks of brokers that are killed meanwhile, or may start."""
        kills = [
            (self._place(action.whom), action.at_s)
            for action in self.actions
            if action.kind in ("kill", "end", "stop")
        ]
        spoilt = {
            (broker, round(from_s, 3))
            for broker, from_s, to_s in self._full
            if any(
                whom in (broker, "") and from_s - LONGEST_START_S <= at_s <= to_s
                for whom, at_s in kills
            )
        }
        return [
            action
            for action in self.actions
            if action.kind != "full disk" or (action.whom, action.at_s) not in spoilt
        ]

    def stall(self, at_s: float) -> None:
        """A client reads nothing for a while."""
        self.do(at_s, "stall", self._client(), value=self._random.choice((0.5, 2.0, 5.0)))

    # --- parts --------------------------------------------------------------------------------

    @staticmethod
    def _place(whom: str) -> str:
        """The broker that is meant; empty when only the run can know."""
        return "" if whom.startswith("@") else whom

    def _kill(self, at_s: float, broker: str, away_s: float = 0.0) -> None:
        away_s = away_s or self._random.choice((0.0, 0.3, 1.0, 1.0, 3.0, 8.0))
        self.do(at_s, "kill", broker, value=away_s)

    def do(
        self, at_s: float, kind: str, whom: str = "", where: str = "", value: float = 0.0
    ) -> None:
        self.actions.append(Action(round(max(at_s, 0.0), 3), kind, whom, where, value))

    def _going(self) -> str:
        """With a word, or without."""
        return self._random.choice(("move", "move", "jump"))

    def _broker(self) -> str:
        return self._random.choice(self.brokers)

    def _client(self) -> str:
        return self._random.choice(self.clients)


# Each kind of fault: how often, and what makes it.
FAULTS = {
    "kill": (4, _Maker.kill),
    "kill two": (1, _Maker.kill_two),
    "kill publisher's own": (2, _Maker.kill_publishers_own),
    "pause": (3, _Maker.pause),
    "cold start": (0.7, _Maker.cold_start),
    "slow disk": (2, _Maker.slow_disk),
    "full disk": (1, _Maker.full_disk),
    "hog": (1, _Maker.hog),
    "move": (4, _Maker.move),
    "move often": (2, _Maker.move_often),
    "move and kill": (3, _Maker.move_and_kill),
    "ask elsewhere": (2, _Maker.ask_elsewhere),
    "hang up": (2, _Maker.hang_up),
    "leave": (2, _Maker.leave),
    "stall": (1, _Maker.stall),
}

"""Makes a plan from a seed: brokers, clients, and faults with their times.

A pure function; the printed plan is complete.

Times are seconds since the network was ready. Seed, system and length determine the plan, but not
the network's timing, so a failing seed may need several runs.

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
from shoal.overlays.registry import SYSTEMS as REGISTERED
from tests.chaos.further import FURTHER, FURTHER_KINDS, Further
from tests.chaos.members import CHANGES, MEMBER_KINDS, MemberChanges

# Those of `SHOAL_SYSTEMS` have their default parameters.
SYSTEMS = tuple(REGISTERED)
# Bound of a publication's x; a subscriber may ask for a lower bound of x.
X_LIMIT = 100
# A broker counts as dead after 60 s; no plan comes near.
LONGEST_AWAY_S = 15.0
# Brokers that may join.
JOINERS = ("J1", "J2")
# From a kill to that broker's next incarnation, on a busy machine.
LONGEST_START_S = LONGEST_AWAY_S + 10.0
# By then a disk that was full has everything; the broker retries each second.
KNOWN_AGAIN_S = 3.0


# Kinds of actions; `Run.play` has their meaning. A killed broker restarts after so many seconds; a
# stopped one needs a start.
KINDS = (
    "kill", "end", "stop", "start", "pause", "resume", "slow disk", "full disk", "good disk", "hog",
    "move", "jump", "look in", "leave", "stall",
    *FURTHER_KINDS, *MEMBER_KINDS,
)  # fmt: skip


class PublisherPlan(NamedTuple):
    """A publisher. With `advertises` it may be moved, with `follows` it follows redirects."""

    name: str
    broker: str
    qos: int
    rate: float
    patience_s: float
    advertises: bool = False
    follows: bool = False


class SubscriberPlan(NamedTuple):
    """A subscriber of x of at least `least`, of one publisher if it names one.

    Without `lasts` its session ends with each connection. `patience_s` is its wait for CONNACK.
    With `roams` it tries another broker after that.
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
    """A fault at a time. Its subject is a broker, a client, or "@client" for the broker of a
    client.
    """

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
    """A plan. `acknowledge` is the key of `[storage]`: when publications are acknowledged."""

    system: str
    seed: int
    seconds: float
    acknowledge: str
    brokers: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    publishers: tuple[PublisherPlan, ...]
    subscribers: tuple[SubscriberPlan, ...]
    actions: tuple[Action, ...]
    # Brokers that may join; if there are any, members come and go.
    joiners: tuple[str, ...] = ()

    def __str__(self) -> str:
        links = ", ".join(f"{left}-{right}" for left, right in self.links)
        head = f"{self.system}, seed {self.seed}, {self.seconds:g} s, {self.acknowledge}"
        lines = [f"{head}: {links or 'no links'}"]
        lines += [f"  {client}" for client in (*self.publishers, *self.subscribers)]
        return "\n".join([*lines, *map(str, self.actions)])


def make_plan(
    system: str,
    seed: int,
    seconds: float = 20.0,
    faults: Collection[str] = (),
    *,
    members: bool = False,
) -> Plan:
    """The plan of a seed, restricted to kinds of faults if `faults` names some (see `FAULTS`).

    With `members` brokers join and leave, too, and no cable is spoilt.
    """
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
    # A few runs have many faults at once, most have one after the other.
    pace_s = random.choice((1.0, 2.0, 2.0, 3.5))
    at_s = random.uniform(0.5, 1.5)
    while kinds and at_s < seconds:
        weights = [FAULTS[kind][0] for kind in kinds]
        FAULTS[random.choices(kinds, weights)[0]][1](maker, at_s)
        at_s += random.uniform(0.2, 2 * pace_s)
    joiners = JOINERS if members else ()
    if joiners:
        _member_changes(system, seed, seconds, joiners, maker)
    else:
        _further(system, seed, seconds, faults, maker)
    actions = tuple(sorted(maker.harmless()))
    return Plan(
        *(system, seed, seconds, acknowledge, brokers, links, publishers, subscribers, actions),
        joiners=joiners,
    )


def _further(
    system: str, seed: int, seconds: float, faults: Collection[str], maker: _Maker
) -> None:
    """The further faults of a plan; most plans have some."""
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


def _member_changes(
    system: str, seed: int, seconds: float, joiners: Sequence[str], maker: _Maker
) -> None:
    """The joins and leaves of a plan, one each 2 s to 5 s."""
    random = Random(f"{system} {seed} members")
    changes = MemberChanges(random, maker.brokers, joiners, maker.clients, maker.do)
    weights = [weight for weight, _ in CHANGES.values()]
    at_s = random.uniform(0.5, 2.0)
    while at_s < seconds:
        (chosen,) = random.choices([make for _, make in CHANGES.values()], weights)
        chosen(changes, at_s)
        at_s += random.uniform(2.0, 5.0)


def clusters_of(brokers: Sequence[str]) -> int:
    """OctopiA's clusters: one region whose brokers carry for each other, or two clusters of two."""
    return 3 if len(brokers) == 3 else 2


def _links(system: str, brokers: tuple[str, ...], random: Random) -> tuple[tuple[str, str], ...]:
    """A tree, with further links where the system allows them."""
    if REGISTERED[system].shape.opens_links:
        return ()
    if system == "octopia":
        return tuple(octopia_links(OctopiaParameters(clusters=clusters_of(brokers)), brokers))
    if REGISTERED[system].links is not None:
        parameters = REGISTERED[system].complete(REGISTERED[system].parameters(), brokers)
        return tuple(REGISTERED[system].make_links(parameters, brokers))
    tree = [(brokers[random.randrange(place)], brokers[place]) for place in range(1, len(brokers))]
    if REGISTERED[system].shape.has_cycles:
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
    # One member of this group has a lasting session, the other does not.
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
    """Restrict some subscribers outside groups to one topic, as some systems route by topic."""
    random = Random(f"{system} {seed} topics")
    for each in subscribers:
        if each.group or random.random() < 0.5:
            yield each
        else:
            yield each._replace(publisher=random.choice(publishers).name)


class _Maker:
    """Makes actions; each method makes one kind of fault that begins at a given time."""

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
        # Per full disk: from when on, and by when everything is written.
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
        """Stop all brokers, some with a drain, and start them one after the other."""
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
        """Fill a broker's disk. Messages are in memory only meanwhile, so that broker is not
        killed.
        """
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
        """Move a client again before its session can have followed."""
        client = self._client()
        for _ in range(self._random.randint(2, 6)):
            self.do(at_s, self._going(), client, self._broker())
            at_s += self._random.choice((0.02, 0.1, 0.5, 1.0))

    def move_and_kill(self, at_s: float) -> None:
        """Move several clients to one broker, and kill it or a broker that they leave."""
        broker = self._broker()
        clients = self._random.sample(self._subscribers, self._random.randint(1, 4))
        for client in clients:
            self.do(at_s, self._going(), client, broker)
        whom = self._random.choice((broker, broker, self._broker()))
        self._kill(at_s + self._random.choice((0.0, 0.02, 0.1, 0.3, 1.0)), whom)

    def ask_elsewhere(self, at_s: float) -> None:
        """While a client's broker is down, let it connect to another broker for a moment."""
        client = self._random.choice(self._subscribers)
        away_s = self._random.choice((2.0, 5.0, 12.0))
        self._kill(at_s, f"@{client}", away_s)
        for _ in range(self._random.randint(1, 2)):
            at_s += self._random.uniform(0.3, 1.0)
            stay_s = self._random.choice((0.1, 0.3, 1.0))
            self.do(at_s, "look in", client, self._broker(), stay_s)
            at_s += stay_s

    def hang_up(self, at_s: float) -> None:
        """Kill a broker at the moment in which its clients disconnect for a while."""
        client = self._client()
        self._kill(at_s, f"@{client}")
        gap_s = self._random.choice((-0.05, -0.01, 0.0, 0.01))
        self.do(at_s + gap_s, "leave", client, value=self._random.choice((0.5, 2.0, 6.0)))

    def leave(self, at_s: float) -> None:
        self.do(at_s, "leave", self._client(), value=self._random.choice((0.0, 0.5, 3.0)))

    def harmless(self) -> list[Action]:
        """Drop the full disks of brokers that are killed or may start meanwhile."""
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
        """Let a client stop reading for a while."""
        self.do(at_s, "stall", self._client(), value=self._random.choice((0.5, 2.0, 5.0)))

    # --- parts --------------------------------------------------------------------------------

    @staticmethod
    def _place(whom: str) -> str:
        """The broker of an action; empty if only the run can know it."""
        return "" if whom.startswith("@") else whom

    def _kill(self, at_s: float, broker: str, away_s: float = 0.0) -> None:
        away_s = away_s or self._random.choice((0.0, 0.3, 1.0, 1.0, 3.0, 8.0))
        self.do(at_s, "kill", broker, value=away_s)

    def do(
        self, at_s: float, kind: str, whom: str = "", where: str = "", value: float = 0.0
    ) -> None:
        self.actions.append(Action(round(max(at_s, 0.0), 3), kind, whom, where, value))

    def _going(self) -> str:
        """A move, with or without a DISCONNECT."""
        return self._random.choice(("move", "move", "jump"))

    def _broker(self) -> str:
        return self._random.choice(self.brokers)

    def _client(self) -> str:
        return self._random.choice(self.clients)


# Each kind of fault: its weight, and the method that makes it.
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

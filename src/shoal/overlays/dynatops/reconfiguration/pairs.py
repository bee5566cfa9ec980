"""Changes of places without a global plan: the brokers that cost most propose swaps in pairs.

Roots send the homes of each topic their counts, so a home knows the other homes of its topics, and
nothing of other topics. Two brokers compute the change by a swap together: each counts the topics
that only it wants.

| broker | event | action |
| --- | --- | --- |
| any | a period is over, or a neighbour sends its cost | sends its own to its neighbours, once |
| one that costs more than these | all their costs | asks each for the change by a swap |
| any | that question | answers for the topics that only it wants |
| the asking broker | the answers | proposes the best swap that pays; else it counts as cheapest |
| the manager | proposals | the best first, each broker in one, makes a view of them |

In that view all begins anew, as long as swaps are found. So the manager of views plans nothing; it
orders proposals. A broker's own costs are its delays and the messages that it relayed.

Source: ours; DYNATOPS names distributing the manager as future work (section 7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from shoal.broker.effects import Effect, Record, SetTimer
from shoal.model import BrokerId
from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.dynatops.messages import (
    Between,
    Costly,
    SwapAnswered,
    SwapAsked,
    SwapWanted,
    TopicCount,
)
from shoal.overlays.dynatops.parameters import DynatopsParameters, PriceParameters
from shoal.overlays.dynatops.planning.bound import messages_of, reconfiguration_cost
from shoal.overlays.dynatops.planning.one_topic import change_of
from shoal.overlays.dynatops.reconfiguration.counting import Estimate
from shoal.overlays.dynatops.records import ReconfigurationRecord
from shoal.overlays.dynatops.structures.structure import route

# The wait for others' messages.
WAIT_US = 1_000_000
# The most views from swaps of one period, as simultaneous swaps may spoil each other's gains.
MOST_ROUNDS = 20
# The most homes of topics that count, the most frequent topics first; it bounds the work of an
# answer.
MOST_HOMES = 5_000
# The most proposals that the manager takes for one view.
MOST_PROPOSED = 1_000
# The least gain that counts.
LEAST = 1e-6

Send = Callable[[BrokerId, Between, list[Effect]], None]


class BrokerPairs:
    """At one broker; `relayed` is how many publications it has passed on for others so far."""

    def __init__(
        self,
        membership: ViewMembership,
        parameters: DynatopsParameters,
        send: Send,
        relayed: Callable[[], int],
    ) -> None:
        self._membership = membership
        self._broker = membership.broker
        self._parameters = parameters
        self._send = send
        self._relayed = relayed
        self._regions = {
            name: number for number, row in enumerate(parameters.regions, 1) for name in row
        }
        self._estimate = Estimate(parameters.rate_percent)
        # Of the last period: publications and homes of each topic that is wanted here; relays.
        self._topics: dict[str, tuple[float, frozenset[BrokerId]]] = {}
        self._relays = self._relayed_before = 0
        self._is_timed = False
        self._rounds = 0
        # Of this view: the own cost, if it was sent, and others'; the asked brokers, with their
        # answers.
        self._positions: dict[BrokerId, int] = {}
        self._own: float | None = None
        self._costs: dict[BrokerId, float] = {}
        self._has_heard = self._is_done = False
        self._asked: dict[BrokerId, float | None] = {}
        self._wanted: list[SwapWanted] = []

    @property
    def expected(self) -> Mapping[str, float]:
        """Publications that are expected in a period, of each topic that is wanted here."""
        return self._estimate.expected

    # --- inputs -------------------------------------------------------------------------------

    def on_counts(
        self, topics: Iterable[TopicCount], now_us: int, out: list[Effect], spent: int = 0
    ) -> None:
        """A root reports of topics that are wanted here."""
        self._estimate.on_counts(topics)
        if not self._is_timed:
            self._is_timed = True
            self._set("decide", now_us + self._parameters.reconfigure_us, out)

    def timer(self, name: str, now_us: int, out: list[Effect]) -> None:
        match name:
            case "decide":
                self._announce_cost(now_us, out)
            case "round":
                self._send_cost(now_us, out)
            case "look" if self._own is not None:
                self._has_heard = True
                self._ask_if_costliest(now_us, out)
            case "answers" if self._asked:
                self._propose(out)
            case "swap" if self._wanted:
                self._swap(now_us, out)

    def take(self, message: Between, now_us: int, out: list[Effect]) -> None:
        """Handle a message of another broker in this view."""
        match message:
            case Costly(_, _, broker, cost):
                self._costs[broker] = cost
                self._send_cost(now_us, out)
                self._ask_if_costliest(now_us, out)
            case SwapAsked(age, _, broker, topics):
                theirs = set(topics)
                change = self._change_without(theirs, broker)
                common = tuple(each for each in self._topics if each in theirs)
                self._send(broker, SwapAnswered(age, broker, self._broker, common, change), out)
            case SwapAnswered(_, _, broker, common, change) if self._asked.get(broker, 0) is None:
                self._asked[broker] = change + self._change_without(set(common), broker)
                if None not in self._asked.values():
                    self._propose(out)
            case SwapWanted() if self._may_swap(message.broker, message.other):
                if not self._wanted:
                    self._set("swap", now_us + WAIT_US, out)
                if message.gain > 0 and len(self._wanted) < MOST_PROPOSED:
                    self._wanted.append(message)

    def began(self, now_us: int, out: list[Effect]) -> None:
        """A view has begun: costs in it are unknown."""
        view = self._membership.view
        assert view is not None
        before, self._positions = (
            self._positions,
            {name: at for at, name in enumerate(view.members)},
        )
        if before.get(self._broker) != self._positions[self._broker]:
            self._relays = 0  # was counted elsewhere
        self._own = None
        self._has_heard = self._is_done = False
        self._costs, self._asked, self._wanted = {}, {}, []
        if self._rounds and before.keys() == self._positions.keys():
            self._rounds -= 1
            self._set("round", now_us + WAIT_US, out)

    def _set(self, name: str, at_us: int, out: list[Effect]) -> None:
        out.append(SetTimer(("reconfiguration", name), at_us))

    # --- costs --------------------------------------------------------------------------------

    def _announce_cost(self, now_us: int, out: list[Effect]) -> None:
        self._is_timed = False
        expected, homes = self._estimate.renew()
        left, self._topics = MOST_HOMES, {}
        for topic in sorted(expected, key=lambda each: (-expected[each], each)):
            wanted = frozenset(homes.get(topic, ()))
            if self._broker in wanted and (left := left - len(wanted)) >= 0:
                self._topics[topic] = expected[topic], wanted
        relayed = self._relayed()
        self._relays, self._relayed_before = relayed - self._relayed_before, relayed
        self._rounds = MOST_ROUNDS
        self._send_cost(now_us, out)

    @property
    def _known(self) -> list[BrokerId]:
        """Those that this broker has links with by the structure."""
        places = self._membership.places
        return [] if places is None else sorted(places.linked_to(self._broker))

    def _send_cost(self, now_us: int, out: list[Effect]) -> None:
        """Send this broker's cost, if that is not done in this view."""
        view, places = self._membership.view, self._membership.places
        if self._own is not None or view is None or places is None or view.is_held:
            return
        self._own = float(self._relays)
        for topic, (publications, _) in self._topics.items():
            root, here = places.structure.root(topic), self._positions[self._broker]
            hops = len(route(places.structure, root, here)) - 1
            self._own += publications * self._parameters.delay_weight * hops
        self._send_to_neighbours(self._own, out)
        self._set("look", now_us + WAIT_US, out)

    def _send_to_neighbours(self, cost: float, out: list[Effect]) -> None:
        view = self._membership.view
        assert view is not None
        for each in self._known:
            self._send(each, Costly(view.age, each, self._broker, cost), out)

    def _ask_if_costliest(self, now_us: int, out: list[Effect]) -> None:
        """Ask the others, if this broker costs more than all of them."""
        view = self._membership.view
        if view is None or not self._own or not self._has_heard or self._is_done or self._asked:
            return
        if any((cost, name) > (self._own, self._broker) for name, cost in self._costs.items()):
            return
        may_be = [each for each in self._known if self._may_swap(self._broker, each)]
        self._asked = dict.fromkeys(may_be)
        for each in may_be:
            self._send(each, SwapAsked(view.age, each, self._broker, tuple(self._topics)), out)
        self._set("answers", now_us + WAIT_US, out)
        if not may_be:
            self._let_others_ask(out)

    def _let_others_ask(self, out: list[Effect]) -> None:
        """Let others ask."""
        self._is_done = True
        self._send_to_neighbours(0.0, out)

    # --- swaps --------------------------------------------------------------------------------

    def _may_swap(self, one: BrokerId, other: BrokerId) -> bool:
        pinned, regions = self._parameters.pinned, self._regions
        are_free = one not in pinned and other not in pinned
        return one != other and are_free and regions.get(one) == regions.get(other)

    def _change_without(self, common: set[str], other: BrokerId) -> float:
        """The change by a swap for the topics that only this broker wants."""
        places = self._membership.places
        if places is None or not self._positions:
            return 0.0
        at, there = self._positions[self._broker], self._positions[other]
        change = 0.0
        for topic, (publications, wanted) in self._topics.items():
            if topic in common or other in wanted:
                continue
            homes = {self._positions[each] for each in wanted if each in self._positions}
            root, weight = places.structure.root(topic), self._parameters.delay_weight
            change += publications * change_of(places.structure, root, homes, at, there, weight)
        return change

    def _propose(self, out: list[Effect]) -> None:
        view = self._membership.view
        answered = [(change, name) for name, change in self._asked.items() if change is not None]
        self._asked, self._is_done = {}, True
        if view is None or not answered:
            return
        change, best = min(answered)
        if self._parameters.price is PriceParameters.SENT:
            price = messages_of(len(view.members), 2)
        else:
            price = reconfiguration_cost(len(view.members), len(self._topics), 2)
        price *= self._parameters.price_percent / 100
        if -change <= max(price, LEAST):
            self._let_others_ask(out)
            return
        manager = self._membership.manager
        wanted = SwapWanted(view.age, manager, self._broker, best, -change, price)
        self._send(manager, wanted, out)

    def _swap(self, now_us: int, out: list[Effect]) -> None:
        """The manager of views puts proposals into one, the best first."""
        wanted, self._wanted = self._wanted, []
        view = self._membership.view
        if view is None or not self._membership.is_manager or view.is_held:
            return
        places: dict[BrokerId, BrokerId] = {}
        gain = price = 0.0
        for each in sorted(wanted, key=lambda each: (-each.gain, each.broker)):
            if not places.keys() & {each.broker, each.other}:
                places |= {each.broker: each.other, each.other: each.broker}
                gain, price = gain + each.gain, price + each.price
        members = tuple(places.get(each, each) for each in view.members)
        is_done = self._membership.rearrange(members, now_us, out, is_held=False)
        view = self._membership.view
        row = ReconfigurationRecord(
            broker=self._broker,
            at_us=now_us,
            outcome="done" if is_done else "dropped",
            version=0 if view is None else view.version,
            moved=len(places) if is_done else 0,
            benefit=gain if is_done else 0.0,
            price=price if is_done else 0.0,
        )
        out.append(Record(row))

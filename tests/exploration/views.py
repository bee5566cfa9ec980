"""A ring of three brokers that swap positions, in every order of messages, without a fault.

P publishes at A, and a subscription at C asks for all of it. An operator has brokers swap positions
meanwhile, so that publications are under way between two views. C may have started from its disk:
then an earlier incarnation may have had publications of its first view, and these need not arrive.
At the end all others have arrived once, in order, and nothing waits anywhere.

| play | states |
| --- | --- |
| a publication, A and B swap, then B and C | 2,884 |
| three publications, to one topic or several | 41,191; 24,462, and 33,459 if C has restarted |
| a publication to one topic, B and C swap, then A and C | 36,215 |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from shoal.broker.effects import Input, Order, Requested, Started
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Message, Publish, Subscribe
from shoal.overlays.dynatops.parameters import DynatopsParameters
from shoal.overlays.dynatops.view import View
from shoal.overlays.registry import strategy_factory
from tests.broker.transcript import advertisement, publication, subscription
from tests.exploration.disks import Disks
from tests.exploration.network import Draft, State
from tests.exploration.search import Explored, explore

NAMES = ("A", "B", "C")
PARAMETERS = DynatopsParameters(topic="class", reconfigure_us=0).for_brokers(NAMES)
# Topics of publications in turn: of several roots, and of one.
SEVERAL, ONE = "bacd", "b"
MANAGER, ENTRY, HOME = "A", "A", "C"


class SwapScript(NamedTuple):
    """The rest of a play: the number of publications, and the pairs that swap.

    `owed` are the publications that must arrive.
    """

    publications: int
    swaps: tuple[str, ...]
    owed: tuple[int, ...] = ()


class Swaps(Disks):
    """The ring, from the state in which it serves both clients."""

    def __init__(
        self, publications: int, *swaps: str, has_restarted: bool = True, topics: str = SEVERAL
    ) -> None:
        """The first publications take the first of these topics, and so on."""
        self.swaps, self.has_restarted = swaps, has_restarted
        self.topics = topics
        super().__init__(NAMES, strategy_factory("dynatops", PARAMETERS))
        self.publications = publications
        self.watchers = ["s"]
        links = (("A", "B"), ("A", "C"), ("B", "C"))
        state = self._at_rest(self.begin(links)._replace(seen=((),)))
        draft = Draft(state)
        wanted = " OR ".join(f"class = '{each}'" for each in topics)
        self._ask(draft, ENTRY, "P", Advertise(advertisement("a")))
        self._ask(draft, HOME, "S", Subscribe(subscription("s", wanted, "S")))
        draft.left = draft.left[0], SwapScript(publications, swaps)
        self.start = self._at_rest(draft.state())

    def starting(self, name: str) -> Input:
        return Started(
            facts=View(0, "", PARAMETERS.brokers).facts
            if name == HOME and self.has_restarted
            else {}
        )

    def _at_rest(self, state: State) -> State:
        """Brokers begin at once; no timer of the play fires later."""
        while after := next((each for _, each in self._anything(state)), None):
            state = after
        return state._replace(timers=())

    def _anything(self, state: State) -> Iterator[tuple[object, State]]:
        yield from self.arrivals(state)
        if state.timers and not state.timers[0].at_us:
            yield from self.timeouts(state)

    def _number(self, input: int) -> int | None:
        """No link breaks: nothing is awaited."""
        return None

    def facts(self, broker: Broker) -> dict[str, int]:
        strategy: Any = broker.strategy
        return {name: strategy.description[name] for name in ("pending", "held", "waiting")}

    def _ask(self, draft: Draft, broker: str, client: str, request: Message) -> None:
        self.take(draft, self.index[broker], self.lives.input(Requested(client, request)))

    # --- possible steps ---------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[tuple[object, State]]:
        yield from self.arrivals(state)
        world, script = state.left
        if script.publications:
            draft = Draft(state)
            number = self.publications - script.publications
            is_owed = not self.has_restarted or script.swaps != self.swaps
            owed = (*script.owed, number) if is_owed else script.owed
            draft.left = world, script._replace(publications=script.publications - 1, owed=owed)
            row = publication(number, x=0, **{"class": self.topics[number % len(self.topics)]})
            self._ask(draft, ENTRY, "P", Publish((row,)))
            yield ("P publishes", number), draft.state()
        if script.swaps:
            draft = Draft(state)
            draft.left = world, script._replace(swaps=script.swaps[1:])
            order = Order("swap", {"brokers": script.swaps[0]})
            self.take(draft, self.index[MANAGER], self.lives.input(order))
            yield ("swap", script.swaps[0]), draft.state()

    # --- judging ------------------------------------------------------------------------------

    def explore(self, most: int = 1_000_000) -> Explored:
        return explore(self.start, self.steps, self.describe, self.judge, most)

    def judge(self, state: State) -> list[str]:
        """Faults of a state without further steps."""
        seen = [sequence for _, sequence in state.seen[0]]
        is_right = seen == sorted({*seen}) and {*state.left[1].owed} <= {*seen}
        problems = [] if is_right else [f"S gets {seen}"]
        for name, life in zip(self.names, state.lives, strict=True):
            left = {key: count for key, count in self.lives.facts[life].items() if count}
            problems += [f"{name} keeps {left}"] if left else []
        return problems

"""A publisher that moves along a line of brokers while a link is exchanged.

A move and an exchange of a link for one between the first and the last broker meet in every order
of events. Either may refuse the other. In every case no publication is lost, doubled or out of
order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shoal.broker.effects import Effect
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Publish
from shoal.broker.strategy import StrategyFactory
from shoal.clients.publisher import Publisher
from tests.broker.transcript import publication
from tests.exploration.exchange_steps import LAST, Fault, RemainingScript
from tests.exploration.exchanges import LinkExchanges
from tests.exploration.moves import Facts, PublisherPart
from tests.exploration.network import Doing, Draft, State, Timer
from tests.forced_exchanges import ForcedWithMoves


class MovesAndExchanges(LinkExchanges):
    """P publishes and moves along these paths from B1; links are exchanged once, in the order of
    their names.
    """

    clients = ("C", "P")
    strategy: StrategyFactory = ForcedWithMoves

    def __init__(
        self,
        remove: int,
        moves: tuple[tuple[str, ...], ...],
        publications: int,
        fault: Fault = (),
        *,
        timely: bool = True,
    ) -> None:
        super().__init__(remove, (), fault, timely=timely)
        self.is_sure = False
        left = self.start.left._replace(publications=tuple(range(1, publications + 1)), moves=moves)
        self.start = self.start._replace(left=left)

    def facts(self, broker: Broker) -> Any:
        """Whether the broker may move P."""
        strategy: Any = broker.strategy
        is_engaged = "P" in strategy.routing.paths._paths or strategy.migrations.is_leaving("P")
        return "P" in strategy.tree.publishers and not is_engaged

    # --- the publisher ------------------------------------------------------------------------

    def further_lives(self) -> tuple[int, ...]:
        return (self.lives.born(lambda: PublisherPart(Publisher("P", self.publisher))),)

    def _ask_p(self, draft: Draft, request: object) -> None:
        self.take(draft, self.index["P"], self.lives.input(request))

    def advertise(self, draft: Draft) -> None:
        self._ask_p(draft, Advertise(self.promise))

    def publish(self, draft: Draft, sequence: int) -> None:
        self._ask_p(draft, Publish((publication(sequence),)))

    def _publisher(self, state: State) -> Facts:
        facts: Facts = self.lives.facts[state.lives[self.index["P"]]]
        return facts

    def home(self, state: State) -> str:
        return self._publisher(state).broker

    def published(self, state: State) -> list[int]:
        return [each for each in state.left.handed if each != LAST]

    # --- effects and possible steps ---------------------------------------------------------------

    def carry_out(self, draft: Draft, who: int, effect: tuple[Any, ...]) -> None:
        if effect[0] != "ask":
            super().carry_out(draft, who, effect)
            return
        _, way, number = effect
        request = self.lives.inputs[number].request
        if type(request) is Publish:
            rows = tuple(row.sequence for row in request.publications)
            draft.left = draft.left._replace(handed=(*draft.left.handed, *rows))
        draft.queues[way] += (number,)

    def fire(self, draft: Draft, timer: Timer) -> None:
        if timer.who == "P":
            self._ask_p(draft, "wakes")
        else:
            super().fire(draft, timer)

    def steps(self, state: State) -> Iterator[tuple[object, State]]:
        yield from super().steps(state)
        left: RemainingScript = state.left
        publisher = self._publisher(state)
        if left.publications:
            draft = Draft(state)
            draft.left = left._replace(publications=left.publications[1:])
            self.publish(draft, left.publications[0])
            yield ("P publishes", left.publications[0]), draft.state()
        if left.moves and publisher.broker == left.moves[0][0] and not publisher.moving:
            source = self.index[left.moves[0][0]]
            if self.lives.facts[state.lives[source]]:
                draft = Draft(state)
                draft.left = left._replace(moves=left.moves[1:])
                self.take(draft, source, self.lives.input(_reserving(left.moves[0])))
                yield ("P is to go", *left.moves[0]), draft.state()

    # --- judging ------------------------------------------------------------------------------

    def judge(self, state: State) -> list[str]:
        problems = super().judge(state)
        if self._publisher(state).moving:
            problems.append("P is still moving")
        for name in self.brokers:
            strategy: Any = self.lives.machine(state.lives[self.index[name]]).broker.strategy
            if strategy.routing.is_moving:
                problems.append(f"{name} thinks that a publisher moves")
        return problems


def _reserving(path: tuple[str, ...]) -> Doing:
    def do(broker: Broker, now_us: int) -> list[Effect]:
        out: list[Effect] = []
        strategy: Any = broker.strategy
        strategy.routing.paths.reserve("P", path, now_us, out)
        return out

    return Doing(("P", path), do)

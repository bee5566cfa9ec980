"""Every order of events in a network of two or three brokers, for any system.

A publisher at the first broker advertises and publishes twice, a subscriber at the last broker
subscribes, and the link between the last two brokers fails and comes up again. Each of the three
has its own order; between them, and beside the messages under way, any order is possible. A broker
takes requests of clients once it is ready. As live, an end of a link keeps all messages that do not
introduce from the moment the link is up until it emits `LinkReady`.

At the end, when nothing is under way, the publisher publishes once more. That publication must
reach the subscriber; each publication reaches it once at most, and they keep their order, unless a
link of a cycle fails. A broker that is not ready, or a message that is still kept back, is a fault,
and the words say which.

Timers fire when nothing else can happen, so messages are faster than any timer. A system whose
brokers open links by themselves has no such world.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from shoal.broker.effects import (
    EndLink,
    Hold,
    LinkReady,
    LinkState,
    OpenLink,
    Requested,
    Send,
    Started,
)
from shoal.broker.links.traffic import kept_without_introduction
from shoal.broker.machine import Broker
from shoal.broker.messages import Advertise, Message, Subscribe
from shoal.overlays.registry import strategy_factory
from tests.broker.transcript import advertisement, publish, subscription
from tests.exploration.machine_states import Participant
from tests.exploration.network import BrokerPart, Draft, Network, State
from tests.exploration.search import Explored, explore
from tests.systems import eager, with_cycles

PUBLISHER, SUBSCRIBER = "P", "C"
BEFORE, DURING, LAST = 0, 1, 2
# Systems with periodic timers are at rest by then, and all timeouts are over.
REST_US = 30_000_000


class SmallScript(NamedTuple):
    """The number of steps that each has taken, and the gates of links.

    gated   directions whose messages are kept unless they introduce
    kept    by direction, the messages that are kept, as numbers of inputs
    last_us when the last publication was published; -1 before
    """

    publisher: int
    subscriber: int
    link: int
    gated: frozenset[int]
    kept: tuple[tuple[int, ...], ...]
    last_us: int = -1


class SmallWorld(Network):
    """A system over two or three brokers, with cycles where its shape allows them."""

    def __init__(self, system: str, brokers: int = 2, *, link_fails: bool = True) -> None:
        names = tuple(f"B{number}" for number in range(1, brokers + 1))
        super().__init__(names, (), strategy_factory(system, eager(system, 1_000, names)))
        self.links = with_cycles(system, names, pairwise(names))
        self.has_cycle = len(self.links) >= brokers > 2
        self.first, self.last = names[0], names[-1]
        self.cut = names[-2:]
        self.changes = ("fails", "is up again") if link_fails else ()
        self.watchers = ["s"]
        self.publisher_steps = (
            Advertise(advertisement("a", publisher=PUBLISHER)),
            publish(BEFORE, publisher=PUBLISHER),
            publish(DURING, publisher=PUBLISHER),
        )
        self.subscribed = Subscribe(subscription("s", client=SUBSCRIBER))
        nothing: tuple[tuple[int, ...], ...] = ((),) * len(self.ways)
        draft = Draft(
            State(
                tuple(self.fresh(name, (), self._neighbours(name)) for name in names),
                nothing,
                frozenset(self.ways.values()),
                (),
                0,
                ((),),
                SmallScript(0, 0, 0, frozenset(), nothing),
            )
        )
        for number in range(len(names)):
            self.take(draft, number, self.lives.input(Started()))
        for left, right in self.links:
            self.join(draft, left, right)
        self.begin = draft.state()

    def _neighbours(self, name: str) -> tuple[str, ...]:
        return tuple(
            right if name == left else left for left, right in self.links if name in (left, right)
        )

    def facts(self, broker: Broker) -> Any:
        """Whether it is ready."""
        return broker.strategy.is_ready

    # --- effects ------------------------------------------------------------------------------

    def _translated(self, part: Participant, effect: Any) -> tuple[Any, ...] | None:
        if isinstance(part, BrokerPart):
            match effect:
                case Send(other, message) if (part.broker.id, other) in self.ways:
                    _, way, number = super()._translated(part, effect) or ()
                    return "sends", way, number, message.introduces
                case LinkReady(neighbour):
                    return "ready", self.ways[part.broker.id, neighbour]
                case Hold() | OpenLink() | EndLink():
                    raise NotImplementedError(f"a small world has no {type(effect).__name__}")
        return super()._translated(part, effect)

    def carry_out(self, draft: Draft, who: int, effect: tuple[Any, ...]) -> None:
        script: SmallScript = draft.left
        match effect:
            case "sends", way, _, _ if way in draft.closed:
                pass
            case "sends", way, number, introduces if introduces or way not in script.gated:
                draft.queues[way] += (number,)
            case "sends", way, number, _:
                draft.left = script._replace(kept=_added(script.kept, way, number))
            case "ready", way:
                if way not in draft.closed:
                    draft.queues[way] += script.kept[way]
                draft.left = _opened(script, way)

    def arrive(self, draft: Draft, way: int, input: int) -> None:
        message = self.lives.inputs[input]
        state = getattr(message, "state", None)
        if isinstance(state, LinkState):
            back = self.ways[self.names[self.targets[way]], message.neighbour]
            script = _opened(draft.left, back)
            if state is LinkState.UP:
                script = script._replace(gated=script.gated | {back})
            draft.left = script
        super().arrive(draft, way, input)

    # --- steps --------------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[tuple[object, State]]:
        """Messages and the script in any order; when nothing else can happen, timers."""
        possible = [*self.arrivals(state), *self._script_steps(state)]
        if possible:
            yield from possible
            return
        script: SmallScript = state.left
        limit_us = REST_US + max(0, script.last_us)
        if state.timers and state.timers[0].at_us < limit_us:
            yield from self.timeouts(state)
        elif self._is_done(script) and script.last_us < 0 and self._takes(state, self.first):
            draft = Draft(state)
            draft.left = script._replace(last_us=max(draft.now_us, 0))
            self._ask(draft, self.first, PUBLISHER, publish(LAST, publisher=PUBLISHER))
            yield ("P publishes at last",), draft.state()

    def _is_done(self, script: SmallScript) -> bool:
        ends = len(self.publisher_steps), 1, len(self.changes)
        return script[:3] == ends

    def _script_steps(self, state: State) -> Iterator[tuple[object, State]]:
        script: SmallScript = state.left
        if script.publisher < len(self.publisher_steps) and self._takes(state, self.first):
            draft = Draft(state)
            draft.left = script._replace(publisher=script.publisher + 1)
            request = self.publisher_steps[script.publisher]
            self._ask(draft, self.first, PUBLISHER, request)
            yield ("P asks", type(request).__name__), draft.state()
        if not script.subscriber and self._takes(state, self.last):
            draft = Draft(state)
            draft.left = script._replace(subscriber=1)
            self._ask(draft, self.last, SUBSCRIBER, self.subscribed)
            yield ("C subscribes",), draft.state()
        if script.link < len(self.changes):
            draft = Draft(state)
            draft.left = script._replace(link=script.link + 1)
            if self.changes[script.link] == "fails":
                self.sever(draft, *self.cut, *self.cut)
            else:
                self.join(draft, *self.cut)
            yield ("the link", *self.cut, self.changes[script.link]), draft.state()

    def _takes(self, state: State, broker: str) -> bool:
        return bool(self.lives.facts[state.lives[self.index[broker]]])

    def _ask(self, draft: Draft, broker: str, client: str, request: Message) -> None:
        self.take(draft, self.index[broker], self.lives.input(Requested(client, request)))

    # --- judge --------------------------------------------------------------------------------

    def judge(self, state: State) -> list[str]:
        """The faults of an end."""
        script: SmallScript = state.left
        found = [f"{name} is not ready" for name in self.brokers if not self._takes(state, name)]
        for ends, way in self.ways.items():
            kept = (self.lives.inputs[number].message for number in script.kept[way])
            found += [kept_without_introduction(*ends, type(each)) for each in kept]
        sequences = [sequence for _, sequence in state.seen[0]]
        if len(set(sequences)) < len(sequences):
            found.append(f"delivered twice: {sequences}")
        elif sequences != sorted(sequences) and not (self.changes and self.has_cycle):
            found.append(f"out of order: {sequences}")
        if not found and LAST not in sequences:
            found.append(f"the last publication did not reach the subscriber: {sequences}")
        return found

    def explore(self, most: int = 200_000) -> Explored:
        """All states; OverflowError if there are more than `most`."""
        return explore(self.begin, self.steps, self.describe, self.judge, most)


def _added(rows: tuple[tuple[int, ...], ...], way: int, number: int) -> tuple[tuple[int, ...], ...]:
    return (*rows[:way], (*rows[way], number), *rows[way + 1 :])


def _opened(script: SmallScript, way: int) -> SmallScript:
    """The script's gates with one that is open, and has nothing behind it."""
    kept = (*script.kept[:way], (), *script.kept[way + 1 :])
    return script._replace(gated=script.gated - {way}, kept=kept)

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

Timers fire when nothing else can happen, so messages are faster than any timer. A link that a
broker opens is up, or fails, in its place among the messages of the two ends; one that a broker has
ended goes once nothing is under way on it.

Bounds, where orders are too many. With `is_settled` the links come up in one order before anything
else happens: with one publication less, three brokers of OctopiA with a failing link have more
than 100,000 states in all orders of the start, and some 8,000 after it. A system with periodic
messages (BlueDove's gossip each second) has all orders of them anew in each second until rest: its
worlds have no publication but the last, and rest sooner.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from shoal.broker.effects import (
    EndLink,
    Hold,
    LinkChanged,
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
from shoal.overlays.registry import SYSTEMS, strategy_factory
from tests.broker.transcript import advertisement, publish, subscription
from tests.exploration.machine_states import Participant
from tests.exploration.network import BrokerPart, Draft, Network, State
from tests.exploration.search import Explored, explore
from tests.systems import eager, with_cycles

PUBLISHER, SUBSCRIBER = "P", "C"
# Above the numbers of the publications before.
LAST = 9
# Systems with periodic timers are at rest by then, and all timeouts are over.
REST_US = 30_000_000
# Systems that open links have opened them by then.
SET_UP_US = 5_000_000


Pairs = frozenset[frozenset[str]]


class SmallScript(NamedTuple):
    """The number of steps that each has taken, the gates of links, and the links.

    gated   directions whose messages are kept unless they introduce
    kept    by direction, the messages that are kept, as numbers of inputs
    last_us when the last publication was published; -1 before
    linked  pairs of brokers with a link, or with one that is about to be up
    lasting those of them, and of the broken ones, that come up again
    ending  those that a broker has ended
    is_broken whether the link that fails is down
    """

    publisher: int
    subscriber: int
    link: int
    gated: frozenset[int]
    kept: tuple[tuple[int, ...], ...]
    last_us: int = -1
    linked: Pairs = frozenset()
    lasting: Pairs = frozenset()
    ending: Pairs = frozenset()
    is_broken: bool = False


class SmallWorld(Network):
    """A system over two or three brokers, with cycles where its shape allows them."""

    def __init__(
        self,
        system: str,
        brokers: int = 2,
        *,
        link_fails: bool = True,
        is_settled: bool = False,
        publications: int = 2,
        rest_us: int = REST_US,
    ) -> None:
        """So many publications come before the last one; timers fire until `rest_us`."""
        names = tuple(f"B{number}" for number in range(1, brokers + 1))
        super().__init__(names, (), strategy_factory(system, eager(system, 1_000, names)))
        opens = SYSTEMS[system].shape.opens_links
        self.links = [] if opens else with_cycles(system, names, pairwise(names))
        self.has_cycle = opens or len(self.links) >= brokers > 2
        self.first, self.last = names[0], names[-1]
        self.cut = names[-2:]
        self.changes = ("fails", "is up again") if link_fails else ()
        self.watchers = ["s"]
        self._rest_us = rest_us
        self.publisher_steps = (
            Advertise(advertisement("a", publisher=PUBLISHER)),
            *[publish(number, publisher=PUBLISHER) for number in range(publications)],
        )
        self.subscribed = Subscribe(subscription("s", client=SUBSCRIBER))
        given = frozenset(map(frozenset, self.links))
        nothing: tuple[tuple[int, ...], ...] = ((),) * len(self.ways)
        draft = Draft(
            State(
                tuple(self.fresh(name, (), self._neighbours(name)) for name in names),
                nothing,
                frozenset(self.ways.values()),
                (),
                0,
                ((),),
                SmallScript(0, 0, 0, frozenset(), nothing, linked=given, lasting=given),
            )
        )
        for number in range(len(names)):
            self.take(draft, number, self.lives.input(Started()))
        for left, right in self.links:
            self.join(draft, left, right)
        self.begin = draft.state()
        while is_settled and (following := next(self._settling(self.begin), None)):
            self.begin = following

    def _settling(self, state: State) -> Iterator[State]:
        """Steps without choice, until the links are up and the brokers are ready."""
        for _, after in self.arrivals(state):
            yield after
        for _, after in self._ends(state):
            yield after
        is_ready = all(self._takes(state, name) for name in self.brokers)
        if not is_ready or (state.left.linked and state.now_us < SET_UP_US):
            for _, after in self.timeouts(state):
                yield after

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
                case OpenLink(neighbour, is_lasting=is_lasting):
                    return "open", neighbour, is_lasting
                case EndLink(neighbour):
                    return "end", neighbour
                case Hold():
                    raise NotImplementedError("a small world has no Hold")
        return super()._translated(part, effect)

    def carry_out(self, draft: Draft, who: int, effect: tuple[Any, ...]) -> None:
        script: SmallScript = draft.left
        match effect:
            case "open", other, is_lasting:
                pair = frozenset((self.names[who], other))
                if is_lasting:
                    script = script._replace(lasting=script.lasting | {pair})
                if script.is_broken and pair == {*self.cut}:
                    self.refuse(draft, self.names[who], other, is_lasting=pair in script.lasting)
                elif pair not in script.linked:
                    script = script._replace(linked=script.linked | {pair})
                    self.join(draft, self.names[who], other, is_lasting=is_lasting)
                draft.left = script
            case "end", other:
                pair = frozenset((self.names[who], other))
                draft.left = script._replace(
                    ending=script.ending | {pair}, lasting=script.lasting - {pair}
                )
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
        possible = [*self.arrivals(state), *self._script_steps(state), *self._ends(state)]
        if possible:
            yield from possible
            return
        script: SmallScript = state.left
        limit_us = self._rest_us + max(0, script.last_us)
        if state.timers and state.timers[0].at_us < limit_us:
            yield from self.timeouts(state)
        elif self._is_done(script) and script.last_us < 0 and self._takes(state, self.first):
            draft = Draft(state)
            draft.left = script._replace(last_us=max(draft.now_us, 0))
            self._ask(draft, self.first, PUBLISHER, publish(LAST, publisher=PUBLISHER))
            yield ("P publishes at last",), draft.state()

    def _ends(self, state: State) -> Iterator[tuple[object, State]]:
        """A link that a broker has ended goes once nothing is under way on it."""
        script: SmallScript = state.left
        for pair in sorted(script.ending, key=sorted):
            left, right = sorted(pair)
            ways = self.ways[left, right], self.ways[right, left]
            if pair in script.linked and not any(
                state.queues[way] or script.kept[way] for way in ways
            ):
                draft = Draft(state)
                draft.left = script._replace(
                    linked=script.linked - {pair}, ending=script.ending - {pair}
                )
                for source, target in ((left, right), (right, left)):
                    ended = LinkChanged(source, LinkState.ENDED)
                    draft.queues[self.ways[source, target]] += (self.lives.input(ended),)
                yield ("the link", left, right, "ends"), draft.state()

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
            self._change_link(draft, is_up=self.changes[script.link] != "fails")
            yield ("the link", *self.cut, self.changes[script.link]), draft.state()

    def _change_link(self, draft: Draft, *, is_up: bool) -> None:
        """The link fails, if there is one; or comes up again, if it is lasting."""
        script: SmallScript = draft.left
        pair = frozenset(self.cut)
        if not is_up:
            if pair in script.linked:
                is_lasting = pair in script.lasting
                self.sever(draft, *self.cut, *self.cut, is_lasting=is_lasting)
            draft.left = script._replace(
                linked=script.linked - {pair}, ending=script.ending - {pair}, is_broken=True
            )
        else:
            is_wanted = pair in script.lasting
            linked = script.linked | {pair} if is_wanted else script.linked
            draft.left = script._replace(linked=linked, is_broken=False)
            if is_wanted:
                self.join(draft, *self.cut)

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

"""Brokers and clients as pure machines, with every message under way between them visible.

A step is the arrival of the first message of any queue, a step of the script, or, when nothing is
under way, the next timer. So messages may take any time, and timers of seconds take longer.

A link that breaks loses its content; its ends notice one after the other, each in its place among
the messages of the other end. A link that comes up carries what an end sends after it has noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations
from typing import Any, NamedTuple

from shoal.broker.effects import (
    CancelTimer,
    Deliver,
    LinkChanged,
    LinkState,
    Notify,
    Received,
    Requested,
    Send,
    SetTimer,
    TimerFired,
)
from shoal.broker.machine import Broker
from shoal.broker.messages import Message
from shoal.broker.strategy import StrategyFactory
from shoal.clients.publisher import ToBroker, WakeUp
from tests.broker.transcript import describe
from tests.exploration.machine_states import MachineStates, Participant

DEAD = -1
Ends = tuple[str, str]


class FromBroker(NamedTuple):
    """Input of a client: a message of a broker."""

    broker: str
    message: Message


class Timer(NamedTuple):
    at_us: int
    who: str
    key: tuple[str, ...]


class State(NamedTuple):
    """A state of the whole network.

    lives    each participant's state, or DEAD
    queues   for each direction the messages under way, as numbers of inputs
    closed   directions whose messages are dropped
    timers   in the order in which they fire
    seen     for each observed client, what it has received
    left     the rest of the script
    """

    lives: tuple[int, ...]
    queues: tuple[tuple[int, ...], ...]
    closed: frozenset[int]
    timers: tuple[Timer, ...]
    now_us: int
    seen: tuple[tuple[Any, ...], ...]
    left: tuple[Any, ...]


class Draft:
    """A state while it is changed."""

    def __init__(self, state: State) -> None:
        self.lives = list(state.lives)
        self.queues = list(state.queues)
        self.closed = set(state.closed)
        self.timers = {timer[1:]: timer.at_us for timer in state.timers}
        self.now_us = state.now_us
        self.seen = list(state.seen)
        self.left = state.left

    def state(self) -> State:
        timers = sorted(Timer(at_us, *place) for place, at_us in self.timers.items())
        return State(
            tuple(self.lives),
            tuple(self.queues),
            frozenset(self.closed),
            tuple(timers),
            self.now_us,
            tuple(self.seen),
            self.left,
        )


class BrokerPart:
    """A broker; an input may also be a function that is called with the machine."""

    def __init__(self, broker: Broker, facts: Callable[[Broker], Any]) -> None:
        self.broker = broker
        self._facts = facts

    def take(self, input: Any, now_us: int) -> Iterable[Any]:
        if isinstance(input, Doing):
            return input.do(self.broker, now_us)
        return self.broker.handle(input, now_us)

    def facts(self) -> Any:
        return self._facts(self.broker)


class Doing(NamedTuple):
    """Input of a broker: an action that one of its parts takes by itself."""

    what: tuple[Any, ...]
    do: Callable[[Broker, int], Iterable[Any]]


class Network:
    """The participants and the effects of inputs; subclasses decide on the possible steps."""

    def __init__(
        self, brokers: tuple[str, ...], clients: tuple[str, ...], system: StrategyFactory
    ) -> None:
        self.brokers = brokers
        self.system = system
        self.names = (*brokers, *clients)
        self.index = {name: number for number, name in enumerate(self.names)}
        self.ways: dict[Ends, int] = {}
        for ends in permutations(self.names, 2):
            if ends[0] in brokers or ends[1] in brokers:
                self.ways[ends] = len(self.ways)
        self.targets = [self.index[target] for _, target in self.ways]
        self.watchers: list[str] = []
        self.lives = MachineStates(self._translate)

    def facts(self, broker: Broker) -> Any:
        """The part of a broker's state that the explorer reads."""

    def fresh(
        self, name: str, neighbours: tuple[str, ...] = (), expected: tuple[str, ...] = ()
    ) -> int:
        """A broker without any input."""
        return self.lives.born(
            lambda: BrokerPart(Broker(name, neighbours, self.system, 0, expected), self.facts)
        )

    # --- effects ------------------------------------------------------------------------------

    def _translate(self, part: Participant, effects: Iterable[Any]) -> tuple[Any, ...]:
        """Effects with directions and inputs as numbers."""
        return tuple([row for effect in effects if (row := self._translated(part, effect))])

    def _translated(self, part: Participant, effect: Any) -> tuple[Any, ...] | None:
        number = self.lives.input
        match effect, part:
            case Send(other, message), BrokerPart(broker=broker):
                return "send", self.ways[broker.id, other], number(Received(broker.id, message))
            case Notify(client, message), BrokerPart(broker=broker):
                if client not in self.index:
                    return self.other(effect)
                return "send", self.ways[broker.id, client], number(FromBroker(broker.id, message))
            case ToBroker(broker, request), _:
                client = part.facts().client
                return "ask", self.ways[client, broker], number(Requested(client, request))
            case Deliver(_, routed, subscriptions), _:
                return "saw", routed.publication.key, subscriptions
            case SetTimer(key, at_us), _:
                return "set", key, at_us
            case CancelTimer(key), _:
                return "cancel", key
            case WakeUp(at_us), _:
                return "set", ("wake",), at_us
        return self.other(effect)

    def other(self, effect: Any) -> tuple[Any, ...] | None:
        """The explorer's form of an effect that not every network has."""

    def take(self, draft: Draft, who: int, input: int) -> None:
        """Give an input to a machine."""
        step = self.lives.take(draft.lives[who], input, draft.now_us)
        draft.lives[who] = step.life
        for effect in step.effects:
            match effect:
                case "send", way, number:
                    if way not in draft.closed:
                        draft.queues[way] += (number,)
                case "saw", key, subscriptions:
                    for subscription in subscriptions:
                        watcher = self.watchers.index(subscription)
                        draft.seen[watcher] += (key,)
                case "set", key, at_us:
                    draft.timers[self.names[who], key] = at_us
                case "cancel", key:
                    draft.timers.pop((self.names[who], key), None)
                case _:
                    self.carry_out(draft, who, effect)

    def carry_out(self, draft: Draft, who: int, effect: tuple[Any, ...]) -> None:
        """Carry out an effect that not every network has."""
        raise AssertionError(effect)

    # --- possible steps ---------------------------------------------------------------------------

    def arrivals(self, state: State) -> Iterator[tuple[object, State]]:
        """The arrival of the first message of each queue."""
        for way, queue in enumerate(state.queues):
            if queue and self.arrives(state, way, queue[0]):
                draft = Draft(state)
                draft.queues[way] = queue[1:]
                self.arrive(draft, way, queue[0])
                yield ("arrives", queue[0], way), draft.state()

    def arrives(self, state: State, way: int, input: int) -> bool:
        """Whether the first message of this direction may arrive now."""
        return True

    def arrive(self, draft: Draft, way: int, input: int) -> None:
        who = self.targets[way]
        if draft.lives[who] == DEAD:
            return
        message = self.lives.inputs[input]
        if isinstance(message, LinkChanged):
            back = self.ways[self.names[who], message.neighbour]
            if message.up:
                draft.closed.discard(back)
            else:
                draft.closed.add(back)
        self.take(draft, who, input)

    def timeouts(self, state: State) -> Iterator[tuple[object, State]]:
        """The next timer, or one of the next, fires."""
        for timer in state.timers:
            if timer.at_us > state.timers[0].at_us:
                return
            draft = Draft(state)
            draft.now_us = max(draft.now_us, timer.at_us)
            del draft.timers[timer[1:]]
            self.fire(draft, timer)
            yield ("fires", timer), draft.state()

    def fire(self, draft: Draft, timer: Timer) -> None:
        self.take(draft, self.index[timer.who], self.lives.input(TimerFired(timer.key)))

    # --- faults -------------------------------------------------------------------------------

    def sever(
        self, draft: Draft, left: str, right: str, *told: str, is_lasting: bool = True
    ) -> None:
        """Lose the link's content; the given ends notice."""
        for source, target in ((left, right), (right, left)):
            way = self.ways[source, target]
            draft.closed.add(way)
            draft.queues[way] = ()
            if target in told:
                failed = LinkChanged(source, LinkState.FAILED, is_lasting)
                draft.queues[way] += (self.lives.input(failed),)

    def join(self, draft: Draft, left: str, right: str, *, is_lasting: bool = True) -> None:
        """Bring up the link: each end notices before the other's messages arrive."""
        for source, target in ((left, right), (right, left)):
            way = self.ways[source, target]
            up = LinkChanged(source, LinkState.UP, is_lasting)
            draft.queues[way] += (self.lives.input(up),)

    def refuse(self, draft: Draft, source: str, target: str, *, is_lasting: bool = True) -> None:
        """A requested link does not come up; the end that requested it notices."""
        way = self.ways[target, source]
        failed = LinkChanged(target, LinkState.FAILED, is_lasting)
        draft.queues[way] += (self.lives.input(failed),)

    def kill(self, draft: Draft, broker: str) -> None:
        """Kill a broker, with the messages under way to it and its timers."""
        draft.lives[self.index[broker]] = DEAD
        for (_, target), way in self.ways.items():
            if target == broker:
                draft.queues[way] = ()
        for place in [place for place in draft.timers if place[0] == broker]:
            del draft.timers[place]

    def steps(self, state: State) -> Iterator[tuple[object, State]]:
        """The possible next steps, with their states."""
        raise NotImplementedError

    def step(self, state: State, what: str) -> State:
        """The state after the step that these words begin."""
        found = {self.describe(each): after for each, after in self.steps(state)}
        (after,) = [found[words] for words in found if words.startswith(what)]
        return after

    # --- texts ------------------------------------------------------------------------------------

    def describe(self, what: Any) -> str:
        match what:
            case "arrives", input, way:
                source, target = list(self.ways)[way]
                return f"{source} -> {target} {_in_words(self.lives.inputs[input])}"
            case "fires", timer:
                return f"at {timer.at_us / 1e6:g} s {timer.who}: {timer.key}"
        return " ".join(map(str, what))


def _in_words(input: Any) -> str:
    """A message in the words of a transcript."""
    message = getattr(input, "message", None) or getattr(input, "request", None)
    return str(input) if message is None else describe(message)

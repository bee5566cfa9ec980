"""A client that connects to two brokers, one of which has just started, in every order of events.

The client has a session with one subscription at B1. B2 starts without knowing it. The client
connects to either broker, some times, whether or not its former connection was answered. The broker
of a connection that the client has left notices that late, or only at the end. Messages between the
brokers take any time, even longer than B2 waits for B1's list.

A client that is told of a new session subscribes to a filter of its own. A session that a broker
calls present has one of the filters that were granted: no session of a connection that the client
had left takes its place. It need not be the last one, as brokers may not know of each other. At the
end, when all has arrived, the client has such a session, and one broker has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from shoal.broker.effects import Received
from shoal.mqtt.broker_clients import BrokerClients
from shoal.mqtt.codec.packets import Connack, Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from tests.exploration.machine_states import MachineStates
from tests.exploration.search import Explored, explore
from tests.mqtt.broker_api import KEPT, SECOND, Client
from tests.mqtt.network_broker_api import Site

NAMES = ("B1", "B2")
OWNER, STARTING = range(2)
START_US = 1_000 * SECOND
# Longer than any wait for a list, a session or an answer.
REST_S = 12
# The time that a client takes to connect.
CONNECT_S = 0.001


class Links:
    """The part of a network that a `Site` knows: its own end of each link."""

    is_slow = is_settling = is_storing = True

    def __init__(self, name: str) -> None:
        self.links: dict[tuple[str, str], deque[Any]] = {
            (name, other): deque() for other in NAMES if other != name
        }


class SessionBroker:
    """One broker with the connections of the client, which are numbered in their order."""

    def __init__(self, name: str, ahead_us: int) -> None:
        self._name, self._ahead_us = name, ahead_us
        self._links: Any = Links(name)
        self._other = NAMES[1 - NAMES.index(name)]
        self._site = Site(self._links, name, (self._other,))
        self._site.now_us += ahead_us
        self._clients: dict[int, Client] = {}
        self._closed: set[int] = set()

    def take(self, input: Any, now_us: int) -> Iterable[tuple[Any, ...]]:
        site = self._site
        match input:
            case "starts":
                self._start()
            case "connects", number:
                self._clients[number] = site.open()
                self._clients[number].send(Connect("c", **KEPT))
            case "subscribes", number, topic:
                self._clients[number].subscribe(topic, qos=1)
            case "is lost", number:
                if not self._clients[number].closed:
                    self._clients[number].lose()
                    self._closed.add(number)
            case "time passes", until_us:
                site.after((until_us + self._ahead_us - site.now_us) / SECOND)
            case _:
                site.handle(input)
        return [*self._packets(), *self._sent()]

    def _start(self) -> None:
        site = self._site
        site.clients = BrokerClients(
            self._name, site.now_us, limits=site.clients.limits, networked=True
        )
        assert site.clients.federation is not None
        site.clients.federation.session_transfer.starting.others = lambda: (self._other,)
        site.carry_out(site.clients.take_effects())

    def _packets(self) -> Iterator[tuple[Any, ...]]:
        for number, client in self._clients.items():
            for packet in client.take():
                if type(packet) is Connack and packet.reason_code is ReasonCode.SUCCESS:
                    yield "admitted", number, packet.session_present, self.subscriptions()
            if client.closed and number not in self._closed:
                self._closed.add(number)
                yield "closed", number

    def _sent(self) -> Iterator[tuple[Any, ...]]:
        for link in self._links.links.values():
            while link:
                yield "send", link.popleft()

    def subscriptions(self) -> tuple[str, ...] | None:
        """The filters of the client's session; None without one that stays here."""
        session = self._site.clients.sessions.get("c")
        if session is None or session.going is not None:
            return None
        return tuple(sorted(session.subscriptions))

    def facts(self) -> tuple[str, ...] | None:
        return self.subscriptions()


class SessionState(NamedTuple):
    """A state of the brokers, their links and the client.

    lives     of each broker
    queues    to each broker, the messages under way, as numbers of inputs
    now_us    time, in microseconds since the start
    connects  the brokers to which the client has still to connect; None is either
    passes    the times that are still to pass, in seconds
    numbers   the number of connections so far
    current   the client's broker and connection; None while it has none
    left      connections that the client has left, and of which their brokers do not know it
    granted   the filters that were granted
    fault     the first broken promise
    """

    lives: tuple[int, int]
    queues: tuple[tuple[int, ...], tuple[int, ...]]
    now_us: int
    connects: tuple[int | None, ...]
    passes: tuple[float, ...]
    numbers: int = 1
    current: tuple[int, int] | None = (OWNER, 0)
    left: tuple[tuple[int, int], ...] = ()
    granted: tuple[str, ...] = ()
    fault: str = ""


class SessionMoves:
    """Some connects of the client, and some pauses; B2's clock is ahead by so much."""

    def __init__(
        self,
        connects: tuple[int | None, ...],
        passes: tuple[float, ...],
        *,
        ahead_us: int = 0,
        hears: bool = False,
    ) -> None:
        """With `hears` a broker notices at once that the client has hung up."""
        self._hears = hears
        self.lives = MachineStates(self._translate)
        born = tuple(
            self.lives.born(lambda name=name, us=us: SessionBroker(name, us))  # type: ignore[misc]
            for name, us in zip(NAMES, (0, ahead_us), strict=True)
        )
        state = SessionState((born[0], born[1]), ((), ()), START_US, connects, passes)
        for who in range(2):  # what each says as it begins
            state = self._take(state, who, ("time passes", START_US))
        state = self._rest(state, 2)
        state = self._take(state, OWNER, ("connects", 0))
        state = self._rest(state, 2)
        self.start = self._take(state, STARTING, "starts")

    def _translate(self, part: SessionBroker, effects: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(
            ("send", self.lives.input(Received(part._name, effect[1])))
            if effect[0] == "send"
            else effect
            for effect in effects
        )

    def _take(self, state: SessionState, who: int, input: Any) -> SessionState:
        step = self.lives.take(state.lives[who], self.lives.input(input), state.now_us)
        lives, queues = list(state.lives), list(state.queues)
        lives[who] = step.life
        queues[1 - who] += tuple(each[1] for each in step.effects if each[0] == "send")
        state = state._replace(lives=(lives[0], lives[1]), queues=(queues[0], queues[1]))
        for effect in step.effects:
            match effect:
                case "closed", number:
                    left = tuple(each for each in state.left if each != (who, number))
                    current = None if state.current == (who, number) else state.current
                    state = state._replace(left=left, current=current)
                case "admitted", number, present, filters if state.current == (who, number):
                    if not present:
                        granted = f"a{number}"
                        state = state._replace(granted=(*state.granted, granted))
                        state = self._take(state, who, ("subscribes", number, granted))
                    elif not _is_among(filters, state.granted):
                        fault = f"{NAMES[who]} says present, with {filters}, not {state.granted}"
                        state = state._replace(fault=state.fault or fault)
        return state

    # --- possible steps ---------------------------------------------------------------------------

    def steps(self, state: SessionState) -> Iterator[tuple[object, SessionState]]:
        if state.fault:
            return
        for who in range(2):
            if state.queues[who]:
                yield ("arrives", state.queues[who][0]), self._arrive(state, who)
            if state.connects and state.connects[0] in (who, None):
                yield f"c connects to {NAMES[who]}", self._connect(state, who)
        for who, number in state.left:
            yield f"{NAMES[who]} notices that c has left", self._lose(state, who, number)
        if state.passes:
            after = state._replace(passes=state.passes[1:])
            yield f"{state.passes[0]} s pass", self._pass(after, state.passes[0])

    def _arrive(self, state: SessionState, who: int) -> SessionState:
        queues = list(state.queues)
        first, queues[who] = queues[who][0], queues[who][1:]
        state = state._replace(queues=(queues[0], queues[1]))
        return self._take(state, who, self.lives.inputs[first])

    def _connect(self, state: SessionState, who: int) -> SessionState:
        state = self._pass(state, CONNECT_S)
        left, former = state.left, state.current
        number = state.numbers
        state = state._replace(
            connects=state.connects[1:],
            numbers=number + 1,
            current=(who, number),
            left=left if former is None else (*left, former),
        )
        if former is not None and self._hears:
            state = self._lose(state, *former)
        return self._take(state, who, ("connects", number))

    def _lose(self, state: SessionState, who: int, number: int) -> SessionState:
        left = tuple(each for each in state.left if each != (who, number))
        return self._take(state._replace(left=left), who, ("is lost", number))

    def _pass(self, state: SessionState, seconds: float) -> SessionState:
        state = state._replace(now_us=state.now_us + round(seconds * SECOND))
        for who in range(2):
            state = self._take(state, who, ("time passes", state.now_us))
        return state

    def _rest(self, state: SessionState, seconds: int) -> SessionState:
        """Let everything arrive, for so long, in ever longer steps."""
        step_s, until_us = 0.1, state.now_us + seconds * SECOND
        while state.now_us < until_us:
            while any(state.queues):
                for who in range(2):
                    if state.queues[who]:
                        state = self._arrive(state, who)
            state, step_s = self._pass(state, step_s), 2 * step_s
        return state

    # --- judging ------------------------------------------------------------------------------

    def explore(self) -> Explored:
        return explore(self.start, self.steps, self._describe, self.judge)

    def judge(self, state: SessionState) -> list[str]:
        """Faults of a state in which nothing more happens by itself."""
        for who, number in state.left:
            state = self._lose(state, who, number)
        state = self._rest(state, REST_S)
        for attempt in range(6):
            if state.current is not None:
                break
            state = self._rest(self._connect(state, attempt % 2), REST_S)
        if state.fault:
            return [state.fault]
        if state.current is None:
            return ["c does not get its session"]
        here, there = state.current[0], 1 - state.current[0]
        facts = [self.lives.facts[state.lives[who]] for who in (here, there)]
        if facts[1] is not None or not _is_among(facts[0], state.granted):
            return [f"c is at {NAMES[here]}, the sessions have {facts}, not {state.granted}"]
        return []

    def _describe(self, what: Any) -> str:
        if isinstance(what, str):
            return what
        received = self.lives.inputs[what[1]]
        return f"{received.neighbour} -> {received.message}"[:400]


def _is_among(filters: tuple[str, ...] | None, granted: tuple[str, ...]) -> bool:
    return filters is not None and len(filters) == 1 and filters[0] in granted

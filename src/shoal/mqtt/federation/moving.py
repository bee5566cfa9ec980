"""Clients that are sent to other brokers: one by one (`move`), or all of a broker (`drain`).

A client is sent to no broker before that one has said that it may come: it lives, has room and is
not being emptied itself.  Nor before it has the answers to what it has published; until then no
more is taken from it.  Its session follows it as ever (see `roaming`): its broker keeps it, and
collects for it, until the other has all of it.  So nothing is lost, and no will is published.

| state | hears or sees | does → state |
| --- | --- | --- |
| coming | it is to move, and its session is here by now | → as one that is here |
| here | it is to move, and follows | Coming → asked |
| asked | Welcome | takes no more from the client → leaving |
| asked | Welcome, with a problem, or nothing | → here |
| leaving | all is answered | tells the client where to go → told |
| leaving | ANSWERS_US over | → here |
| told | the other broker has asked for its session | → gone |
| told | the client has come back, or comes nowhere | → here |

Only a client that follows can be moved (`$follow`): another would come back to where it was.  A
broker that is drained lets those go with a word (0x9C), once they have their answers, takes nobody
in, and hands over sessions whose clients are away (see `evacuating`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence

from shoal.model import BrokerId
from shoal.mqtt.access import Admission
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.door.network import Door
from shoal.mqtt.federation.controls import Coming, Control, Welcome, encode_control
from shoal.mqtt.federation.evacuating import Evacuating
from shoal.mqtt.federation.roaming.roaming import Roaming
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import MOVING_US, Sessions
from shoal.mqtt.timers import Timers

HOUR_US = 3_600 * MICROSECONDS
# A broker that may be sent clients says so at once; what a client has published is settled soon.
WELCOME_US = 2 * MICROSECONDS
ANSWERS_US = 5 * MICROSECONDS
# How often it is seen how far clients are that move; and who is still there when all must go.
LOOK_US = MICROSECONDS // 50
DRAINING_US = MICROSECONDS // 2
# Clients that are sent away at once: the others go on being served.
AT_ONCE = 100
# Sessions that are looked at for clients that must go, at once: some 2 ms.
MOST_SEEN = 10_000
# A broker that takes no clients for now is asked again after this.
UNWELCOME_US = 5 * MICROSECONDS

MOVING_TIMER = "moving"

DRAINED = "the broker is being drained"

Done = Callable[[str], None]


# Where clients can be sent: brokers' addresses by the kind of listener that a client came by.
Servers = Mapping[BrokerId, Mapping[str, str]]


class _Order:
    """A client that is to go to another broker.  `done` hears why it has not, or nothing."""

    def __init__(
        self, client_id: str, broker: BrokerId, reason: str, until_us: int, done: Done
    ) -> None:
        self.client_id = client_id
        self.broker = broker
        self.reason = reason
        self.until_us = until_us
        self.done = done
        self.is_welcome = self.is_told = False


class Moving:
    """One broker's part.  `full` says why no client may be sent here; empty if one may.

    `servers` are where clients can be sent, as the driver knows it; each goes to a listener of the
    kind that it came by.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        door: Door,
        timers: Timers,
        roaming: Roaming,
        evacuating: Evacuating,
        full: Callable[[int], str],
    ) -> None:
        self.servers: Servers = {}
        self.is_draining = False
        # Why somebody is still here though all must go; empty if nobody knows of anything.
        self.problem = ""
        # What became of clients that were to move: "moved", "stayed", "let go".
        self.counts: Counter[str] = Counter()
        self._broker_id = broker_id
        self._sessions = sessions
        self._door = door
        self._timers = timers
        self._roaming = roaming
        self._evacuating = evacuating
        self._full = full
        self._orders: dict[str, _Order] = {}
        # Orders for clients whose sessions are still coming here: given again until they are.
        self._coming: list[Callable[[int], None]] = []
        # Who may come here, until when, and when each was moved; in the order of that time.
        self._promised: OrderedDict[str, tuple[int, tuple[int, ...]]] = OrderedDict()
        # Whose sessions are still to be looked at, of those that must go.
        self._left: Iterator[str] | None = None
        self._takers: Callable[[], Sequence[BrokerId]] = tuple
        self._asked = 0
        self._unwelcome: dict[BrokerId, int] = {}

    @property
    def under_way(self) -> int:
        """How many clients are about to go."""
        return len(self._orders)

    # --- one client -----------------------------------------------------------------------------

    def move(
        self,
        client_id: str,
        broker: BrokerId,
        now_us: int,
        done: Done,
        reason: str,
    ) -> None:
        """Send a client to a broker; `done` hears why that cannot be, or nothing once it is there.

        The `reason` is for the client.  It may be moved `maximum_moves_per_hour` (see `Limits`)
        times at most, wherever it was then.  One that is just coming here goes once it is here.
        """
        if self._roaming.fetching.journey(client_id) is not None:
            self._coming.append(lambda at_us: self.move(client_id, broker, at_us, done, reason))
            self._look_soon(now_us)
            return
        problem = self._why_not(client_id, broker, now_us)
        if problem:
            if self._here(client_id)[1] is not None:
                self.counts["stayed"] += 1
            done(problem)
        else:
            self._ask(client_id, broker, reason, now_us, done)
            self._look_soon(now_us)

    def _why_not(self, client_id: str, broker: BrokerId, now_us: int) -> str:
        session, connection = self._here(client_id)
        if session is None or connection is None:
            return f"{client_id} is not connected to {self._broker_id}"
        if broker == self._broker_id:
            return f"{client_id} is there already"
        if client_id in self._orders:
            return f"{client_id} is on its way already"
        if broker not in self.servers:
            return f"no broker {broker} is known that clients can be sent to"
        if (kind := connection.credentials.listener) not in self.servers[broker]:
            return f"{client_id} came by {kind}, and {broker} has no such listener to be sent to"
        if not connection.follows:
            return (
                f"{client_id} does not go where it is sent, and would come back to "
                f"{self._broker_id}; shoal.Client goes, and clients of MQTT 5 that say $follow "
                "when they connect"
            )
        most = self._sessions.limits.maximum_moves_per_hour
        if len(_recent(session, now_us)) >= most:
            return f"{client_id} has moved {most} times within an hour; more is not allowed"
        return ""

    def _here(self, client_id: str) -> tuple[Session | None, ClientConnection | None]:
        session = self._sessions.get(client_id)
        outlet = session.outlet if session is not None else None
        return session, outlet.connection if outlet is not None else None

    def _ask(self, client_id: str, broker: BrokerId, reason: str, now_us: int, done: Done) -> None:
        session = self._sessions[client_id]
        self._orders[client_id] = _Order(client_id, broker, reason, now_us + WELCOME_US, done)
        moved_us = (*_recent(session, now_us), now_us)
        entered_us, user = session.entered_us, session.user
        self._say(broker, Coming(client_id, self._broker_id, entered_us, user, moved_us), now_us)

    def _say(self, to: BrokerId, control: Control, now_us: int) -> None:
        self._door.send(to, encode_control(control), now_us)

    # --- how far they are -----------------------------------------------------------------------

    def due(self, now_us: int) -> None:
        """Time to look."""
        coming, self._coming = self._coming, []
        for move_again in coming:
            move_again(now_us)
        for order in list(self._orders.values()):
            self._look_at(order, now_us)
        if self.is_draining:
            self._send_some_away(now_us)
        if self._orders or self._coming or self.is_draining:
            is_soon = self._orders or self._coming or self._left is not None
            wait_us = LOOK_US if is_soon else DRAINING_US
            self._timers.set((MOVING_TIMER, ()), now_us + wait_us)

    def _look_soon(self, now_us: int) -> None:
        self._timers.set((MOVING_TIMER, ()), now_us + LOOK_US)

    def _look_at(self, order: _Order, now_us: int) -> None:
        session, connection = self._here(order.client_id)
        if order.is_told:
            self._look_for(order, session, connection, now_us)
        elif connection is None:
            self._end(order, f"{order.client_id} has gone by itself")
        elif not order.is_welcome:
            if now_us >= order.until_us:
                self._is_unwelcome(order, "it does not answer", now_us)
        elif not connection.owes:
            assert session is not None
            self._tell(order, session, connection, now_us)
        elif now_us >= order.until_us:
            connection.is_moving = False
            self._end(order, f"what {order.client_id} has published is not settled")

    def _tell(
        self, order: _Order, session: Session, connection: ClientConnection, now_us: int
    ) -> None:
        server = self.servers.get(order.broker, {}).get(connection.credentials.listener)
        if not connection.follows:
            code = ReasonCode.USE_ANOTHER_SERVER
            connection.disconnect(code, order.reason, now_us, server)
            self._end(order, "", "let go")
        elif server is None:
            connection.is_moving = False
            self._end(order, f"{order.broker} has left")
        else:
            session.moved_us = (*_recent(session, now_us), now_us)
            order.is_told, order.until_us = True, now_us + MOVING_US
            connection.go_elsewhere(server, order.reason, now_us)

    def _look_for(
        self,
        order: _Order,
        session: Session | None,
        connection: ClientConnection | None,
        now_us: int,
    ) -> None:
        """Where a client is that was told to go."""
        client_id = order.client_id
        going = self._roaming.going(client_id)
        if going is not None:
            problem = "" if going == order.broker else f"{client_id} went to {going} instead"
            self._end(order, problem)
        elif connection is not None:
            self._end(order, f"{client_id} has come back")
        elif session is None:
            self._end(order, f"the session of {client_id} has ended")
        elif now_us >= order.until_us:
            self._end(order, f"{client_id} was told to go, and has not come there")

    def _is_unwelcome(self, order: _Order, problem: str, now_us: int) -> None:
        self._unwelcome[order.broker] = now_us + UNWELCOME_US
        self._end(order, f"{order.broker} takes no clients: {problem}")

    def _end(self, order: _Order, problem: str, outcome: str = "") -> None:
        del self._orders[order.client_id]
        self.counts[outcome or ("stayed" if problem else "moved")] += 1
        order.done(problem)

    # --- what brokers say -----------------------------------------------------------------------

    def hear(self, control: Coming | Welcome, now_us: int) -> None:
        """Another broker asks whether a client may come, or answers."""
        if isinstance(control, Coming):
            problem = DRAINED if self.is_draining else self._full(now_us)
            if not problem:
                self._promised.pop(control.client_id, None)
                self._promised[control.client_id] = (now_us + MOVING_US, control.moved_us)
                self._roaming.is_at(
                    control.client_id, control.broker, control.entered_us, control.user
                )
            welcome = Welcome(control.client_id, self._broker_id, problem)
            self._say(control.broker, welcome, now_us)
            return
        order = self._orders.get(control.client_id)
        if order is None or order.is_welcome or order.broker != control.broker:
            return
        _, connection = self._here(order.client_id)
        if control.problem:
            self._is_unwelcome(order, control.problem, now_us)
        elif connection is not None:
            order.is_welcome, order.until_us = True, now_us + ANSWERS_US
            connection.is_moving = True
            self._look_at(order, now_us)

    def promised(self, now_us: int) -> int:
        """How many clients may come that have not."""
        while self._promised and next(iter(self._promised.values()))[0] <= now_us:
            self._promised.popitem(last=False)
        return len(self._promised)

    def entered(self, session: Session) -> None:
        """A client was let in, perhaps one that was sent here."""
        promise = self._promised.pop(session.client_id, None)
        if promise is not None:
            _, session.moved_us = promise

    # --- all clients ----------------------------------------------------------------------------

    def drain(self, takers: Callable[[], Sequence[BrokerId]], now_us: int) -> None:
        """Send all clients away and take nobody in; `takers` may be given them, best first."""
        self.is_draining, self._takers, self.problem, self._left = True, takers, "", None
        self._evacuating.begin(takers, now_us)
        self._look_soon(now_us)

    def undrain(self) -> None:
        """Take clients in again; those that are on their way go on."""
        self.is_draining, self.problem = False, ""
        self._evacuating.end()

    def refusal(self, listener: str) -> Admission:
        """What a client is told that connects to a broker which is drained."""
        broker = next(self._next_takers(listener, 0), None)
        server = None if broker is None else self.servers[broker][listener]
        return Admission(ReasonCode.USE_ANOTHER_SERVER, reason=DRAINED, server=server)

    def _next_takers(self, listener: str, now_us: int) -> Iterator[BrokerId]:
        """Brokers that may take a client at such a listener, each time another first."""
        takers = [each for each in self._takers() if listener in self.servers.get(each, {})]
        self._asked += 1
        for number in range(len(takers)):
            taker = takers[(self._asked + number) % len(takers)]
            if self._unwelcome.get(taker, 0) <= now_us or not now_us:
                yield taker

    def _send_some_away(self, now_us: int) -> None:
        """Of all clients in turn, and again until nobody is here."""
        if self._left is None:
            self._left = iter(self._sessions.client_ids())
        for _ in range(MOST_SEEN):
            if len(self._orders) >= AT_ONCE:
                return
            client_id = next(self._left, None)
            if client_id is None:
                self._left = None
                return
            session, connection = self._here(client_id)
            if session is not None and connection is not None and client_id not in self._orders:
                self._send_away(session, connection, now_us)

    def _send_away(self, session: Session, connection: ClientConnection, now_us: int) -> None:
        taker = next(self._next_takers(connection.credentials.listener, now_us), None)
        if not connection.follows:
            self._let_go(session, connection, taker, now_us)
        elif taker is not None:
            self._ask(session.client_id, taker, DRAINED, now_us, self._said)
        elif not self.problem:
            self.problem = f"no broker is known with a listener {connection.credentials.listener}"

    def _let_go(
        self,
        session: Session,
        connection: ClientConnection,
        taker: BrokerId | None,
        now_us: int,
    ) -> None:
        """A client that does not follow goes as soon as it has its answers."""
        order = _Order(session.client_id, taker or "", DRAINED, now_us + ANSWERS_US, self._said)
        order.is_welcome = connection.is_moving = True
        self._orders[session.client_id] = order
        self._look_at(order, now_us)

    def _said(self, problem: str) -> None:
        """What became of a client that had to go; if it stays, it is asked to go again."""
        self.problem = problem


def _recent(session: Session, now_us: int) -> tuple[int, ...]:
    """When a client was sent to another broker, within the last hour."""
    return tuple(at_us for at_us in session.moved_us if now_us - at_us < HOUR_US)

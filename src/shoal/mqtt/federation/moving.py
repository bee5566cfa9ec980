"""Redirects clients to other brokers: one by one (`move`), or all of a broker (`drain`).

The broker redirects a client when the target has answered that it may come: the target is alive,
has room and is not drained itself; and when the client has the acknowledgements of its
publications, until which its input is suspended. The session follows as in any transfer (see
`session_transfer`): the source keeps it, and collects for it, until the target has all of it. So
nothing is lost, and no will is published.

| state | hears or sees | does → state |
| --- | --- | --- |
| coming | an order, and the session has come | → as a client that is here |
| here | an order, for a client that follows | Coming → asked |
| asked | FederationWelcome | suspends the client's input → leaving |
| asked | FederationWelcome, with a problem, or nothing | → here |
| leaving | all is acknowledged | redirects the client → told |
| leaving | ANSWERS_US over | → here |
| told | the target has requested the session | → gone |
| told | the client has come back, or connects nowhere | → here |

Only a client that follows redirects can be moved (`$follow`): another would return to its former
broker. A broker that is drained disconnects the others (0x9C) after their acknowledgements, admits
no client, and hands over the sessions of disconnected clients (see `evacuating`).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence

from shoal.model import BrokerId
from shoal.mqtt.access import ClientAdmission
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import Coming, Control, FederationWelcome, encode_control
from shoal.mqtt.federation.evacuating import Evacuating
from shoal.mqtt.federation.session_transfer.session_transfer import SessionTransfer
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.sessions.sessions import MOVING_US, Sessions
from shoal.mqtt.timers import MqttTimers

HOUR_US = 3_600 * MICROSECONDS
# Timeouts of the target's answer, and of the client's acknowledgements.
WELCOME_US = 2 * MICROSECONDS
ANSWERS_US = 5 * MICROSECONDS
# The interval of checks of moving clients; and of all clients while the broker is drained.
LOOK_US = MICROSECONDS // 50
DRAINING_US = MICROSECONDS // 2
# Clients that are redirected at the same time: the others stay served.
AT_ONCE = 100
# Sessions that one time slice checks for clients to redirect: some 2 ms.
MOST_SEEN = 10_000
# The pause before a target that refused clients is asked again.
UNWELCOME_US = 5 * MICROSECONDS

MOVING_TIMER = "moving"

DRAINED = "the broker is being drained"

Done = Callable[[str], None]


# Possible targets: brokers' addresses by the kind of listener of the client's connection.
Servers = Mapping[BrokerId, Mapping[str, str]]


class _Order:
    """An order to move a client. `done` gets the reason why it stayed, or an empty text."""

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
    """Moves the clients of one broker. `full` returns the reason to refuse redirected clients.

    `servers` are the possible targets, set by the driver; each client goes to a listener of the
    same kind as its own.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        front_end: FrontEnd,
        timers: MqttTimers,
        session_transfer: SessionTransfer,
        evacuating: Evacuating,
        full: Callable[[int], str],
    ) -> None:
        self.servers: Servers = {}
        self.is_draining = False
        # The reason why clients stay although the broker is drained; empty if none is known.
        self.problem = ""
        # Outcomes of moved clients: "moved", "stayed", "let go".
        self.counts: Counter[str] = Counter()
        self._broker_id = broker_id
        self._sessions = sessions
        self._front_end = front_end
        self._timers = timers
        self._session_transfer = session_transfer
        self._evacuating = evacuating
        self._full = full
        self._orders: dict[str, _Order] = {}
        # Orders for clients whose sessions are still incoming: repeated until they are here.
        self._coming: list[Callable[[int], None]] = []
        # Clients expected here, with the expiry and their earlier redirects; in the order of
        # expiry.
        self._promised: OrderedDict[str, tuple[int, tuple[int, ...]]] = OrderedDict()
        # The client identifiers that this round of the drain has still to check.
        self._left: Iterator[str] | None = None
        self._takers: Callable[[], Sequence[BrokerId]] = tuple
        self._asked = 0
        self._unwelcome: dict[BrokerId, int] = {}

    @property
    def under_way(self) -> int:
        """The number of clients with an open order."""
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
        """Move a client to a broker; `done` gets the reason why it cannot, or "" when it is there.

        The `reason` is sent to the client. A client may be moved `maximum_moves_per_hour` times
        (see `MqttLimits`), over all brokers. A client whose session is incoming moves afterwards.
        """
        if self._session_transfer.fetching.transfer(client_id) is not None:
            self._coming.append(lambda at_us: self.move(client_id, broker, at_us, done, reason))
            self._look_soon(now_us)
            return
        problem = self._why_not(client_id, broker, now_us)
        if problem:
            if self._here(client_id)[1] is not None:
                self.counts["stayed"] += 1
            done(problem)
        else:
            self._offer_client(client_id, broker, reason, now_us, done)
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
            return f"no broker {broker} is known to which clients can be redirected"
        if (kind := connection.credentials.listener) not in self.servers[broker]:
            return f"{client_id} is connected by {kind}, and {broker} has no such listener"
        if not connection.follows:
            return (
                f"{client_id} does not follow redirects, and would return to "
                f"{self._broker_id}; shoal.Client does, and clients of MQTT 5 with $follow in "
                "their CONNECT"
            )
        most = self._sessions.limits.maximum_moves_per_hour
        if len(_recent(session, now_us)) >= most:
            return f"{client_id} has moved {most} times within an hour; more is not allowed"
        return ""

    def _here(self, client_id: str) -> tuple[Session | None, ClientConnection | None]:
        session = self._sessions.get(client_id)
        session_writer = session.session_writer if session is not None else None
        return session, session_writer.connection if session_writer is not None else None

    def _offer_client(
        self, client_id: str, broker: BrokerId, reason: str, now_us: int, done: Done
    ) -> None:
        session = self._sessions[client_id]
        self._orders[client_id] = _Order(client_id, broker, reason, now_us + WELCOME_US, done)
        moved_us = (*_recent(session, now_us), now_us)
        entered_us, user = session.entered_us, session.user
        self._send_move_control(
            broker, Coming(client_id, self._broker_id, entered_us, user, moved_us), now_us
        )

    def _send_move_control(self, to: BrokerId, control: Control, now_us: int) -> None:
        self._front_end.send(to, encode_control(control), now_us)

    # --- progress -------------------------------------------------------------------------------

    def check_orders(self, now_us: int) -> None:
        """Check all orders, and the drain."""
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
            self._end_order(order, f"{order.client_id} has gone by itself")
        elif not order.is_welcome:
            if now_us >= order.until_us:
                self._is_unwelcome(order, "it does not answer", now_us)
        elif not connection.owes:
            assert session is not None
            self._redirect_client(order, session, connection, now_us)
        elif now_us >= order.until_us:
            connection.is_moving = False
            self._end_order(order, f"publications of {order.client_id} are not settled")

    def _redirect_client(
        self, order: _Order, session: Session, connection: ClientConnection, now_us: int
    ) -> None:
        server = self.servers.get(order.broker, {}).get(connection.credentials.listener)
        if not connection.follows:
            code = ReasonCode.USE_ANOTHER_SERVER
            connection.disconnect(code, order.reason, now_us, server)
            self._end_order(order, "", "let go")
        elif server is None:
            connection.is_moving = False
            self._end_order(order, f"{order.broker} has left")
        else:
            session.moved_us = (*_recent(session, now_us), now_us)
            order.is_told, order.until_us = True, now_us + MOVING_US
            connection.send_redirect(server, order.reason, now_us)

    def _look_for(
        self,
        order: _Order,
        session: Session | None,
        connection: ClientConnection | None,
        now_us: int,
    ) -> None:
        """Find out where a redirected client is."""
        client_id = order.client_id
        going = self._session_transfer.going(client_id)
        if going is not None:
            problem = "" if going == order.broker else f"{client_id} went to {going} instead"
            self._end_order(order, problem)
        elif connection is not None:
            self._end_order(order, f"{client_id} has come back")
        elif session is None:
            self._end_order(order, f"the session of {client_id} has ended")
        elif now_us >= order.until_us:
            self._end_order(order, f"{client_id} was redirected, and has not connected there")

    def _is_unwelcome(self, order: _Order, problem: str, now_us: int) -> None:
        self._unwelcome[order.broker] = now_us + UNWELCOME_US
        self._end_order(order, f"{order.broker} takes no clients: {problem}")

    def _end_order(self, order: _Order, problem: str, outcome: str = "") -> None:
        del self._orders[order.client_id]
        self.counts[outcome or ("stayed" if problem else "moved")] += 1
        order.done(problem)

    # --- controls -------------------------------------------------------------------------------

    def on_control(self, control: Coming | FederationWelcome, now_us: int) -> None:
        """Handle the question whether a client may come, or the answer to one."""
        if isinstance(control, Coming):
            problem = DRAINED if self.is_draining else self._full(now_us)
            if not problem:
                self._promised.pop(control.client_id, None)
                self._promised[control.client_id] = (now_us + MOVING_US, control.moved_us)
                self._session_transfer.is_at(
                    control.client_id, control.broker, control.entered_us, control.user
                )
            welcome = FederationWelcome(control.client_id, self._broker_id, problem)
            self._send_move_control(control.broker, welcome, now_us)
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
        """The number of clients that are expected and have not come."""
        while self._promised and next(iter(self._promised.values()))[0] <= now_us:
            self._promised.popitem(last=False)
        return len(self._promised)

    def entered(self, session: Session) -> None:
        """A client was admitted, perhaps an expected one."""
        promise = self._promised.pop(session.client_id, None)
        if promise is not None:
            _, session.moved_us = promise

    # --- all clients ----------------------------------------------------------------------------

    def drain(self, takers: Callable[[], Sequence[BrokerId]], now_us: int) -> None:
        """Redirect all clients and admit none; `takers` are the targets, the best first."""
        self.is_draining, self._takers, self.problem, self._left = True, takers, "", None
        self._evacuating.begin(takers, now_us)
        self._look_soon(now_us)

    def undrain(self) -> None:
        """Admit clients again; open orders continue."""
        self.is_draining, self.problem = False, ""
        self._evacuating.end()

    def refusal(self, listener: str) -> ClientAdmission:
        """The answer to a client that connects while the broker is drained."""
        broker = next(self._next_takers(listener, 0), None)
        server = None if broker is None else self.servers[broker][listener]
        return ClientAdmission(ReasonCode.USE_ANOTHER_SERVER, reason=DRAINED, server=server)

    def _next_takers(self, listener: str, now_us: int) -> Iterator[BrokerId]:
        """Possible targets for a kind of listener, beginning with another one each time."""
        takers = [each for each in self._takers() if listener in self.servers.get(each, {})]
        self._asked += 1
        for number in range(len(takers)):
            taker = takers[(self._asked + number) % len(takers)]
            if self._unwelcome.get(taker, 0) <= now_us or not now_us:
                yield taker

    def _send_some_away(self, now_us: int) -> None:
        """Redirect some clients, in rounds over all sessions."""
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
            self._offer_client(session.client_id, taker, DRAINED, now_us, self._said)
        elif not self.problem:
            self.problem = (
                f"no broker is known with a listener for {connection.credentials.listener}"
            )

    def _let_go(
        self,
        session: Session,
        connection: ClientConnection,
        taker: BrokerId | None,
        now_us: int,
    ) -> None:
        """Disconnect a client that does not follow redirects, after its acknowledgements."""
        order = _Order(session.client_id, taker or "", DRAINED, now_us + ANSWERS_US, self._said)
        order.is_welcome = connection.is_moving = True
        self._orders[session.client_id] = order
        self._look_at(order, now_us)

    def _said(self, problem: str) -> None:
        """Note the outcome of a client of the drain; one that stays is redirected again."""
        self.problem = problem


def _recent(session: Session, now_us: int) -> tuple[int, ...]:
    """The times of a client's redirects within the last hour."""
    return tuple(at_us for at_us in session.moved_us if now_us - at_us < HOUR_US)

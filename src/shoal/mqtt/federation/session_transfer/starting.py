"""Unknown clients of a broker that has just started, and so may not know all sessions.

A session may have begun, or moved, elsewhere while this broker was down. Admitting its client with
a new session would end that session. So a client that this broker does not know, and that does not
say clean start, waits until every other broker has sent its session list (`Several`, in numbered
parts, as in some systems later messages may arrive sooner), or until START_US after the start, or
after the end of the join of a new broker, which hears nothing before. Then a silent broker counts
as having no sessions, unless it is connected: a system may carry no messages for a while, as a
third broker is down. A connected broker counts so if it is silent for `silent_broker_s`. Before
that, another broker is asked for all sessions of a silent broker, which may be down, and all are
asked about the waiting clients.

| hears or sees | does |
| --- | --- |
| an unknown client connects, a list is missing | the client waits |
| its session is known elsewhere by now | requests it (see `fetching`) |
| SOUGHT_US over, a list is missing | OwnersSought, to a broker with a complete list |
| SOUGHT_US over, it waits | Sought, to all |
| OwnersKnown | records the owners whose own list is missing |
| a broker leaves | counts its list as complete, until it is back; then asks for its list |
| the last list has come | admits the waiting clients |
| START_US over, no list of a connected broker is missing | the same |
| the client has waited nearly as long as it may | refuses it (0x88) |
| it connects again, here or elsewhere | closes the connection that waited |
| it hangs up | forgets it |
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import NamedTuple

from shoal.model import BrokerId
from shoal.mqtt.access import ClientAdmission
from shoal.mqtt.codec.packets import Connect
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.controls import Control, OwnersSought, Several, Sought
from shoal.mqtt.federation.session_transfer.fetching import close_for_another, latest_word_us
from shoal.mqtt.front_end.network import EVERY_BROKER
from shoal.mqtt.limits import MICROSECONDS
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.timers import MqttTimers

# A broker without a list by then counts as down. Less than the connect timeout of clients
# (`connect_timeout_s`), so that a client that connects at once is admitted, not refused.
START_US = 9 * MICROSECONDS
# After so long a broker seems to be down: others may know its sessions.
SOUGHT_US = 2 * MICROSECONDS
# The number of waiting clients that are admitted or refused in one time slice.
MOST_AT_ONCE = 100

STARTING_TIMER = "starting"
SOUGHT_TIMER = "sought"


class _Unknown(NamedTuple):
    connection: ClientConnection
    connect: Connect
    admission: ClientAdmission
    until_us: int


class StartupSync:
    """The waiting clients of one broker. `send` sends a control to a broker, or to all.

    `come` admits a client that has waited, or has it wait for its session. `others` returns the
    other brokers of the network that have clients; without it there are none. `is_connected`
    returns whether there is a connection to a broker.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        timers: MqttTimers,
        send: Callable[[str, Control, int], None],
        come: Callable[[ClientConnection, Connect, ClientAdmission, int], None],
        now_us: int,
    ) -> None:
        self.others: Callable[[], Iterable[BrokerId]] = tuple
        self.is_connected: Callable[[BrokerId], bool] = lambda _: False
        self._broker_id = broker_id
        self._sessions = sessions
        self._timers = timers
        self._send = send
        self._come = come
        # The brokers with complete lists; those of them that count so because they have left; and
        # the parts that have come of other lists.
        self._listed: set[BrokerId] = set()
        self._without_list: set[BrokerId] = set()
        self._parts: dict[BrokerId, set[int]] = {}
        # The waiting clients in their order; and those that need not wait any longer.
        self._waiting: OrderedDict[str, _Unknown] = OrderedDict()
        self._ready: OrderedDict[str, None] = OrderedDict()
        # Clients about which the others were not asked yet.
        self._unsought: dict[str, None] = {}
        # Silent brokers whose sessions another broker has sent; and the number of such questions.
        self._owners_known: set[BrokerId] = set()
        self._asked = 0
        # Whether the next questions are due at a time that is set.
        self._is_seeking = False
        # Whether no list is waited for any more: brokers that come later do not matter.
        self._is_over = False
        self._begin(now_us)

    def joined(self, now_us: int) -> None:
        """Handle the end of this broker's join: the others can be heard from now on."""
        self._begin(now_us)

    def _begin(self, now_us: int) -> None:
        self._until_us, self._is_over = now_us + START_US, False
        self._seek_later(now_us)

    def _seek_later(self, now_us: int) -> None:
        """Have questions sent SOUGHT_US from now, or earlier if some are due by then."""
        if not self._is_seeking:
            self._is_seeking = True
            self._timers.set((SOUGHT_TIMER, ()), now_us + SOUGHT_US)

    def unheard(self, now_us: int) -> list[BrokerId]:
        """The brokers with missing lists, while that matters."""
        if self._is_over:
            return []
        missing = [broker for broker in self.others() if broker not in self._listed]
        if now_us >= self._until_us:
            is_dead = now_us >= self._dead_us
            missing = [each for each in missing if self.is_connected(each) and not is_dead]
            self._is_over = not missing
        return missing

    @property
    def _dead_us(self) -> int:
        """The time from which on connected brokers without a list count as dead."""
        return self._until_us + self._sessions.limits.silent_broker_s * MICROSECONDS

    def has_heard(self, broker: BrokerId) -> bool:
        """Whether a broker has sent its whole list, or has left."""
        return broker in self._listed

    def must_wait(
        self,
        connection: ClientConnection,
        connect: Connect,
        admission: ClientAdmission,
        now_us: int,
    ) -> bool:
        """Whether a client without a known session must wait for the lists."""
        client_id = connect.client_id
        is_known = not client_id or connect.clean_start or client_id in self._sessions
        if is_known or not self.unheard(now_us):
            return False
        until_us = latest_word_us(self._sessions.limits, now_us)
        self._waiting[client_id] = _Unknown(connection, connect, admission, until_us)
        self._seek_later(now_us)
        self._unsought[client_id] = None
        self._set_startup_timer(now_us)
        return True

    def seek(self, now_us: int) -> None:
        """Ask for the sessions of silent brokers, and those of the waiting clients."""
        self._is_seeking = False
        unsought = [client_id for client_id in self._unsought if client_id in self._waiting]
        self._unsought.clear()
        for start in range(0, len(unsought), MOST_AT_ONCE):
            part = tuple(unsought[start : start + MOST_AT_ONCE])
            self._send(EVERY_BROKER, Sought(part, self._broker_id), now_us)
        owners = sorted(set(self.unheard(now_us)) - self._owners_known)[:MOST_AT_ONCE]
        if owners and (heard := sorted(self._listed.intersection(self.others()))):
            # Another one each time: one may be silent by then, too.
            asked = heard[self._asked % len(heard)]
            self._asked += 1
            self._send(asked, OwnersSought(tuple(owners), self._broker_id), now_us)
        if owners:
            self._seek_later(now_us)

    def owners_known(self, owners: Iterable[BrokerId]) -> None:
        """Another broker has sent all sessions that these silent ones own."""
        self._owners_known.update(owners)

    def known(self, client_id: str, now_us: int) -> None:
        """The session of a client is known."""
        if client_id in self._waiting:
            self._ready[client_id] = None
            self._set_startup_timer(now_us)

    def turn_away(self, client_id: str, now_us: int, entered_us: int | None = None) -> None:
        """Stop waiting: the client has connected again, perhaps elsewhere at `entered_us`."""
        waiting = self._waiting.get(client_id)
        if waiting is None:
            return
        if entered_us is None or entered_us > waiting.connection.connect_us:
            del self._waiting[client_id]
            self._ready.pop(client_id, None)
            close_for_another(waiting.connection, now_us)

    def forget(self, connection: ClientConnection) -> None:
        """Handle the end of a connection without a session, which may have waited."""
        client_id = connection.credentials.client_id
        waiting = self._waiting.get(client_id)
        if waiting is not None and waiting.connection is connection:
            del self._waiting[client_id]
            self._ready.pop(client_id, None)

    def on_control(self, control: Several, now_us: int) -> None:
        """Handle a part of a broker's session list."""
        broker = control.broker
        for each in control.controls:
            if each.client_id in self._waiting:
                self._ready[each.client_id] = None
        parts = self._parts.setdefault(broker, set())
        parts.add(control.number)
        if len(parts) >= control.parts:
            self._without_list.discard(broker)
            self._has_said_all(broker, now_us)
        self._set_startup_timer(now_us)

    def left(self, broker: BrokerId, now_us: int) -> None:
        """Handle a broker that has left for good."""
        self._without_list.add(broker)
        self._has_said_all(broker, now_us)

    def came(self, broker: BrokerId) -> None:
        """Handle a broker that had left, and is back: it may own sessions.

        Its list may arrive before the news of its return.
        """
        if broker in self._without_list:
            self._without_list.remove(broker)
            self._listed.discard(broker)

    def _has_said_all(self, broker: BrokerId, now_us: int) -> None:
        self._parts.pop(broker, None)
        self._listed.add(broker)
        self._set_startup_timer(now_us)

    def _set_startup_timer(self, now_us: int) -> None:
        if not self._waiting:
            return
        first = next(iter(self._waiting.values()))
        is_over = self._ready or not self.unheard(now_us)
        over_us = [each for each in (self._until_us, self._dead_us) if each > now_us]
        next_us = min(first.until_us, *over_us)
        self._timers.set((STARTING_TIMER, ()), now_us if is_over else max(next_us, now_us))

    def admit_waiting(self, now_us: int) -> None:
        """Admit the clients that need not wait, and refuse those that have waited too long."""
        silent = self.unheard(now_us)
        is_over = not silent
        ready = self._waiting if is_over else self._ready
        for client_id in tuple(islice(ready, MOST_AT_ONCE)):
            self._ready.pop(client_id, None)
            waiting = self._waiting.pop(client_id)
            self._come(waiting.connection, waiting.connect, waiting.admission, now_us)
        for client_id, waiting in tuple(islice(self._waiting.items(), MOST_AT_ONCE)):
            if is_over or waiting.until_us > now_us:
                break
            if client_id not in self._ready:
                del self._waiting[client_id]
                reason = (
                    f"this broker has just started, and {min(silent)} has not sent its sessions"
                )
                waiting.connection.disconnect(ReasonCode.SERVER_UNAVAILABLE, reason, now_us)
        self._set_startup_timer(now_us + 1)  # after a time slice of other inputs

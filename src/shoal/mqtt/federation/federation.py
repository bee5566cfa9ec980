"""The federation part of one broker: dispatches control messages and timers to its parts.

Sessions follow their clients (`session_transfer`), shared subscriptions select members (`sharing`),
SUBACK waits until all brokers know a subscription (`granting`), a joining broker gets the state it
missed (`joining`), and a broker with full queues announces it (`full_queues`). The parts
communicate with other brokers through the front end by controls.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.model import BrokerId, SubscriptionId
from shoal.mqtt.access import Permissions
from shoal.mqtt.federation.controls import (
    AllTold,
    Closed,
    Coming,
    FederationHello,
    FederationMembers,
    FederationWelcome,
    Full,
    Here,
    LogAsked,
    LogTold,
    Rejoined,
    RetainedState,
    Shared,
    Tell,
    Took,
    Vacated,
    decode_control,
)
from shoal.mqtt.federation.evacuating import EVACUATING_TIMER, Evacuating
from shoal.mqtt.federation.following import Following
from shoal.mqtt.federation.full_queues import CROWDING_TIMER, FullQueues
from shoal.mqtt.federation.granting import (
    ADVERTISING_PATIENCE_US,
    GRANTING_TIMER,
    FederationGranting,
)
from shoal.mqtt.federation.joining import FederationJoining
from shoal.mqtt.federation.moving import MOVING_TIMER, Moving
from shoal.mqtt.federation.session_transfer.directory.announcing import TELLING_TIMER
from shoal.mqtt.federation.session_transfer.directory.listing import LISTING_TIMER
from shoal.mqtt.federation.session_transfer.exporting import SAYING_TIMER
from shoal.mqtt.federation.session_transfer.importing import RELEASING_TIMER
from shoal.mqtt.federation.session_transfer.session_transfer import SessionTransfer
from shoal.mqtt.federation.session_transfer.starting import SOUGHT_TIMER, STARTING_TIMER
from shoal.mqtt.federation.sharing import LOSING_TIMER, SHARING_TIMER, Sharing
from shoal.mqtt.federation.time_slices import HANDING_TIMER
from shoal.mqtt.front_end.network import FrontEnd
from shoal.mqtt.memory.journal import SessionJournal
from shoal.mqtt.messages import PublishedMessage
from shoal.mqtt.sessions.audience import Audience
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.retained import RetainedStore
from shoal.mqtt.sessions.session import ClientSubscription
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import SessionSubscriptions
from shoal.mqtt.sessions.subscriber_interests import WISHES_TIMER, SubscriberInterests
from shoal.mqtt.timers import MqttTimers

UNCOVERING_TIMER = "uncovering"
# The pause between two portions of covered filters without clients of their covering one.
UNCOVERING_PAUSE_US = 10_000


class Federation:
    """One broker's part of the federation. `deliver` gives a message to a local member of a group.

    `problems` collects descriptions of lost session state; `permissions` returns those of a user
    without a client here, `full` the reason to refuse redirected clients, `is_held` whether input
    of clients is suspended.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        subscriptions: SessionSubscriptions,
        retained: RetainedStore,
        problems: list[str],
        front_end: FrontEnd,
        timers: MqttTimers,
        deliver: Callable[[PublishedMessage, ClientSubscription, int], None],
        permissions: Callable[[str, str], Permissions],
        full: Callable[[int], str],
        audience: Audience,
        is_held: Callable[[], bool],
        now_us: int,
    ) -> None:
        # Brokers that have left the network, and since when: their last controls may be under way.
        self._left_us: dict[BrokerId, int] = {}
        # Those of them that an operator has declared dead, with all their sessions.
        self._dead: set[BrokerId] = set()
        # Every broker must know a session before publications can be acknowledged into it.
        self._spreading = FederationGranting(broker_id, front_end, None, self._announce_all)
        self._front_end, self._timers = front_end, timers
        # Handles questions about logs, and their answers (see `replaying`).
        self.at_log: Callable[[LogAsked | LogTold, int], None] | None = None
        front_end.asking.at_leaving = lambda: timers.set((UNCOVERING_TIMER, ()), 0)
        self.session_transfer = SessionTransfer(
            broker_id,
            sessions,
            subscriptions,
            problems,
            front_end,
            timers,
            self._spreading,
            self._left_us,
            self._dead,
            now_us,
        )
        self.evacuating = Evacuating(
            broker_id, sessions, front_end, timers, self.session_transfer, permissions
        )
        self.moving = Moving(
            broker_id, sessions, front_end, timers, self.session_transfer, self.evacuating, full
        )
        self.wishes = SubscriberInterests(sessions, subscriptions, front_end, timers)
        self.following = Following(broker_id, front_end, audience, self.wishes)
        self.granting = FederationGranting(broker_id, front_end, timers, self._announce_all)
        self._advertising = FederationGranting(
            broker_id, front_end, timers, self._announce_all, ADVERTISING_PATIENCE_US
        )
        told = self.granting.wait_for
        self.sharing = Sharing(
            broker_id,
            front_end,
            timers,
            subscriptions,
            deliver,
            told,
            is_held,
            self._left_us,
            now_us,
        )
        unheard = self.session_transfer.starting.unheard
        self.joining = FederationJoining(
            broker_id,
            front_end,
            retained,
            timers,
            self.session_transfer.send_clients,
            self.sharing.membership.tell,
            unheard,
        )
        self.joining.join(now_us)
        backlog = sessions.backlog
        self.crowding = FullQueues(broker_id, front_end, timers, lambda: backlog.is_full)
        backlog.at_change = self.crowding.changed

    def begin_journal(self, journal: SessionJournal) -> None:
        """Begin to record changes in this journal."""
        self.session_transfer.begin_journal(journal)
        self.evacuating.journal = journal
        self.sharing.begin_journal(journal)

    def _announce_all(self, now_us: int) -> None:
        self.session_transfer.telling.flush(now_us)

    def rejoin(self, now_us: int) -> None:
        """Join again: this broker stays, and has missed controls since it announced its leaving."""
        self.joining.is_told = False
        self.joining.join(now_us)

    def left(self, broker: BrokerId, now_us: int, *, is_dead: bool = False) -> None:
        """Handle a broker that has left the network for good, or was declared dead."""
        self._left_us[broker] = now_us
        if is_dead:
            self._dead.add(broker)
        self.session_transfer.broker_left(broker, now_us)
        self.sharing.left(broker, now_us)

    def came(self, broker: BrokerId, now_us: int) -> None:
        """Handle a broker that has joined the network, or stays after all."""
        self._dead.discard(broker)
        if self._left_us.pop(broker, None) is not None:
            self.session_transfer.starting.came(broker)
            self.joining.came(now_us)

    def stored(self, subscription_id: SubscriptionId) -> None:
        """Handle a subscription of the front end that is installed in the whole network."""
        for each in (self.granting, self._advertising, self._spreading):
            each.stored(subscription_id)

    def when_known(self, answer: Callable[[int], None], now_us: int) -> None:
        """Call `answer` when every broker knows the front end's requests and its group members."""
        self.sharing.membership.announce_changes(now_us)
        self.granting.owe(answer, now_us)

    def when_spread(self, answer: Callable[[int], None], now_us: int) -> None:
        """Call `answer` when every broker knows the front end's requests, however long that
        takes."""
        self._spreading.owe(answer, now_us)

    def spread(self, connection: ClientConnection, now_us: int) -> None:
        """Hold a client's input until every broker knows its advertisements."""

        def known(now_us: int) -> None:
            connection.is_spreading = False

        connection.is_spreading = True
        self._advertising.owe(known, now_us)

    def joined(self, now_us: int) -> None:
        """Handle the end of this broker's join."""
        self.joining.is_joining = False
        self.session_transfer.starting.joined(now_us)

    def linked(self, neighbour: BrokerId, is_ready: bool, now_us: int) -> None:
        """Handle a link that is ready, or one that was given up and has split the network."""
        self._front_end.forget_known()
        self.joining.linked(neighbour, is_ready, now_us)

    def _release_covering(self, now_us: int) -> None:
        """Remove covering filters without clients when every broker knows the covered ones."""
        asking = self._front_end.asking
        leaving = asking.release_covering()
        if leaving is None:
            self._timers.set((UNCOVERING_TIMER, ()), now_us + UNCOVERING_PAUSE_US)
        elif leaving:
            self._spreading.owe(lambda now_us: asking.left(leaving), now_us)

    def on_federation_timer(self, kind: str, about: object, now_us: int) -> None:
        """Dispatch a timer to its part."""
        match about:
            case (str(client_id), int(at_us)):
                self.session_transfer.on_transfer_timer(kind, (client_id, at_us), now_us)
            case int(what) if kind == SHARING_TIMER:
                self.sharing.on_sharing_timer(what, now_us)
            case int(patience_us) if kind == GRANTING_TIMER:
                waits = patience_us == self.granting.patience_us
                (self.granting if waits else self._advertising).on_granting_timer(now_us)
            case () if kind == HANDING_TIMER:
                self.sharing.hand_on(now_us)
            case () if kind == LOSING_TIMER:
                self.sharing.losing.run_slice(now_us)
            case () if kind == CROWDING_TIMER:
                self.crowding.report_fullness(now_us)
            case () if kind == TELLING_TIMER:
                self.session_transfer.telling.flush(now_us)
            case () if kind == LISTING_TIMER:
                self.session_transfer.listing.run_slice(now_us)
            case () if kind == SAYING_TIMER:
                self.session_transfer.giving.run_slice(now_us)
            case () if kind == RELEASING_TIMER:
                self.session_transfer.arriving.run_slice(now_us)
            case () if kind == UNCOVERING_TIMER:
                self._release_covering(now_us)
            case () if kind == MOVING_TIMER:
                self.moving.check_orders(now_us)
            case () if kind == STARTING_TIMER:
                self.session_transfer.starting.admit_waiting(now_us)
            case () if kind == SOUGHT_TIMER:
                self.session_transfer.starting.seek(now_us)
            case () if kind == WISHES_TIMER:
                self.wishes.report_some(now_us)
            case () if kind == EVACUATING_TIMER:
                self.evacuating.evacuate_some(now_us)
            case ():
                self.joining.on_joining_timer(kind, now_us)

    def on_control(self, body: bytes, now_us: int) -> None:
        """Dispatch a control of another broker; unreadable ones are dropped."""
        control = decode_control(body)
        if control is None:
            return
        if isinstance(control, FederationHello | Here):
            self.session_transfer.met(control, now_us)
        if isinstance(control, FederationHello | Rejoined):
            self._front_end.forget_known()
        if isinstance(control, FederationMembers | Shared | Closed | Took):
            self.sharing.on_control(control, now_us)
        elif isinstance(
            control, FederationHello | Rejoined | Here | Tell | RetainedState | AllTold
        ):
            self.joining.on_control(control, now_us)
        elif isinstance(control, Full):
            self.crowding.on_control(control, now_us)
        elif isinstance(control, Coming | FederationWelcome):
            self.moving.on_control(control, now_us)
        elif isinstance(control, LogAsked | LogTold):
            if self.at_log is not None:
                self.at_log(control, now_us)
        elif isinstance(control, Vacated):
            self.evacuating.on_control(control, now_us)
        else:
            self.session_transfer.on_control(control, now_us)

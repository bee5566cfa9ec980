"""What the MQTT side of one broker does together with those of the others in its network.

Sessions follow their clients (`roaming`), shared subscriptions take turns (`sharing`), SUBACK comes
when all have heard of a subscription (`granting`), whoever joins is told what it missed
(`joining`), and whose queues are full says so (`crowding`).  They speak through the door by
controls; each goes to the part that it concerns.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.model import BrokerId, SubscriptionId
from shoal.mqtt.access import Permissions
from shoal.mqtt.door.network import Door
from shoal.mqtt.federation.controls import (
    Closed,
    Coming,
    Full,
    Hello,
    Here,
    Kept,
    Members,
    Rejoined,
    Shared,
    Tell,
    Told,
    Took,
    Vacated,
    Welcome,
    decode_control,
)
from shoal.mqtt.federation.crowding import CROWDING_TIMER, Crowding
from shoal.mqtt.federation.evacuating import EVACUATING_TIMER, Evacuating
from shoal.mqtt.federation.following import Following
from shoal.mqtt.federation.granting import ADVERTISING_PATIENCE_US, GRANTING_TIMER, Granting
from shoal.mqtt.federation.handing import HANDING_TIMER
from shoal.mqtt.federation.joining import Joining
from shoal.mqtt.federation.moving import MOVING_TIMER, Moving
from shoal.mqtt.federation.roaming.arriving import RELEASING_TIMER
from shoal.mqtt.federation.roaming.giving import SAYING_TIMER
from shoal.mqtt.federation.roaming.roaming import Roaming
from shoal.mqtt.federation.roaming.starting import SOUGHT_TIMER, STARTING_TIMER
from shoal.mqtt.federation.roaming.whereabouts.listing import LISTING_TIMER
from shoal.mqtt.federation.roaming.whereabouts.telling import TELLING_TIMER
from shoal.mqtt.federation.sharing import SHARING_TIMER, Sharing
from shoal.mqtt.memory.journal import Journal
from shoal.mqtt.messages import Message
from shoal.mqtt.sessions.audience import Audience
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.retained import RetainedStore
from shoal.mqtt.sessions.session import ClientSubscription
from shoal.mqtt.sessions.sessions import Sessions
from shoal.mqtt.sessions.subscribed.subscriptions import Subscriptions
from shoal.mqtt.sessions.wishes import WISHES_TIMER, Wishes
from shoal.mqtt.timers import Timers

UNCOVERING_TIMER = "uncovering"
# Between two portions of what a subscription covered that nobody wants any more.
UNCOVERING_PAUSE_US = 10_000


class Federation:
    """One broker's part.  `deliver` gives a message to a member of a group here.

    `problems` gets in words what came for a session and cannot be kept; `permissions` says what a
    user may do whose client is not here, `full` why no client may be sent here, `is_held` whether
    nothing is to be taken from clients.
    """

    def __init__(
        self,
        broker_id: BrokerId,
        sessions: Sessions,
        subscriptions: Subscriptions,
        retained: RetainedStore,
        problems: list[str],
        door: Door,
        timers: Timers,
        deliver: Callable[[Message, ClientSubscription, int], None],
        permissions: Callable[[str, str], Permissions],
        full: Callable[[int], str],
        audience: Audience,
        is_held: Callable[[], bool],
        now_us: int,
    ) -> None:
        # A session is known everywhere before anything can be acknowledged into it.
        self._spreading = Granting(broker_id, door, None, self._tell_all)
        self._door, self._timers = door, timers
        door.asking.at_leaving = lambda: timers.set((UNCOVERING_TIMER, ()), 0)
        self.roaming = Roaming(
            broker_id, sessions, subscriptions, problems, door, timers, self._spreading, now_us
        )
        self.evacuating = Evacuating(broker_id, sessions, door, timers, self.roaming, permissions)
        self.moving = Moving(broker_id, sessions, door, timers, self.roaming, self.evacuating, full)
        self.wishes = Wishes(sessions, subscriptions, door, timers)
        self.following = Following(broker_id, door, audience, self.wishes)
        self.granting = Granting(broker_id, door, timers, self._tell_all)
        self._advertising = Granting(
            broker_id, door, timers, self._tell_all, ADVERTISING_PATIENCE_US
        )
        told = self.granting.wait_for
        self.sharing = Sharing(
            broker_id, door, timers, subscriptions, deliver, told, is_held, now_us
        )
        unheard = self.roaming.starting.unheard
        self.joining = Joining(
            broker_id,
            door,
            retained,
            timers,
            self.roaming.tell_clients,
            self.sharing.membership.tell,
            unheard,
        )
        self.joining.join(now_us)
        backlog = sessions.backlog
        self.crowding = Crowding(broker_id, door, timers, lambda: backlog.is_full)
        backlog.at_change = self.crowding.changed

    def begin_journal(self, journal: Journal) -> None:
        """From now on say what changes."""
        self.roaming.begin_journal(journal)
        self.evacuating.journal = journal
        self.sharing.begin_journal(journal)

    def _tell_all(self, now_us: int) -> None:
        self.roaming.telling.flush(now_us)

    def come_back(self, now_us: int) -> None:
        """This broker stays, and has missed what was said since the others heard that it leaves."""
        self.joining.is_told = False
        self.joining.join(now_us)

    def left(self, broker: BrokerId, now_us: int) -> None:
        """A broker has left the network for good."""
        self.roaming.broker_left(broker, now_us)

    def stored(self, subscription_id: SubscriptionId) -> None:
        """No publication misses this subscription of the door any more."""
        for each in (self.granting, self._advertising, self._spreading):
            each.stored(subscription_id)

    def when_known(self, answer: Callable[[int], None], now_us: int) -> None:
        """Answer when every broker knows what the door has asked for, and who is in which group."""
        self.sharing.membership.tell_changes(now_us)
        self.granting.owe(answer, now_us)

    def spread(self, connection: ClientConnection, now_us: int) -> None:
        """Nothing is taken from a client before every broker knows what it advertises."""

        def known(now_us: int) -> None:
            connection.is_spreading = False

        connection.is_spreading = True
        self._advertising.owe(known, now_us)

    def linked(self, neighbour: BrokerId, is_ready: bool, now_us: int) -> None:
        """A link can carry publications now, or was given up, and the network fell in two."""
        self._door.forget_known()
        self.joining.linked(neighbour, is_ready, now_us)

    def _take_leave(self, now_us: int) -> None:
        """What covers others and is wanted no more goes when every broker knows of those."""
        asking = self._door.asking
        leaving = asking.take_leave()
        if leaving is None:
            self._timers.set((UNCOVERING_TIMER, ()), now_us + UNCOVERING_PAUSE_US)
        elif leaving:
            self._spreading.owe(lambda now_us: asking.left(leaving), now_us)

    def due(self, kind: str, about: object, now_us: int) -> None:
        """A timer of one of the parts."""
        match about:
            case (str(client_id), int(at_us)):
                self.roaming.due(kind, (client_id, at_us), now_us)
            case int(what) if kind == SHARING_TIMER:
                self.sharing.due(what, now_us)
            case int(patience_us) if kind == GRANTING_TIMER:
                waits = patience_us == self.granting.patience_us
                (self.granting if waits else self._advertising).due(now_us)
            case () if kind == HANDING_TIMER:
                self.sharing.hand_on(now_us)
            case () if kind == CROWDING_TIMER:
                self.crowding.due(now_us)
            case () if kind == TELLING_TIMER:
                self.roaming.telling.flush(now_us)
            case () if kind == LISTING_TIMER:
                self.roaming.listing.go_on(now_us)
            case () if kind == SAYING_TIMER:
                self.roaming.giving.go_on(now_us)
            case () if kind == RELEASING_TIMER:
                self.roaming.arriving.go_on(now_us)
            case () if kind == UNCOVERING_TIMER:
                self._take_leave(now_us)
            case () if kind == MOVING_TIMER:
                self.moving.due(now_us)
            case () if kind == STARTING_TIMER:
                self.roaming.starting.due(now_us)
            case () if kind == SOUGHT_TIMER:
                self.roaming.starting.seek(now_us)
            case () if kind == WISHES_TIMER:
                self.wishes.due(now_us)
            case () if kind == EVACUATING_TIMER:
                self.evacuating.due(now_us)
            case ():
                self.joining.due(kind, now_us)

    def hear(self, body: bytes, now_us: int) -> None:
        """Another broker's MQTT side says something; what cannot be read is dropped."""
        control = decode_control(body)
        if control is None:
            return
        if isinstance(control, Hello | Here):
            self.roaming.met(control, now_us)
        if isinstance(control, Hello | Rejoined):
            self._door.forget_known()
        if isinstance(control, Members | Shared | Closed | Took):
            self.sharing.hear(control, now_us)
        elif isinstance(control, Hello | Rejoined | Here | Tell | Kept | Told):
            self.joining.hear(control, now_us)
        elif isinstance(control, Full):
            self.crowding.hear(control, now_us)
        elif isinstance(control, Coming | Welcome):
            self.moving.hear(control, now_us)
        elif isinstance(control, Vacated):
            self.evacuating.hear(control, now_us)
        else:
            self.roaming.hear(control, now_us)

"""A tree with moving publishers and link exchanges: no move crosses an exchange.

Moves are the relocation paper's, and a tracer decides on them. The path of a move is reserved
before the publisher is sent (`reserved_paths.py`), and brokers on it take part in no exchange until
the move is complete.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.broker.effects import Effect, LinkState, TimerKey
from shoal.broker.messages import Goodbye, Message
from shoal.clients.messages import MigrationAdvertisement
from shoal.model import BrokerId, ClientId
from shoal.overlays.publisher_relocation.messages import MigrationUpdate
from shoal.overlays.publisher_relocation.migration import Migrations
from shoal.overlays.publisher_relocation.relocation import Relocation
from shoal.overlays.publisher_relocation.tracer import SendAway, Tracer
from shoal.overlays.self_organising.moves.path_messages import PathMessage
from shoal.overlays.self_organising.moves.reserved_paths import TIMER, ReservedPaths
from shoal.overlays.tree.routing import TreeRouting


class MovingPublishers(Relocation):
    """One broker of such a tree.

    `obstacle` is the reason why no publisher may move through it now.
    """

    def __init__(
        self,
        tree: TreeRouting,
        tracer: Callable[[SendAway], Tracer],
        obstacle: Callable[[], str],
    ) -> None:
        migrations = Migrations(tree)
        self.paths = ReservedPaths(
            tree,
            migrations.send_away,
            lambda publisher, out: self.tracer.left(publisher, out),
            obstacle,
        )
        super().__init__(tree, migrations, tracer(self.paths.reserve))

    @property
    def is_moving(self) -> bool:
        return super().is_moving or len(self.paths) > 0

    def receive(
        self, neighbour: BrokerId, message: Message, now_us: int, out: list[Effect]
    ) -> None:
        if isinstance(message, PathMessage):
            self.paths.receive(neighbour, message, now_us, out)
            return
        super().receive(neighbour, message, now_us, out)
        if type(message) is MigrationUpdate:
            self.paths.used(message.publisher, out)

    def request(self, client: ClientId, request: Message, now_us: int, out: list[Effect]) -> None:
        super().request(client, request, now_us, out)
        match request:
            case MigrationAdvertisement():
                self.paths.used(client, out)
            case Goodbye():
                self.paths.left(client, out)

    def timer(self, key: TimerKey, now_us: int, out: list[Effect]) -> None:
        if key[0] == TIMER:
            self.paths.late(key[1], out)
        else:
            super().timer(key, now_us, out)

    def relink(self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]) -> None:
        super().relink(neighbour, state, now_us, out)
        self.paths.changed(neighbour, out)

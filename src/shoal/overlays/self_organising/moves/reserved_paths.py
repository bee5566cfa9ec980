"""Reserved paths of publishers about to move: no broker of one exchanges links.

A move takes the path on which its source has traced the publisher's subscribers. So the source
sends a reservation along the path before it sends the publisher, and each broker either keeps out
of exchanges from then on, or refuses because it is in one: then the publisher stays, and is traced
anew. Two messages for each link of the path.

| input | action |
| --- | --- |
| a publisher is to move, at its source | reserves, asks the next broker |
| Reserve | reserves, forwards it; the target sends Reserved; a busy broker sends Unreserve |
| Reserved | forwards it; the source sends the publisher |
| Unreserve | releases the path, forwards it; at the source the publisher stays |
| the move passes: its message at the target, then the update | releases the path |
| a link of the path changes | releases the path, sends Unreserve on |
| `RESERVED_US` pass, or the publisher disconnects | releases the path, sends Unreserve on |

A migration keeps its own lock (`Migrations.is_moving`), which starts when the reservation ends.
"""

from __future__ import annotations

from collections.abc import Callable

from shoal.broker.effects import CancelTimer, Effect, Send, SetTimer, TimerKey
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId, ClientId
from shoal.overlays.publisher_relocation.migration import HOLD_US
from shoal.overlays.publisher_relocation.paths import Path, check_path, next_hop
from shoal.overlays.publisher_relocation.tracer import SendAway
from shoal.overlays.self_organising.moves.path_messages import (
    PathMessage,
    Reserve,
    Reserved,
    Unreserve,
)
from shoal.overlays.tree.routing import TreeRouting

# A publisher that was sent has arrived by then, or is back.
RESERVED_US = HOLD_US
# The first part of the keys of the timers set here; the second is the publisher.
TIMER = "reserved"

Stays = Callable[[ClientId, list[Effect]], None]


class ReservedPaths:
    """Reserved paths at one broker.

    `obstacle` is the reason why it can be on none now; `send_away` sends a publisher with a
    reserved path, and `stays` is called for one without.
    """

    def __init__(
        self,
        tree: TreeRouting,
        send_away: SendAway,
        stays: Stays,
        obstacle: Callable[[], str],
    ) -> None:
        self._tree = tree
        self._send_away = send_away
        self._stays = stays
        self._obstacle = obstacle
        self._paths: dict[ClientId, Path] = {}

    def __len__(self) -> int:
        return len(self._paths)

    def reserve(self, publisher: ClientId, path: Path, now_us: int, out: list[Effect]) -> None:
        """At the source: reserve the path, and ask the next broker to do so."""
        if self._is_free(path[1]):
            self._reserve_path(publisher, path, now_us, out)
            out.append(Send(path[1], Reserve(publisher, path)))
        else:
            self._stays(publisher, out)

    def receive(
        self, neighbour: BrokerId, message: PathMessage, now_us: int, out: list[Effect]
    ) -> None:
        self._tree.check_neighbour(neighbour)
        publisher, path = message.publisher, message.path
        before, behind = self._beside(path)
        if neighbour not in (before, behind):
            raise ProtocolError(f"{neighbour} is not beside {self._tree.broker} on {path}")
        match message:
            case Reserve() if neighbour == before:
                self._asked(neighbour, publisher, path, now_us, out)
            case Reserved() if neighbour == behind:
                self._granted(neighbour, publisher, path, now_us, out)
            case Unreserve() if self._paths.get(publisher) == path:
                self._release_path(publisher, neighbour, out)

    def used(self, publisher: ClientId, out: list[Effect]) -> None:
        """Release the path of a publisher whose move has come here."""
        if self._paths.pop(publisher, None) is not None:
            out.append(CancelTimer(_timer(publisher)))

    def left(self, publisher: ClientId, out: list[Effect]) -> None:
        """Give up the path of a local publisher that has disconnected."""
        if publisher in self._paths and self._paths[publisher][0] == self._tree.broker:
            self._release_path(publisher, None, out)

    def changed(self, neighbour: BrokerId, out: list[Effect]) -> None:
        """Give up the paths over a neighbour whose link has changed."""
        for publisher, path in list(self._paths.items()):
            if neighbour in self._beside(path):
                self._release_path(publisher, neighbour, out)

    def late(self, publisher: ClientId, out: list[Effect]) -> None:
        """`TIMER` has fired."""
        if publisher in self._paths:
            self._release_path(publisher, None, out)

    # --- steps --------------------------------------------------------------------------------

    def _is_free(self, behind: BrokerId | None) -> bool:
        return not self._obstacle() and (behind is None or self._tree.is_neighbour(behind))

    def _beside(self, path: Path) -> tuple[BrokerId | None, BrokerId | None]:
        """The brokers before and behind this one; ProtocolError when it is no path over it."""
        here = self._tree.broker
        check_path(path)
        if here not in path:
            raise ProtocolError(f"{path} is no path over {here}")
        return next_hop(path, here, -1), next_hop(path, here, 1)

    def _asked(
        self,
        before: BrokerId,
        publisher: ClientId,
        path: Path,
        now_us: int,
        out: list[Effect],
    ) -> None:
        behind = self._beside(path)[1]
        if not self._is_free(behind):
            out.append(Send(before, Unreserve(publisher, path)))
            return
        self._reserve_path(publisher, path, now_us, out)
        if behind is None:
            out.append(Send(before, Reserved(publisher, path)))
        else:
            out.append(Send(behind, Reserve(publisher, path)))

    def _granted(
        self,
        behind: BrokerId,
        publisher: ClientId,
        path: Path,
        now_us: int,
        out: list[Effect],
    ) -> None:
        before = self._beside(path)[0]
        if self._paths.get(publisher) != path:  # it was given up meanwhile
            out.append(Send(behind, Unreserve(publisher, path)))
        elif before is not None:
            out.append(Send(before, Reserved(publisher, path)))
        else:
            self.used(publisher, out)
            self._send_away(publisher, path, now_us, out)

    def _release_path(self, publisher: ClientId, but: BrokerId | None, out: list[Effect]) -> None:
        """Release the path, and inform the others on it."""
        path = self._paths[publisher]
        self.used(publisher, out)
        before, behind = self._beside(path)
        out.extend(
            Send(other, Unreserve(publisher, path))
            for other in (before, behind)
            if other is not None and other != but and self._tree.is_neighbour(other)
        )
        if before is None:
            self._stays(publisher, out)

    def _reserve_path(
        self, publisher: ClientId, path: Path, now_us: int, out: list[Effect]
    ) -> None:
        self._paths[publisher] = path
        out.append(SetTimer(_timer(publisher), now_us + RESERVED_US))


def _timer(publisher: ClientId) -> TimerKey:
    return TIMER, publisher

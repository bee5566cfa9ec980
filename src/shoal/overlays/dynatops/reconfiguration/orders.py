"""An operator's orders to the manager: swap brokers, undo that, keep all at their places.

| order | effect |
| --- | --- |
| swap, `brokers`: two names with a comma between | they change places |
| undo | the brokers of the last swap change back, and all are held |
| stop | all are held, whichever broker is the manager |
| go | brokers change places again if that pays |

Each makes a view, so it holds until the next order, across deaths and joins.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.broker.effects import Effect
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.dynatops.members.membership import ViewMembership
from shoal.overlays.dynatops.parameters import DynatopsParameters
from shoal.overlays.dynatops.view import View


class Orders:
    """At one broker."""

    def __init__(self, membership: ViewMembership, parameters: DynatopsParameters) -> None:
        self._membership = membership
        self._pinned = frozenset(parameters.pinned)

    def follow(self, name: str, said: Mapping[str, str], now_us: int, out: list[Effect]) -> None:
        """Execute an order.  ProtocolError with the reason if it cannot."""
        membership = self._membership
        view = membership.view
        if view is None:
            raise ProtocolError("it is not in the ring yet")
        if not membership.is_manager:
            raise ProtocolError(f"{membership.manager} decides that")
        members, is_held = view.members, view.is_held
        match name:
            case "swap":
                members = self._swapped(view, said.get("brokers", ""))
            case "undo":
                members, is_held = membership.before, True
                if sorted(members) != sorted(view.members) or members == view.members:
                    raise ProtocolError("no change of places can be taken back")
            case "stop":
                is_held = True
            case "go":
                is_held = False
            case _:
                raise ProtocolError(f"{name!r} is none of swap, undo, stop, go")
        if (members, is_held) == (view.members, view.is_held):
            return
        if not membership.rearrange(members, now_us, out, is_held=is_held):
            raise ProtocolError("a broker is disconnected, or the ring is changing: try again")

    def _swapped(self, view: View, said: str) -> tuple[BrokerId, ...]:
        ring = self._membership.places
        if ring is not None and ring.is_on_earth:
            raise ProtocolError("all brokers have coordinates, and keep their places")
        one, _, other = said.partition(",")
        for each in (one, other):
            if each not in view.members:
                raise ProtocolError(f"no broker {each!r} stands on the ring")
            if each in self._pinned:
                raise ProtocolError(f"{each} is pinned")
        places = {one: other, other: one}
        return tuple(places.get(each, each) for each in view.members)

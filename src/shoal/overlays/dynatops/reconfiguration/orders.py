"""What an operator may have the manager do: swap brokers, take that back, leave all where they are.

| order | does |
| --- | --- |
| swap, `brokers`: two names with a comma between | they change places |
| undo | who changed places last goes back, and all stay there |
| stop | all stay where they are, whoever is the manager |
| go | brokers change places again where that pays |

Each makes a view, so it holds until the next order, over deaths and joins.
"""

from __future__ import annotations

from collections.abc import Mapping

from shoal.broker.effects import Effect
from shoal.broker.strategy import ProtocolError
from shoal.model import BrokerId
from shoal.overlays.dynatops.members.membership import Membership
from shoal.overlays.dynatops.parameters import Parameters
from shoal.overlays.dynatops.view import View


class Orders:
    """At one broker."""

    def __init__(self, membership: Membership, parameters: Parameters) -> None:
        self._membership = membership
        self._pinned = frozenset(parameters.pinned)

    def follow(self, name: str, said: Mapping[str, str], now_us: int, out: list[Effect]) -> None:
        """ProtocolError says why not."""
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
            raise ProtocolError("some broker is away, or the ring changes just now: try again")

    def _swapped(self, view: View, said: str) -> tuple[BrokerId, ...]:
        one, _, other = said.partition(",")
        for each in (one, other):
            if each not in view.members:
                raise ProtocolError(f"no broker {each!r} stands on the ring")
            if each in self._pinned:
                raise ProtocolError(f"{each} is pinned")
        places = {one: other, other: one}
        return tuple(places.get(each, each) for each in view.members)

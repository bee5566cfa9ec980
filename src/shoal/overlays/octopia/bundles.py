"""Copies of publications on their way out, put together where that changes no order.

Publications of one batch are routed one after the other, as each may go other ways than the one
before; what goes to the same neighbour in the same way, with nothing else in between, is one
message.
"""

from __future__ import annotations

from shoal.broker.effects import Effect, Send
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId
from shoal.overlays.octopia.messages import Notification

# Hops, owed bits, and for whom only.
Header = tuple[int, int, tuple[int, ...] | None]


class _Bundle:
    __slots__ = ("header", "place", "publications")

    def __init__(
        self, header: Header, place: int, publications: tuple[RoutedPublication, ...]
    ) -> None:
        self.header = header
        self.place = place
        self.publications = [*publications]


class Bundles:
    """What is sent while some effects are found; `close` makes them what they should be."""

    def __init__(self, out: list[Effect]) -> None:
        self._out = out
        self._seen = len(out)
        # By neighbour, if it is the last that is sent there.
        self._last: dict[BrokerId, _Bundle] = {}
        self._grown: dict[int, _Bundle] = {}

    def send(
        self, neighbour: BrokerId, publications: tuple[RoutedPublication, ...], header: Header
    ) -> None:
        """Send a copy, behind all that was sent to this neighbour before."""
        for effect in self._out[self._seen :]:
            if type(effect) is Send:
                self._last.pop(effect.neighbour, None)
        bundle = self._last.get(neighbour)
        if bundle is not None and bundle.header == header:
            bundle.publications += publications
            self._grown[bundle.place] = bundle
        else:
            self._last[neighbour] = _Bundle(header, len(self._out), publications)
            hops, owed, only = header
            self._out.append(Send(neighbour, Notification(publications, hops, owed, only)))
        self._seen = len(self._out)

    def close(self) -> None:
        """Nothing more is sent."""
        for place, bundle in self._grown.items():
            hops, owed, only = bundle.header
            sent = self._out[place]
            assert isinstance(sent, Send)
            whole = Notification(tuple(bundle.publications), hops, owed, only)
            self._out[place] = Send(sent.neighbour, whole)

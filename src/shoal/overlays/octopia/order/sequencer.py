"""Sequencer: the entry of other clusters' publications into this one, in publishers' order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from shoal.broker.effects import Continue, Effect, Key, SetTimer, Settled, TimerKey, Unsettled
from shoal.broker.messages import RoutedPublication
from shoal.model import BrokerId
from shoal.overlays.octopia.messages import NumbersBegin, NumbersEnd, NumbersOpen
from shoal.overlays.octopia.order.lines import LineEntry, OrderLines
from shoal.overlays.octopia.parameters import OctopiaParameters

TIMER: TimerKey = ("missing",)


class ClusterSequencer:
    """Lets publications that `lines` release enter the cluster.

    If the link to a host is lost, publications that it sent by carriers must not enter: earlier
    ones enter elsewhere now. So their carriers return them to the host, and the host sends all of
    them to the new entry. A carrier that has lost the host, too, drops them: the host has them back
    or, if it has died, their publisher sends again, in order, all that is not acknowledged.

    `enter` routes a publication in this cluster, as part of the input that is unsettled under its
    key, and returns whether it keeps it. `give_back` returns one to its host, if it must and there
    is a path. `near` are the other brokers of this region, `is_linked` tests whether a link is up.
    """

    def __init__(
        self,
        parameters: OctopiaParameters,
        enter: Callable[[RoutedPublication, int, int, list[Effect], Key | None], bool],
        give_back: Callable[[LineEntry, list[Effect]], bool],
        near: Collection[BrokerId],
        is_linked: Callable[[BrokerId], bool],
    ) -> None:
        self.lines = OrderLines(parameters.order_us, parameters.doubt_us, is_linked)
        self._quarter_us = parameters.doubt_us // 4
        self._enter = enter
        self._give_back = give_back
        self._near = near
        # When the timer is due; and for how long it came late so far, as the broker stood still.
        self._timer_us: int | None = None
        self._late_us = 0

    def _awake_us(self, now_us: int) -> int:
        """The time, without pauses of this broker while something waited.

        Input that has yet to be read then counts as waiting before it, too.
        """
        return (now_us if self._timer_us is None else min(now_us, self._timer_us)) - self._late_us

    def arrive(
        self,
        source: BrokerId,
        publications: Iterable[RoutedPublication],
        hops: int,
        shift: int | None,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """Publications have come from `source`; without a shift they are not numbered."""
        for routed in publications:
            host, client, number = routed.message_id
            turn, is_near = None if shift is None else number + shift, host in self._near
            entry = LineEntry(routed, hops, None, turn, source)
            if turn is not None and is_near and self._give_back(entry, out):
                continue
            awake_us = self._awake_us(now_us)
            key, found = self.lines.arrive(host, client, turn, entry, awake_us, is_near=is_near)
            if key is not None:
                out.append(Unsettled(key))
                self._set_sequencer_timer(now_us, out)
            self._let_in(found, now_us, out)

    def receive(
        self,
        host: BrokerId,
        message: NumbersBegin | NumbersEnd | NumbersOpen,
        now_us: int,
        out: list[Effect],
    ) -> None:
        """A host's message about a publisher: numbers begin or end, or all lower ones came."""
        client = message.publisher
        if type(message) is NumbersEnd:
            found = self.lines.end(host, client, message.number, self._awake_us(now_us))
        elif type(message) is NumbersOpen:
            found = self.lines.open(host, client, message.number, self._awake_us(now_us))
        else:
            found = self.lines.begin(host, client, message.number, self._awake_us(now_us))
        self._let_in(found, now_us, out)

    def lost(self, host: BrokerId, now_us: int, out: list[Effect]) -> None:
        """The link to a broker is lost, or it has restarted."""
        rest = []
        held = self.lines.lost(host)
        for entry in held:
            assert entry.key is not None
            out.append(Continue(entry.key))
            if self._give_back(entry, out):
                out.append(Settled(entry.key))
            else:
                rest.append(entry)
        if held:
            out.append(Continue(None))
        self._let_in(rest, now_us, out)

    def doubt(self, now_us: int) -> None:
        """A link of the region is lost: missing publications may never come, if their host is
        lost.
        """
        self.lines.doubt(self._awake_us(now_us))

    def waited(self, now_us: int, out: list[Effect]) -> None:
        """The timer fired: skip publications that have been missing for too long."""
        if self._timer_us is not None:
            self._late_us += max(0, now_us - self._timer_us)
            self._timer_us = None
        self._let_in(self.lines.give_up(self._awake_us(now_us)), now_us, out)
        if len(self.lines):
            self._set_sequencer_timer(now_us, out)

    def _set_sequencer_timer(self, now_us: int, out: list[Effect]) -> None:
        if self._timer_us is None:
            self._timer_us = now_us + self._quarter_us
            out.append(SetTimer(TIMER, self._timer_us))

    def _let_in(self, entries: Iterable[LineEntry], now_us: int, out: list[Effect]) -> None:
        has_been_held = False
        for routed, hops, key, *_ in entries:
            if key is None:
                self._enter(routed, hops, now_us, out, None)
                continue
            has_been_held = True
            out.append(Continue(key))
            if not self._enter(routed, hops, now_us, out, key):
                out.append(Settled(key))
        if has_been_held:
            out.append(Continue(None))

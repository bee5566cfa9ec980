"""The links of one broker: which are up, to be opened, or not needed any more.

The opener of a link requests its end when it does not need it any more, and sends nothing over it
from then on; the other end ends it if it does not need it either. So both have stopped before it
ends, and no message is lost with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from shoal.broker.effects import Effect, EndLink, LinkReady, LinkState, OpenLink, Send, SetTimer
from shoal.model import BrokerId
from shoal.overlays.dynatops.messages import EndRefused, EndWanted

RETRY = ("members", "retry")
# Retry interval for a link that could not be opened because its address was unknown.
RETRY_US = 1_000_000


class OwnLinks:
    """The links of one broker.

    linked  those that are up
    met     of those, links whose other end has greeted: when it started
    broken  the brokers to which nothing may follow in this view
    lost    the brokers with failed links that are not back
    over    the brokers whose links were up and have ended without this end; none is opened in this
            view, and the next one is about to be made
    asked   the brokers that the system wants links with, in addition to its structure's; the other
            end wants the same
    """

    def __init__(self, broker: BrokerId, neighbours: Iterable[BrokerId]) -> None:
        self._broker = broker
        self.linked = dict.fromkeys(sorted(neighbours))
        self.met: dict[BrokerId, int] = {}
        self.broken: set[BrokerId] = set()
        self.lost: set[BrokerId] = set()
        self.over: set[BrokerId] = set()
        self.asked: Collection[BrokerId] = ()
        # Targets without an agreed link, and whether this broker has sent to them of late.
        self._demanded: dict[BrokerId, bool] = {}
        self._opened = set(self.linked)
        self._own = {each for each in self.linked if broker < each}
        self._ending: set[BrokerId] = set()
        self._later: set[BrokerId] = set()

    @property
    def opened(self) -> Collection[BrokerId]:
        """Those that are up or about to be."""
        return self._opened

    def may_send(self, broker: BrokerId) -> bool:
        """Whether a link is up, and may be used."""
        return broker in self.linked and broker not in self.broken and broker not in self._ending

    # --- links that come and go ---------------------------------------------------------------

    def changed(
        self, neighbour: BrokerId, state: LinkState, now_us: int, out: list[Effect]
    ) -> bool:
        """A link came up, or is lost; returns whether messages in it may be lost."""
        had_been_up, was_ending = neighbour in self.linked, neighbour in self._ending
        self.linked.pop(neighbour, None)
        self.met.pop(neighbour, None)
        self._ending.discard(neighbour)
        self.lost.discard(neighbour)
        self.over.discard(neighbour)
        if state is LinkState.FAILED:
            self.lost.add(neighbour)
        if state is LinkState.UP:
            self._opened.add(neighbour)
            self.linked[neighbour] = None
            out.append(LinkReady(neighbour))
        elif state is LinkState.ENDED or not had_been_up:
            self._opened.discard(neighbour)
            self._own.discard(neighbour)
            if not was_ending:
                self._try_later(neighbour, now_us, out)
        return had_been_up and not (was_ending and state is LinkState.ENDED)

    def departed(self, neighbour: BrokerId) -> None:
        """A link that has failed will not come up again; a later view may want another.

        No view follows a link that had not been up: it is opened anew (`RETRY`).
        """
        if neighbour in self._opened and neighbour not in self.linked:
            self._opened.discard(neighbour)
            self._own.discard(neighbour)
            self.over.add(neighbour)

    def _try_later(self, neighbour: BrokerId, now_us: int, out: list[Effect]) -> None:
        if not self._later:
            out.append(SetTimer(RETRY, now_us + RETRY_US))
        self._later.add(neighbour)

    def retry(self) -> None:
        self._later.clear()

    def open(
        self, agreed: Iterable[BrokerId], others: Iterable[BrokerId], out: list[Effect]
    ) -> None:
        """Open those that are not there: those both ends want if this is the first, the others."""
        to_open = [each for each in (*agreed, *self.asked) if self._broker < each]
        barred = {self._broker, *self._later, *self.over}
        for each in dict.fromkeys((*to_open, *others, *self._demanded)):
            if each not in self._opened and each not in barred:
                self._opened.add(each)
                self._own.add(each)
                out.append(OpenLink(each, is_lasting=True))

    def demand(self, broker: BrokerId, out: list[Effect]) -> None:
        """This broker has a message for another: open a link if there is no agreed one."""
        if broker in self.asked:
            return
        # One that is up may be about to end.
        if broker in self._demanded or not self.may_send(broker):
            self._demanded[broker] = True
            self.open((), (), out)

    # --- unneeded links ------------------------------------------------------------------------

    def tidy(
        self, needed: Collection[BrokerId], members: Collection[BrokerId], out: list[Effect]
    ) -> None:
        """Request the end of links that this broker opened and does not need any more."""
        self._demanded = {each: False for each, of_late in self._demanded.items() if of_late}
        for each in sorted(self._own & self.linked.keys() - self._ending):
            if each in members and not self._is_needed(each, needed):
                self._ending.add(each)
                out.append(Send(each, EndWanted()))

    def end_wanted(
        self, neighbour: BrokerId, needed: Collection[BrokerId], out: list[Effect]
    ) -> None:
        """The other end does not need the link any more."""
        if self._is_needed(neighbour, needed):
            out.append(Send(neighbour, EndRefused()))
        else:
            self._ending.add(neighbour)
            out.append(EndLink(neighbour))

    def end_refused(self, neighbour: BrokerId) -> None:
        """The other end of a link still needs it."""
        self._ending.discard(neighbour)

    def _is_needed(self, other: BrokerId, needed: Collection[BrokerId]) -> bool:
        return other in needed or other in self.asked or other in self._demanded

    def end_all(self, out: list[Effect]) -> None:
        """End all that there are."""
        ending, self._opened = self._opened | set(self.linked), set()
        out.extend(EndLink(each) for each in sorted(ending))

"""Attachments: the brokers by which a broker links up and enters other clusters, under failures.

For each purpose there is a list of candidates, best first, that all brokers compute from labels
alone. The best candidate that is ready (has sent the required announcements) is used. Better ones
that are not connected are asked for a link, from the best down, and again after `retry_us`. So all
brokers repair alike without agreement: a broker that has lost its parent links to its nearest
living ancestor, and a host enters a cluster by the nearest living broker to the one that died.

| a candidate | action |
| --- | --- |
| is ready | it is used, unless a better one is; links opened to worse ones end |
| is linked, and better than the used one | is awaited |
| is lost, or does not answer | the next one is asked; it is asked again later |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from shoal.broker.effects import Effect, EndLink, OpenLink, SetTimer, TimerKey
from shoal.model import BrokerId

TIMER: TimerKey = ("attachments",)


class Attachment:
    """One purpose: its candidates, best first, and the one in use."""

    def __init__(self, candidates: Iterable[BrokerId]) -> None:
        self.candidates = tuple(candidates)
        self.current: BrokerId | None = None

    def choose_from(self, candidates: Iterable[BrokerId]) -> None:
        """Set the candidates; the one in use stays one of them while it is used."""
        found = list(candidates)
        if self.current is not None and self.current not in found:
            found.append(self.current)
        self.candidates = tuple(found)


class Attachments:
    """All purposes of one broker.

    `given` are the brokers that the driver links by itself. `awaited` is called for a broker whose
    announcements are needed for a purpose, `switched` when another broker, or none, is used for it.
    A link that another end needs (`is_needed`) is not ended. `may_leave` permits at a time to leave
    the used broker for a better one, and prepares that; until then it is called again.
    """

    def __init__(
        self,
        purposes: Sequence[Attachment],
        given: Sequence[BrokerId],
        retry_us: int,
        awaited: Callable[[Attachment, BrokerId, list[Effect]], None],
        switched: Callable[[Attachment, BrokerId | None, list[Effect]], None],
        is_needed: Callable[[BrokerId], bool],
        may_leave: Callable[[Attachment, int, list[Effect]], bool],
    ) -> None:
        self.purposes = list(purposes)
        self._given = frozenset(given)
        self._retry_us = retry_us
        self._awaited = awaited
        self._switched = switched
        self._is_needed = is_needed
        self._may_leave = may_leave
        self._linked: set[BrokerId] = set()
        self._ready: set[tuple[Attachment, BrokerId]] = set()
        self._absent: set[BrokerId] = set()
        self._asked: set[BrokerId] = set()
        self._opened: set[BrokerId] = set()
        self._is_timer_set = False

    def opened(self, broker: BrokerId) -> None:
        """This end opened the link to a broker: it ends when no purpose needs it."""
        self._opened.add(broker)

    def departed(self, broker: BrokerId) -> None:
        """The driver opens no link to a broker any more: it is asked for one, as others are."""
        self._given -= {broker}

    def linked(self, broker: BrokerId) -> None:
        """A link to a broker came up; it has announced nothing yet."""
        self._linked.add(broker)
        self._absent.discard(broker)
        if broker in self._asked:
            self._asked.discard(broker)
            self._opened.add(broker)
        self._ready = {entry for entry in self._ready if entry[1] != broker}

    def unlinked(self, broker: BrokerId, out: list[Effect]) -> None:
        """A broker's link is lost, or did not come up."""
        self._linked.discard(broker)
        self._asked.discard(broker)
        self._opened.discard(broker)
        self._absent.add(broker)
        self._ready = {entry for entry in self._ready if entry[1] != broker}
        for purpose in self.purposes:
            if purpose.current == broker:
                self._use(purpose, None, out)

    def ready(self, purpose: Attachment, broker: BrokerId) -> None:
        """A broker has sent the announcements that a purpose needs."""
        if broker in self._linked and broker in purpose.candidates:
            self._ready.add((purpose, broker))

    def is_ready(self, purpose: Attachment, broker: BrokerId) -> bool:
        """Whether a broker is ready for a purpose, and nothing was lost since."""
        return (purpose, broker) in self._ready

    def forgotten(self, purpose: Attachment, broker: BrokerId) -> None:
        """A broker gets no announcements for a purpose any more: it has to become ready anew."""
        self._ready.discard((purpose, broker))

    def retry(self) -> None:
        """The timer fired: absent brokers may be asked again."""
        self._is_timer_set = False
        self._absent &= self._given

    def settle(self, now_us: int, out: list[Effect]) -> None:
        """After any change: use the best ready candidates, ask for better ones."""
        for purpose in self.purposes:
            self._choose(purpose, now_us, out)
        self._end_unused(out)
        is_whole = all(
            not purpose.candidates or purpose.current == purpose.candidates[0]
            for purpose in self.purposes
        )
        if not is_whole and not self._is_timer_set:
            self._is_timer_set = True
            out.append(SetTimer(TIMER, now_us + self._retry_us))

    def _choose(self, purpose: Attachment, now_us: int, out: list[Effect]) -> None:
        is_behind = False
        for candidate in purpose.candidates:
            if (purpose, candidate) in self._ready:
                is_free = is_behind or purpose.current is None
                if candidate != purpose.current and (
                    is_free or self._may_leave(purpose, now_us, out)
                ):
                    self._use(purpose, candidate, out)
                return
            if is_behind:
                # The used broker has yet to become ready again; no worse one is awaited for that.
                continue
            is_behind = candidate == purpose.current
            if candidate in self._linked:
                # It will be ready soon; no worse one is asked meanwhile.
                self._awaited(purpose, candidate, out)
                if purpose.current is None and not self._has_ready(purpose):
                    return
            elif candidate not in self._absent:
                if candidate not in self._given and candidate not in self._asked:
                    self._asked.add(candidate)
                    out.append(OpenLink(candidate))
                if not self._has_ready(purpose):
                    return

    def _has_ready(self, purpose: Attachment) -> bool:
        return any(found is purpose for found, _ in self._ready)

    def _use(self, purpose: Attachment, broker: BrokerId | None, out: list[Effect]) -> None:
        purpose.current, before = broker, purpose.current
        self._switched(purpose, before, out)

    def _end_unused(self, out: list[Effect]) -> None:
        used = {purpose.current for purpose in self.purposes if purpose.candidates}
        if None in used:
            return  # a candidate may still be awaited
        for broker in sorted(self._opened - used):
            if self._is_needed(broker):
                continue
            worse = [each for each in self.purposes if broker in each.candidates]
            if all(is_worse(broker, each) for each in worse):
                self._opened.discard(broker)
                out.append(EndLink(broker))


def is_worse(broker: BrokerId, purpose: Attachment) -> bool:
    """Whether the broker is a worse candidate than the one in use."""
    if purpose.current in (None, broker):
        return False
    for candidate in purpose.candidates:
        if candidate in (broker, purpose.current):
            return candidate == purpose.current
    return True

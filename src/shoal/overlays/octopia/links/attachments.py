"""By whom a broker links up in its cluster and enters the others, as brokers die and come back.

For each purpose there is a list of candidates, best first, that everybody computes from labels
alone.  The best one that has said what must be known before it is used is used; one that is better
and not there is asked for a link, from the best down, and again after a while.  So all repair alike
and nobody asks anybody: whose parent died links to its nearest living ancestor, and a host enters a
cluster by the nearest living broker to the one that died.

| a candidate | does |
| --- | --- |
| says all | it is used, unless a better one is; what was opened to worse ones is ended |
| is linked, and better than who is used | is awaited |
| is given up, or does not answer | the next one is asked; it is asked again later |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from shoal.broker.effects import Effect, EndLink, OpenLink, SetTimer, TimerKey
from shoal.model import BrokerId

TIMER: TimerKey = ("attachments",)


class Attachment:
    """One purpose: its candidates, best first, and who is used now."""

    def __init__(self, candidates: Iterable[BrokerId]) -> None:
        self.candidates = tuple(candidates)
        self.current: BrokerId | None = None

    def choose_from(self, candidates: Iterable[BrokerId]) -> None:
        """These are its candidates from now on; who is used is one of them as long as it is."""
        found = list(candidates)
        if self.current is not None and self.current not in found:
            found.append(self.current)
        self.candidates = tuple(found)


class Attachments:
    """All purposes of one broker.

    `given` are the brokers that the driver links by itself.  `awaited` is told who is to say what
    must be known of it for a purpose, `switched` when another, or nobody, is used for it.  A link
    that another end needs (`is_needed`) is not ended.  `may_leave` says whether, at a time, who is
    used may be left for somebody better, and sees to it; until then that is tried again.
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
        """The link to a broker was opened from here: it ends when nobody needs it."""
        self._opened.add(broker)

    def linked(self, broker: BrokerId) -> None:
        """A link to a broker came up; it has said nothing yet."""
        self._linked.add(broker)
        self._absent.discard(broker)
        if broker in self._asked:
            self._asked.discard(broker)
            self._opened.add(broker)
        self._ready = {entry for entry in self._ready if entry[1] != broker}

    def unlinked(self, broker: BrokerId, out: list[Effect]) -> None:
        """A broker's link is gone, or did not come up."""
        self._linked.discard(broker)
        self._asked.discard(broker)
        self._opened.discard(broker)
        self._absent.add(broker)
        self._ready = {entry for entry in self._ready if entry[1] != broker}
        for purpose in self.purposes:
            if purpose.current == broker:
                self._use(purpose, None, out)

    def ready(self, purpose: Attachment, broker: BrokerId) -> None:
        """A broker has said what must be known of it for a purpose."""
        if broker in self._linked and broker in purpose.candidates:
            self._ready.add((purpose, broker))

    def is_ready(self, purpose: Attachment, broker: BrokerId) -> bool:
        """Whether a broker has said that, and nothing was lost since."""
        return (purpose, broker) in self._ready

    def forgotten(self, purpose: Attachment, broker: BrokerId) -> None:
        """A broker is told no more what it must know for a purpose: it has to say all anew."""
        self._ready.discard((purpose, broker))

    def retry(self) -> None:
        """The timer fired: who was not there may be."""
        self._is_timer_set = False
        self._absent &= self._given

    def settle(self, now_us: int, out: list[Effect]) -> None:
        """After any change: use the best there are, ask for better ones."""
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
                # Who is used has yet to say all anew; nobody worse is awaited for that.
                continue
            is_behind = candidate == purpose.current
            if candidate in self._linked:
                # It will be ready soon; nobody worse is asked meanwhile.
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
            return  # somebody may still be awaited
        for broker in sorted(self._opened - used):
            if self._is_needed(broker):
                continue
            worse = [each for each in self.purposes if broker in each.candidates]
            if all(is_worse(broker, each) for each in worse):
                self._opened.discard(broker)
                out.append(EndLink(broker))


def is_worse(broker: BrokerId, purpose: Attachment) -> bool:
    """Whether the broker is a worse candidate than who is used."""
    if purpose.current in (None, broker):
        return False
    for candidate in purpose.candidates:
        if candidate in (broker, purpose.current):
            return candidate == purpose.current
    return True

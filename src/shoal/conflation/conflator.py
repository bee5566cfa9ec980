"""The state of one conflated subscription: intervals, held messages, and values delivered last.

>>> from shoal.language.conflation_rules import read_conflation
>>> conflator = Conflator(read_conflation("10s", ""))
>>> key = ("t",)
>>> conflator.opens(key, ()), conflator.delivered(key, (), 0), conflator.opens(key, ())
(True, None, False)
>>> conflator.hold(key, (), "b", 3_000_000), conflator.hold(key, (), "c", 7_000_000)
(None, 'b')
>>> conflator.next_us, conflator.end_interval(9_000_000), conflator.end_interval(10_000_000)
(10000000, None, EndedInterval(key=('t',), message='c', values=()))
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Generic, NamedTuple, TypeVar

from shoal.conflation.key_values import KeyName, differs
from shoal.language.conflation_rules import ConflationRule
from shoal.model import Value

Message = TypeVar("Message")
Values = tuple[Value | None, ...]
# The place of a message in an ordered stream: the stream's name, and a growing number.
Place = tuple[str, int]

# The most keys of one subscription.
MOST_KEYS = 10_000
# The heap is rebuilt when so many of its entries, and most of them, are obsolete.
_STALE_MINIMUM = 1_000


class ConflatedKey(Generic[Message]):
    """The state of one key.

    `ends_us` is the end of its interval, None while none runs; `last` are the values of the message
    delivered last, None before the first; `held_values` are those of the `held` message. `live_us`
    is for the caller: the time of the newest message that was not retained.
    """

    __slots__ = ("ends_us", "held", "held_values", "last", "live_us", "newest")

    def __init__(self) -> None:
        self.ends_us: int | None = None
        self.last: Values | None = None
        self.held: Message | None = None
        self.held_values: Values = ()
        # The place of the newest message, if it has one.
        self.newest: Place | None = None
        self.live_us = 0


class KeyState(NamedTuple, Generic[Message]):
    """The state of one key at one time, as journals and transfers keep it (see `ConflatedKey`)."""

    ends_us: int | None = None
    last: Values | None = None
    held: Message | None = None
    held_values: Values = ()
    newest: Place | None = None


class KeyCount:
    """The number of keys of several subscriptions."""

    __slots__ = ("keys",)

    def __init__(self) -> None:
        self.keys = 0


class EndedInterval(NamedTuple, Generic[Message]):
    """A held message whose interval has ended, with its key and its values."""

    key: KeyName
    message: Message
    values: Values


class Conflator(Generic[Message]):
    """The keys of one subscription, those delivered longest ago first.

    A caller asks whether a key `opens` for a message, and then either delivers the message and says
    so (`delivered`), or has it held (`hold`). Times are µs of one clock.
    """

    def __init__(self, rule: ConflationRule, most: int = MOST_KEYS) -> None:
        self.rule = rule
        self.most = most
        self._count = KeyCount()
        self._keys: OrderedDict[KeyName, ConflatedKey[Message]] = OrderedDict()
        # The ends of intervals; an entry counts if it is its key's `ends_us`.
        self._ends: list[tuple[int, int, KeyName]] = []
        self._serials = count()

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[KeyName]:
        return iter(self._keys)

    def get(self, key: KeyName) -> ConflatedKey[Message] | None:
        """The state of a key; None for a key that is idle, or was never seen."""
        return self._keys.get(key)

    def count_in(self, count: KeyCount) -> None:
        """Count its keys here from now on."""
        self._count.keys -= len(self._keys)
        self._count = count
        count.keys += len(self._keys)

    # --- a message comes ----------------------------------------------------------------------

    def is_in_interval(self, key: KeyName) -> bool:
        """Whether an interval of the key runs, or a message of it is held."""
        state = self._keys.get(key)
        return state is not None and state.ends_us is not None

    def has_changed(self, key: KeyName, values: Values) -> bool:
        """Whether `$changed` lets a message with these values pass."""
        changes, state = self.rule.changes, self._keys.get(key)
        if not changes or state is None or state.last is None:
            return True
        old = state.last
        return any(map(differs, old, values, (each.least for each in changes)))

    def opens(self, key: KeyName, values: Values) -> bool:
        """Whether a message that comes now is to be delivered at once."""
        return not self.is_in_interval(key) and self.has_changed(key, values)

    def is_outdated(self, key: KeyName, place: Place | None) -> bool:
        """Whether a later message of the same stream has come before: links that failed, or kills,
        may change the order."""
        state = self._keys.get(key)
        newest = state.newest if state is not None else None
        return newest is not None and place is not None and _is_later(newest, place)

    def delivered(
        self, key: KeyName, values: Values, now_us: int, place: Place | None = None
    ) -> Message | None:
        """Note a delivery: an interval starts. Returns the held message that it supersedes."""
        state = self._of(key)
        state.newest = place
        self._keys.move_to_end(key)
        superseded, state.held, state.held_values = state.held, None, ()
        if self.rule.changes:
            state.last = values
        if self.rule.every_us:
            self._set_end(key, state, now_us + self.rule.every_us)
        else:
            state.ends_us = None
        return superseded

    def hold(
        self,
        key: KeyName,
        values: Values,
        message: Message,
        now_us: int,
        place: Place | None = None,
    ) -> Message | None:
        """Hold a message until its interval ends, at once where none runs.

        Returns the held message that it supersedes.
        """
        state = self._of(key)
        state.newest = place
        superseded, state.held, state.held_values = state.held, message, values
        if state.ends_us is None:
            self._set_end(key, state, now_us)
        return superseded

    def suppressed(self, key: KeyName, place: Place | None) -> None:
        """Note an unchanged message: messages that were sent before it are outdated."""
        state = self._keys.get(key)
        if state is not None:
            state.newest = place

    def release(self, key: KeyName) -> Message | None:
        """Take out the held message of a key; its interval goes on."""
        state = self._keys.get(key)
        if state is None:
            return None
        message, state.held, state.held_values = state.held, None, ()
        return message

    # --- time passes --------------------------------------------------------------------------

    @property
    def next_us(self) -> int | None:
        """The end of the next interval; None if none runs."""
        ends = self._ends
        while ends and not self._counts(ends[0]):
            heappop(ends)
        return ends[0][0] if ends else None

    def end_interval(self, now_us: int) -> EndedInterval[Message] | None:
        """End the intervals that are over, up to the first with a held message; take that out."""
        while (next_us := self.next_us) is not None and next_us <= now_us:
            ended = self.end_interval_of(self._ends[0][2], now_us)
            if ended is not None:
                return ended
        return None

    def end_interval_of(self, key: KeyName, now_us: int) -> EndedInterval[Message] | None:
        """End the interval of one key, if it is over; take out its held message."""
        state = self._keys.get(key)
        if state is None or state.ends_us is None or state.ends_us > now_us:
            return None
        state.ends_us = None
        message, values = state.held, state.held_values
        state.held, state.held_values = None, ()
        self.forget_if_idle(key)
        return None if message is None else EndedInterval(key, message, values)

    def forget_if_idle(self, key: KeyName) -> None:
        """Forget a key that is as if it were never seen."""
        state = self._keys.get(key)
        if state is not None and state.ends_us is None and state.last is None:
            del self._keys[key]
            self._count.keys -= 1

    # --- bounds, and state from elsewhere -----------------------------------------------------

    def is_full_for(self, key: KeyName) -> bool:
        """Whether a key is new, and there is no room for it."""
        return len(self._keys) >= self.most and key not in self._keys

    def forget_oldest(self) -> EndedInterval[Message] | None:
        """Forget the key that was delivered longest ago; returns its held message."""
        key, state = self._keys.popitem(last=False)
        self._count.keys -= 1
        if state.held is None:
            return None
        return EndedInterval(key, state.held, state.held_values)

    def state_of(self, key: KeyName) -> KeyState[Message] | None:
        """The state of a key as it is; None for a key that is idle, or was never seen."""
        state = self._keys.get(key)
        if state is None:
            return None
        return KeyState(state.ends_us, state.last, state.held, state.held_values, state.newest)

    def restore(self, key: KeyName, known: KeyState[Message], now_us: int) -> None:
        """Restore the state of a key; the interval of a held message ends now if none runs.

        No interval is longer than the rule's: the clock may have been set back.
        """
        state = self._of(key)
        ends_us, last, held, held_values, newest = known
        if ends_us is not None:
            ends_us = min(ends_us, now_us + self.rule.every_us)
        state.last, state.newest = last, newest
        state.held, state.held_values = held, held_values
        if held is not None or (ends_us is not None and ends_us > now_us):
            self._set_end(key, state, now_us if ends_us is None else ends_us)
        self.forget_if_idle(key)

    def _of(self, key: KeyName) -> ConflatedKey[Message]:
        state = self._keys.get(key)
        if state is None:
            state = self._keys[key] = ConflatedKey()
            self._count.keys += 1
        return state

    def _set_end(self, key: KeyName, state: ConflatedKey[Message], ends_us: int) -> None:
        state.ends_us = ends_us
        heappush(self._ends, (ends_us, next(self._serials), key))
        if len(self._ends) > 2 * len(self._keys) + _STALE_MINIMUM:
            self._ends = [each for each in self._ends if self._counts(each)]
            heapify(self._ends)

    def _counts(self, entry: tuple[int, int, KeyName]) -> bool:
        """Whether an entry of the heap is the end of its key's interval."""
        state = self._keys.get(entry[2])
        return state is not None and state.ends_us == entry[0]


def _is_later(one: Place, other: Place) -> bool:
    """Whether a message comes after another in one stream; False for two streams."""
    return one[0] == other[0] and one[1] > other[1]

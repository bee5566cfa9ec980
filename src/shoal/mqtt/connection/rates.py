"""How fast clients and users may publish: a client above its rate is read more slowly.

Each client and each user has a bucket of tokens for messages and one for bytes.  A bucket fills at
the rate that `Limits` grant and holds one second of it.  A publication is taken while no bucket is
in debt, and may leave one in debt; then the connection waits until the debt is paid.  So a client
that is connected stays connected, and what it sent stays in its order.

| a publication | what becomes of it |
| --- | --- |
| comes while no bucket is in debt | taken, and paid for |
| comes while one is | waits; beyond what a connection may hold its socket is not read |
| takes more than `LONGEST_S` of a rate by itself, MQTT 5 at QoS 1 or 2 | refused with 0x97 |
| the same, at QoS 0 or of 3.1.1, which cannot be told | taken, and paid for by waiting |

Buckets belong to client identifiers and not to connections: a client that connects again has the
debt that it left with.  A full bucket is the same as none, so full ones are forgotten.

>>> bucket = Bucket(rate=10, now_us=0)
>>> bucket.take(30, now_us=0), bucket.debt_us(0), bucket.debt_us(1_500_000)
(None, 2000000, 500000)
"""

from __future__ import annotations

from shoal.mqtt.limits import MICROSECONDS, Limits
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.statistics import Statistics
from shoal.mqtt.timers import Timers

RATE_TIMER = "rate"
# A publication that takes longer than this to pay for is refused, where it can be.
LONGEST_S = 10
# A connection that had to wait goes on when it can publish for so long: it is not woken for each
# message of a fast client.
SHORTEST_US = MICROSECONDS // 20
# One client is said to be slowed down once in so long.
SAID_US = 60 * MICROSECONDS
# Buckets that are looked through for full ones, when there are twice as many as were left.
FEW = 1_000

# Whose bucket, and of what.
Key = tuple[str, str, str]


class Bucket:
    """Tokens in micro-units, so that integers are exact; `rate` of them come in a second."""

    __slots__ = ("_at_us", "_tokens", "rate")

    def __init__(self, rate: int, now_us: int) -> None:
        self.rate = rate
        self._tokens = rate * MICROSECONDS
        self._at_us = now_us

    def take(self, count: int, now_us: int) -> None:
        """Take so many, which may leave a debt."""
        self._fill(now_us)
        self._tokens -= count * MICROSECONDS

    def debt_us(self, now_us: int) -> int:
        """How long it takes to pay the debt; 0 without one."""
        self._fill(now_us)
        return max(0, -self._tokens // self.rate)

    def is_full(self, now_us: int) -> bool:
        self._fill(now_us)
        return self._tokens >= self.rate * MICROSECONDS

    def _fill(self, now_us: int) -> None:
        passed_us = max(0, now_us - self._at_us)
        self._at_us = max(now_us, self._at_us)
        self._tokens = min(self._tokens + passed_us * self.rate, self.rate * MICROSECONDS)


class Purse:
    """The buckets from which one client pays, a message and its bytes."""

    __slots__ = ("_all", "_bytes", "_messages")

    def __init__(self, messages: list[Bucket], of_bytes: list[Bucket]) -> None:
        self._messages, self._bytes = messages, of_bytes
        self._all = messages + of_bytes

    def debt_us(self, now_us: int) -> int:
        """How long it takes to pay what is owed; 0 without a debt."""
        return max([bucket.debt_us(now_us) for bucket in self._all])

    def pay(self, size: int, now_us: int) -> None:
        """For a packet of so many bytes."""
        for bucket in self._messages:
            bucket.take(1, now_us)
        for bucket in self._bytes:
            bucket.take(size, now_us)


class Rates:
    """The buckets of one broker's clients and users; `is_on` while there is any rate."""

    def __init__(self, limits: Limits, statistics: Statistics, timers: Timers) -> None:
        self._statistics = statistics
        self._timers = timers
        self._buckets: dict[Key, Bucket] = {}
        self._waiting: set[ClientConnection] = set()
        self._tidy_at = FEW
        # When each client was last said to be slowed down.
        self._said_us: dict[str, int] = {}
        self.renew(limits)

    def renew(self, limits: Limits) -> None:
        """From now on these rates hold."""
        self._client = (limits.maximum_messages_per_s, limits.maximum_bytes_per_s)
        self._user = (limits.maximum_user_messages_per_s, limits.maximum_user_bytes_per_s)
        self.is_on = any((*self._client, *self._user))
        self._buckets.clear()
        for connection in list(self._waiting):
            self.go_on(connection)

    def is_too_large(self, size: int) -> bool:
        """Whether one publication of so many bytes takes more than `LONGEST_S` of a rate."""
        rates = (self._client[1], self._user[1])
        return any(rate and size > LONGEST_S * rate for rate in rates)

    def purse(self, session: Session, now_us: int) -> Purse:
        """What the client pays from; it holds until the next one is asked for."""
        if len(self._buckets) >= self._tidy_at:
            self._tidy(now_us)
        return Purse(
            *(
                [
                    self._bucket((*whose, what), rate, now_us)
                    for whose, rates in (
                        (("client", session.client_id), self._client),
                        (_owner(session), self._user),
                    )
                    if (rate := rates[place])
                ]
                for place, what in enumerate(("messages", "bytes"))
            )
        )

    def let_wait(
        self, session: Session, connection: ClientConnection, debt_us: int, now_us: int
    ) -> None:
        """The client has a debt to pay before its next publication is taken."""
        connection.is_over_rate = True
        self._waiting.add(connection)
        self._timers.set((RATE_TIMER, connection), now_us + debt_us + SHORTEST_US)
        self._statistics.slowed += 1
        self._say(session.client_id, connection, now_us)

    def go_on(self, connection: ClientConnection) -> None:
        """The connection has waited long enough, or is gone."""
        if connection not in self._waiting:
            return
        self._waiting.discard(connection)
        connection.is_over_rate = False
        self._timers.cancel((RATE_TIMER, connection))

    def _bucket(self, key: Key, rate: int, now_us: int) -> Bucket:
        found = self._buckets.get(key)
        if found is None:
            found = self._buckets[key] = Bucket(rate, now_us)
        return found

    def _tidy(self, now_us: int) -> None:
        kept = {key: each for key, each in self._buckets.items() if not each.is_full(now_us)}
        self._buckets = kept
        self._tidy_at = max(FEW, 2 * len(kept))

    def _say(self, client_id: str, connection: ClientConnection, now_us: int) -> None:
        """An operator hears of each client now and then."""
        said = self._said_us
        if now_us - said.get(client_id, now_us - SAID_US) < SAID_US:
            return
        if len(said) >= FEW:
            said.clear()
        said[client_id] = now_us
        reason = "it publishes faster than [limits] allow"
        self._statistics.notices.note("slowed down", connection.party, "", reason)


def _owner(session: Session) -> tuple[str, str]:
    """Whose rate a user's is; a client without a name is a user by itself."""
    return ("user", session.user) if session.user else ("nobody", session.client_id)

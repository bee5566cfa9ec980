"""Rate limits of clients and users: a client above its rate is read more slowly.

Each client and each user has a token bucket for messages and one for bytes. A bucket fills at the
rate of `MqttLimits` and holds one second of it. A publication is handled while no bucket is in
debt, and may leave one in debt; then the connection waits until the debt is paid. So a client
above its rate stays connected, and its publications stay in order.

| a publication | its handling |
| --- | --- |
| arrives while no bucket is in debt | handled, and paid for |
| arrives while a bucket is in debt | waits; above a bound its socket is not read |
| takes more than `LONGEST_S` of a rate by itself, MQTT 5 at QoS 1 or 2 | refused with 0x97 |
| the same, at QoS 0 or of 3.1.1, which have no refusal | handled, and paid for by waiting |

Buckets belong to client identifiers and not to connections: a client that reconnects keeps its
debt. A full bucket is the same as none, so full ones are dropped.

>>> bucket = TokenBucket(rate=10, now_us=0)
>>> bucket.take(30, now_us=0), bucket.debt_us(0), bucket.debt_us(1_500_000)
(None, 2000000, 500000)
"""

from __future__ import annotations

from shoal.mqtt.limits import MICROSECONDS, MqttLimits
from shoal.mqtt.sessions.delivering.outgoing import ClientConnection
from shoal.mqtt.sessions.session import Session
from shoal.mqtt.statistics import Statistics
from shoal.mqtt.timers import MqttTimers

RATE_TIMER = "rate"
# A publication that takes longer than this to pay for is refused, if its protocol allows it.
LONGEST_S = 10
# A suspended connection resumes with tokens for at least so long: it is not woken for each message
# of a fast client.
SHORTEST_US = MICROSECONDS // 20
# The interval of notices about the same client.
SAID_US = 60 * MICROSECONDS
# The number of buckets at which full ones are dropped, at least.
FEW = 1_000

# The owner of a bucket, and its unit.
Key = tuple[str, str, str]


class TokenBucket:
    """Tokens in micro-units, so that integers are exact; `rate` of them are added per second."""

    __slots__ = ("_at_us", "_tokens", "rate")

    def __init__(self, rate: int, now_us: int) -> None:
        self.rate = rate
        self._tokens = rate * MICROSECONDS
        self._at_us = now_us

    def take(self, count: int, now_us: int) -> None:
        """Take tokens, which may leave a debt."""
        self._fill(now_us)
        self._tokens -= count * MICROSECONDS

    def debt_us(self, now_us: int) -> int:
        """The time until the debt is paid; 0 without one."""
        self._fill(now_us)
        return max(0, -self._tokens // self.rate)

    def is_full(self, now_us: int) -> bool:
        self._fill(now_us)
        return self._tokens >= self.rate * MICROSECONDS

    def _fill(self, now_us: int) -> None:
        passed_us = max(0, now_us - self._at_us)
        self._at_us = max(now_us, self._at_us)
        self._tokens = min(self._tokens + passed_us * self.rate, self.rate * MICROSECONDS)


class ClientBuckets:
    """The buckets that pay for one client's messages and bytes."""

    __slots__ = ("_all", "_bytes", "_messages")

    def __init__(self, messages: list[TokenBucket], of_bytes: list[TokenBucket]) -> None:
        self._messages, self._bytes = messages, of_bytes
        self._all = messages + of_bytes

    def debt_us(self, now_us: int) -> int:
        """The time until all debts are paid; 0 without one."""
        return max([bucket.debt_us(now_us) for bucket in self._all])

    def pay(self, size: int, now_us: int) -> None:
        """Pay for a packet of `size` bytes."""
        for bucket in self._messages:
            bucket.take(1, now_us)
        for bucket in self._bytes:
            bucket.take(size, now_us)


class RateLimits:
    """The buckets of one broker's clients and users; `is_on` while any rate is limited."""

    def __init__(self, limits: MqttLimits, statistics: Statistics, timers: MqttTimers) -> None:
        self._statistics = statistics
        self._timers = timers
        self._buckets: dict[Key, TokenBucket] = {}
        self._waiting: set[ClientConnection] = set()
        self._tidy_at = FEW
        # The time of each client's last notice.
        self._said_us: dict[str, int] = {}
        self.renew(limits)

    def renew(self, limits: MqttLimits) -> None:
        """Install new rates."""
        self._client = (limits.maximum_messages_per_s, limits.maximum_bytes_per_s)
        self._user = (limits.maximum_user_messages_per_s, limits.maximum_user_bytes_per_s)
        self.is_on = any((*self._client, *self._user))
        self._buckets.clear()
        for connection in list(self._waiting):
            self.resume(connection)

    def is_too_large(self, size: int) -> bool:
        """Whether one publication of `size` bytes takes more than `LONGEST_S` of a rate."""
        rates = (self._client[1], self._user[1])
        return any(rate and size > LONGEST_S * rate for rate in rates)

    def purse(self, session: Session, now_us: int) -> ClientBuckets:
        """The client's buckets; they are valid until the next call."""
        if len(self._buckets) >= self._tidy_at:
            self._tidy(now_us)
        return ClientBuckets(
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
        """Suspend the client's publications until its debt is paid."""
        connection.is_over_rate = True
        self._waiting.add(connection)
        self._timers.set((RATE_TIMER, connection), now_us + debt_us + SHORTEST_US)
        self._statistics.slowed += 1
        self._say(session.client_id, connection, now_us)

    def resume(self, connection: ClientConnection) -> None:
        """Resume a suspended connection, or forget it."""
        if connection not in self._waiting:
            return
        self._waiting.discard(connection)
        connection.is_over_rate = False
        self._timers.cancel((RATE_TIMER, connection))

    def _bucket(self, key: Key, rate: int, now_us: int) -> TokenBucket:
        found = self._buckets.get(key)
        if found is None:
            found = self._buckets[key] = TokenBucket(rate, now_us)
        return found

    def _tidy(self, now_us: int) -> None:
        kept = {key: each for key, each in self._buckets.items() if not each.is_full(now_us)}
        self._buckets = kept
        self._tidy_at = max(FEW, 2 * len(kept))

    def _say(self, client_id: str, connection: ClientConnection, now_us: int) -> None:
        """Send a notice about the client, unless one was sent lately."""
        said = self._said_us
        if now_us - said.get(client_id, now_us - SAID_US) < SAID_US:
            return
        if len(said) >= FEW:
            said.clear()
        said[client_id] = now_us
        reason = "it publishes faster than [limits] allow"
        self._statistics.notices.note("slowed down", connection.party, "", reason)


def _owner(session: Session) -> tuple[str, str]:
    """The owner of a user's buckets; a client without a name is a user by itself."""
    return ("user", session.user) if session.user else ("nobody", session.client_id)

"""Conflation: of the messages that match a subscription, only those that its rule asks for.

A rule (`shoal.language.conflation_rules`) has an interval, `$every`, or values, `$changed`, or
both. Its state is per subscription and key: the topic, and the values behind BY.

| rule | message of a key | effect |
| --- | --- | --- |
| `$every` | no interval runs | delivered; an interval starts |
| `$every` | an interval runs | held; it supersedes the message held before |
| `$every` | the interval ends, one is held | delivered; the next interval starts |
| `$every` | the interval ends, none is held | the key is idle |
| `$changed` | a value differs from that of the message delivered last | delivered |
| `$changed` | none differs | suppressed |
| both | an interval runs | held, changed or not |
| both | the interval ends | the held message is delivered if it has changed; else the key is idle |

So two deliveries of a key are at least an interval apart, and the newest message of a key is at
most an interval late. `Conflator` has the state of one subscription, pure: callers tell it the
time, and hand over the messages that it names.

The term is that of market data and of AMPS (conflated subscriptions); DDS has the interval alone
(`TIME_BASED_FILTER`), OPC UA the difference alone (deadband).

Decisions
---------

- **`$changed` compares with the message delivered last**, not with the message before: a slow drift
  in steps below the difference is delivered in the end.
- **No aggregates of an interval** (count, mean, least, greatest). An aggregate is a message that no
  publisher sent: it has no publisher to order it by, no key that tells a duplicate, no QoS of its
  own, and after a kill of the broker it would need every message of the open window on disk, where
  conflation keeps one. Two brokers on the way of one publisher would each make another one. A
  stream processor has these problems solved: the Spark source reads the log of all brokers, and
  `groupBy(window("time", "10 seconds"), "sensor")` gives all four numbers.
"""

from shoal.conflation.conflator import ConflatedKey, Conflator, EndedInterval, KeyCount, KeyState
from shoal.conflation.key_values import KeyName, is_same_value, key_name, key_values, shortened

__all__ = [
    "ConflatedKey",
    "Conflator",
    "EndedInterval",
    "KeyCount",
    "KeyName",
    "KeyState",
    "is_same_value",
    "key_name",
    "key_values",
    "shortened",
]

"""The receivers of a topic, searched in steps: filters may match by the 100,000."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from shoal.matching.topics.index import Overview, TopicIndex
from shoal.matching.topics.memory import TopicMemory
from shoal.mqtt.sessions.session import ClientSubscription, Session
from shoal.mqtt.sessions.subscribed.groups import SharedGroup

# Subscriptions per step.
STEP = 1_000
# Nodes and receivers of a topic that are as much work as one publication (see `TURN` in
# `serving`).
PLACES_PER_WORK = 20


class Receivers(NamedTuple):
    """The receivers of a topic, cached until any subscription changes.

    all         the subscriptions that get every publication to the topic, one per client; None if
                the receivers depend on the message. Overlapping subscriptions of a client count as
                one, of the highest QoS, with all their identifiers [MQTT-3.3.4-2 to 4]
    are_plain   whether all of them get a message of QoS 0 unchanged
    work        the work of a publication, and the number of content filters to test
    leaves      the number of matching topic filters
    asks        whether any content filter must be tested
    """

    all: tuple[ClientSubscription, ...] | None
    are_plain: bool
    work: tuple[int, int]
    leaves: int
    asks: bool


def find(index: TopicIndex, topic: str, known: TopicMemory[Receivers]) -> Iterator[int]:
    """Find the receivers of a topic, and cache them; yields the number of nodes visited.

    Subscriptions must not change until it ends.
    """
    overview = Overview()
    yield from index.survey(topic, overview)
    everybody: tuple[ClientSubscription, ...] | None = None
    if not overview.is_open:
        ids = overview.ids
        if len(ids) == 1 and type(ids[0]) is not SharedGroup:
            everybody = (ids[0],)
        elif ids:
            everybody = yield from _one_each(ids)
        else:
            everybody = ()
    conflation = sum([work_of_conflation(each) for each in everybody]) if everybody else 0
    work = 1 + overview.places // PLACES_PER_WORK + conflation, overview.filters
    are_plain = everybody is not None and all(each.is_plain for each in everybody)
    found = Receivers(everybody, are_plain, work, overview.leaves, overview.asks)
    known.keep(topic, found, len(everybody or ()))


def _one_each(
    found: Sequence[ClientSubscription],
) -> Generator[int, None, tuple[ClientSubscription, ...] | None]:
    """One subscription per session; None if only some subscriptions of a session are no-local, or
    one of several has a gate or is conflated.

    None also if a group is among them.
    """
    # One client may have tens of thousands of matching ones.
    by_session: dict[Session, list[ClientSubscription]] = {}
    for start in range(0, len(found), STEP):
        some = found[start : start + STEP]
        if SharedGroup in set(map(type, some)):
            return None
        for each in some:
            own = by_session.get(each.session)
            if own is None:
                by_session[each.session] = [each]
            elif own[0].no_local != each.no_local or _is_alone(own[0]) or _is_alone(each):
                return None
            else:
                own.append(each)
        yield len(some)
    if len(by_session) == len(found):
        return tuple(found)
    receivers, places = list[ClientSubscription](), 0
    for session, own in by_session.items():
        receivers.append(own[0] if len(own) == 1 else _together(session, own))
        places += len(own)
        if places >= STEP:
            yield places
            places = 0
    return tuple(receivers)


def work_of_conflation(subscription: ClientSubscription) -> int:
    """The work that conflation adds to a delivery."""
    return 0 if subscription.conflator is None else subscription.conflator.rule.work


def _is_alone(subscription: ClientSubscription) -> bool:
    """Whether a subscription decides about each message by itself."""
    return subscription.gate is not None or subscription.conflator is not None


def _together(session: Session, own: Sequence[ClientSubscription]) -> ClientSubscription:
    """One subscription with the effect of all of these."""
    return ClientSubscription(
        session,
        own[0].text,
        own[0].topic_filter,
        own[0].content,
        qos=max([each.qos for each in own]),
        no_local=own[0].no_local,
        retain_as_published=True in {each.retain_as_published for each in own},
        identifiers=tuple([one for each in own if each.identifiers for one in each.identifiers]),
    )

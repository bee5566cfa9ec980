"""Hypothesis strategies for every packet that can be written.

Shared strategies are made once, as making one takes longer than drawing from it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from hypothesis import strategies as st

from shoal.mqtt.codec.packet_types import MQTT_3_1_1, MQTT_5, WILL, PacketType
from shoal.mqtt.codec.packets import (
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
    WillFields,
)
from shoal.mqtt.codec.properties import NO_PROPERTIES, TABLE, Properties
from shoal.mqtt.codec.reason_codes import (
    ALLOWED_REASON_CODES,
    REASON_CODES_BY_RETURN_CODE,
    ReasonCode,
)

TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\0"), max_size=12)
NAMES = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=12)
TOPICS = (
    st.lists(st.sampled_from(["a", "", "$x", "é", "b c"]), min_size=1, max_size=3)
    .map("/".join)
    .filter(bool)
)
FILTERS = st.sampled_from(["a", "a/+", "#", "+/b/#", "$share/g/a", "/"])
PACKET_IDS = st.integers(1, 65_535)
QOS = st.integers(0, 2)
BYTE_STRINGS = st.binary(max_size=200)
BOOLEANS = st.booleans()

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "byte": st.integers(0, 1),
    "two bytes": st.integers(1, 65_535),
    "four bytes": st.integers(1, 2**32 - 1),
    "variable byte integer": st.integers(1, 268_435_455),
    "string": TEXT,
    "binary data": BYTE_STRINGS,
    "string pair": st.tuples(TEXT, TEXT),
}


@cache
def properties(place: int) -> st.SearchStrategy[Properties]:
    """Any properties of this packet, repeated if allowed."""
    rows = [row for row in TABLE if place in row.places]
    values: dict[str, st.SearchStrategy[Any]] = {}
    for row in rows:
        value = TOPICS if row.field == "response_topic" else _VALUES[row.type.value]
        if row.repeats:
            most = 1 if place == PacketType.SUBSCRIBE and row.type.value != "string pair" else 3
            value = st.lists(value, min_size=1, max_size=most).map(tuple)
        values[row.field] = value
    fields = st.lists(st.sampled_from(list(values)), max_size=4, unique=True)
    return _properties(fields, values)


@st.composite
def _properties(
    draw: st.DrawFn,
    fields: st.SearchStrategy[list[str]],
    strategies: dict[str, st.SearchStrategy[Any]],
) -> Properties:
    values = {field: draw(strategies[field]) for field in draw(fields)}
    if "authentication_data" in values:
        values.setdefault("authentication_method", "SCRAM")
    return Properties(**values) if values else NO_PROPERTIES


def _held(version: int) -> Callable[[int], st.SearchStrategy[Properties]]:
    """The properties that a version's packets hold: 3.1.1 has none."""
    return properties if version == MQTT_5 else lambda place: st.just(NO_PROPERTIES)


def _codes(place: PacketType) -> st.SearchStrategy[ReasonCode]:
    return st.sampled_from(list(ALLOWED_REASON_CODES[place].values()))


def _wills(
    held: Callable[[int], st.SearchStrategy[Properties]],
) -> st.SearchStrategy[WillFields | None]:
    return st.none() | st.builds(WillFields, NAMES, BYTE_STRINGS, QOS, st.booleans(), held(WILL))


_MAYBE_NAMES, _MAYBE_BYTE_STRINGS = st.none() | NAMES, st.none() | BYTE_STRINGS
_KEEP_ALIVES = st.integers(0, 65_535)


@st.composite
def _connects(
    draw: st.DrawFn,
    version: int,
    wills: st.SearchStrategy[WillFields | None],
    held: st.SearchStrategy[Properties],
) -> Connect:
    username = draw(_MAYBE_NAMES)
    with_password = version == MQTT_5 or username is not None
    return Connect(
        client_id=draw(TEXT),
        clean_start=draw(BOOLEANS),
        keep_alive_s=draw(_KEEP_ALIVES),
        version=version,
        username=username,
        password=draw(_MAYBE_BYTE_STRINGS) if with_password else None,
        will=draw(wills),
        properties=draw(held),
    )


@st.composite
def _publishes(draw: st.DrawFn, held: st.SearchStrategy[Properties]) -> Publish:
    qos = draw(QOS)
    return Publish(
        draw(TOPICS),
        draw(BYTE_STRINGS),
        qos,
        draw(BOOLEANS),
        bool(qos) and draw(BOOLEANS),
        draw(PACKET_IDS) if qos else 0,
        draw(held),
    )


def _requests(version: int) -> st.SearchStrategy[SubscriptionRequest]:
    if version == MQTT_3_1_1:
        return st.builds(SubscriptionRequest, FILTERS, QOS)
    return st.builds(
        SubscriptionRequest, FILTERS, QOS, st.booleans(), st.booleans(), st.integers(0, 2)
    ).filter(lambda request: not (request.no_local and request.topic_filter.startswith("$share/")))


@cache
def packets(version: int) -> st.SearchStrategy[Packet]:
    """Any packet of this version but CONNECT."""

    held = _held(version)
    kinds: list[st.SearchStrategy[Packet]] = [
        publishes(version),
        st.builds(
            Subscribe,
            PACKET_IDS,
            st.lists(_requests(version), min_size=1, max_size=3).map(tuple),
            held(PacketType.SUBSCRIBE),
        ),
        st.builds(
            Unsubscribe,
            PACKET_IDS,
            st.lists(FILTERS, min_size=1, max_size=3).map(tuple),
            held(PacketType.UNSUBSCRIBE),
        ),
        st.builds(Pingreq),
        st.builds(Pingresp),
    ]
    for kind, place in (
        (Puback, PacketType.PUBACK),
        (Pubrec, PacketType.PUBREC),
        (Pubrel, PacketType.PUBREL),
        (Pubcomp, PacketType.PUBCOMP),
    ):
        if version == MQTT_5:
            kinds.append(st.builds(kind, PACKET_IDS, _codes(place), held(place)))
        else:
            kinds.append(st.builds(kind, PACKET_IDS))
    if version == MQTT_3_1_1:
        granted = st.sampled_from([ReasonCode(number) for number in (0, 1, 2, 128)])
        returned = st.sampled_from(list(REASON_CODES_BY_RETURN_CODE.values()))
        return st.one_of(
            *kinds,
            st.builds(Connack, returned, st.booleans()),
            st.builds(Suback, PACKET_IDS, st.lists(granted, max_size=3).map(tuple)),
            st.builds(Unsuback, PACKET_IDS),
            st.builds(Disconnect),
        )
    for answer, place in ((Suback, PacketType.SUBACK), (Unsuback, PacketType.UNSUBACK)):
        codes = st.lists(_codes(place), max_size=3).map(tuple)
        kinds.append(st.builds(answer, PACKET_IDS, codes, held(place)))
    for last, place in ((Disconnect, PacketType.DISCONNECT), (Auth, PacketType.AUTH)):
        kinds.append(st.builds(last, _codes(place), held(place)))
    connack = st.builds(
        Connack, _codes(PacketType.CONNACK), st.booleans(), held(PacketType.CONNACK)
    )
    return st.one_of(*kinds, connack)


@cache
def publishes(version: int) -> st.SearchStrategy[Publish]:
    return _publishes(_held(version)(PacketType.PUBLISH))


@cache
def connects(version: int) -> st.SearchStrategy[Connect]:
    held = _held(version)
    return _connects(version, _wills(held), held(PacketType.CONNECT))

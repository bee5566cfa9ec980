"""Topic filters: validity, matching, and parts."""

from __future__ import annotations

import pytest

from shoal.matching.topics.filters import (
    MAX_TOPIC_LEVELS,
    TopicError,
    TopicFilter,
    check_topic,
    read_topic_filter,
    topic_matches,
)

# MQTT 5, section 4.7, with the standard's own examples first.
MATCHING = [
    ("sport/tennis/player1/#", "sport/tennis/player1"),
    ("sport/tennis/player1/#", "sport/tennis/player1/ranking"),
    ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon"),
    ("sport/#", "sport"),
    ("#", "sport/tennis"),
    ("sport/tennis/+", "sport/tennis/player1"),
    ("sport/+", "sport/"),
    ("+", "finance"),
    ("+/+", "/finance"),
    ("/+", "/finance"),
    ("+/tennis/#", "sport/tennis"),
    ("$SYS/#", "$SYS/broker"),
    ("$SYS/#", "$SYS"),
    ("$SYS/monitor/+", "$SYS/monitor/Clients"),
    ("+/$x", "a/$x"),
    ("a/#", "a/$x"),
    ("#", "/"),
    ("+/+", "/"),
    ("a//b", "a//b"),
    ("a/+/b", "a//b"),
    ("a/#", "a/"),
    ("ACCOUNTS", "ACCOUNTS"),
    ("Accounts payable", "Accounts payable"),
    ("$share/g/sport/#", "sport"),
    ("$share", "$share"),
]
NOT_MATCHING = [
    ("sport/tennis/+", "sport/tennis/player1/ranking"),
    ("sport/+", "sport"),
    ("+", "/finance"),
    ("#", "$SYS/broker"),
    ("+/monitor/Clients", "$SYS/monitor/Clients"),
    ("$share/g/#", "$SYS/broker"),
    ("+", "$x"),
    ("ACCOUNTS", "Accounts"),
    ("a", "/a"),
    ("a", "a/"),
    ("a/b", "a"),
    ("a/+/#", "a"),
]


@pytest.mark.parametrize(("topic_filter", "topic"), MATCHING)
def test_matching_topics_are_recognised(topic_filter: str, topic: str) -> None:
    assert topic_matches(topic_filter, topic)


@pytest.mark.parametrize(("topic_filter", "topic"), NOT_MATCHING)
def test_non_matching_topics_are_recognised(topic_filter: str, topic: str) -> None:
    assert not topic_matches(topic_filter, topic)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "topic filter '': it is empty"),
        ("sport/tennis#", "level 2: # stands beside other characters in 'tennis#'"),
        ("sport/tennis/#/ranking", "level 3: # stands for all levels that follow"),
        ("##", "level 1: # stands beside"),
        ("sport+", "level 1: + stands beside other characters in 'sport+'"),
        ("a/++/b", "level 2: + stands beside"),
        ("a\0b", "character 2: NUL is not allowed"),
        ("a\ud800", "character 2: half a surrogate pair"),
        ("ä" * 32_768, "65536 bytes of UTF-8; at most 65535"),
        ("/" * MAX_TOPIC_LEVELS, "202 levels; at most 201"),
        ("$share/", "the group between the first two slashes is empty"),
        ("$share//a", "the group between the first two slashes is empty"),
        ("$share/g", "there is no filter behind the group 'g'"),
        ("$share/g/", "there is no filter behind the group 'g'"),
        ("$share/g+/a", "group 'g+' has a wildcard"),
        ("$share/#/a", "group '#' has a wildcard"),
        ("$share/g/a#", "level 1: # stands beside"),
    ],
)
def test_an_invalid_filter_is_an_error(text: str, complaint: str) -> None:
    with pytest.raises(TopicError) as caught:
        read_topic_filter(text)
    assert complaint in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "topic '': it is empty"),
        ("a/+", "character 3: + is a wildcard"),
        ("a#", "character 2: # is a wildcard"),
        ("\0", "character 1: NUL is not allowed"),
        ("a" * 65_536, "65536 bytes"),
        ("/" * MAX_TOPIC_LEVELS, "202 levels"),
    ],
)
def test_an_invalid_topic_is_an_error(text: str, complaint: str) -> None:
    with pytest.raises(TopicError) as caught:
        check_topic(text)
    assert complaint in str(caught.value)


def test_a_filter_is_split_into_its_parts() -> None:
    assert read_topic_filter("/a//") == TopicFilter(("", "a", "", ""))
    assert read_topic_filter("$share/g//+") == TopicFilter(("", "+"), "g")
    assert read_topic_filter("$shared/g/a") == TopicFilter(("$shared", "g", "a"))
    assert not read_topic_filter("a/b").has_wildcards
    assert read_topic_filter("a/#").has_wildcards


@pytest.mark.parametrize("topic", ["a", "/", "a/b c/ä", "$SYS/x", "a" * 65_535])
def test_a_valid_topic_is_accepted(topic: str) -> None:
    check_topic(topic)

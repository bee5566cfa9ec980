"""Traced messages: on a network of brokers, and the bounds of what is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from shoal.client import Client
from shoal.client.terms import Keep
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.tracing import tracer as tracing
from shoal.runtime.tracing.story import Story, keys_of, stories
from tests.runtime.live import PATIENCE_S, on_loop
from tests.runtime.one_service import network, running


async def story_of(services: Sequence[BrokerService], key: str) -> Story:
    """The story of a label or key, as `shoal story` puts it together."""
    answers = {each.node.id: await each.tracer.traces({"key": key}) for each in services}
    (found,) = keys_of(answers, 5)
    answers = {each.node.id: await each.tracer.traces({"key": found}) for each in services}
    (story,) = stories(answers)
    return story


def states(story: Story) -> dict[str, str]:
    return {row.name: row.state for row in story.rows if row.kind == "client"}


async def until_states(
    services: Sequence[BrokerService], key: str, wanted: dict[str, str]
) -> Story:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            story = await story_of(services, key)
            if states(story) == wanted and any(row.state == "settled" for row in story.rows):
                return story
            await asyncio.sleep(0.05)


@on_loop
async def test_a_flagged_message_has_a_story_over_all_brokers() -> None:
    limits = {"maximum_queued_messages": 1}
    async with running(network(3, limits=limits), "B3", "B2", "B1") as services:
        there, between, here = services
        away = Client(str(between.listening["mqtt"]), "away", keep=Keep(seconds=60))
        async with away:
            await away.subscribe("flights/#", qos=1).granted()
        async with (
            Client(str(there.listening["mqtt"]), "board") as board,
            Client(str(there.listening["mqtt"]), "late") as late,
            Client(str(here.listening["mqtt"]), "plane") as plane,
            board.subscribe("flights/#", where="delay > 30", qos=1) as subscription,
            late.subscribe("flights/#", where="delay > '30'", qos=1),
        ):
            payload = json.dumps({"delay": 42}).encode()
            for label in ("first", "second"):
                await plane.publish("flights/1", payload, qos=1, trace=label)
                await subscription.get()
            first = await until_states(
                services, "first", {"board": "delivered", "away": "waiting", "late": "no"}
            )
            second = await until_states(
                services, "second", {"board": "delivered", "away": "dropped", "late": "no"}
            )
        assert first.publisher == "plane"
        assert [row.name for row in first.rows if row.kind == "broker"] == ["B1", "B2", "B3"]
        assert first.headline.startswith("1 of 2 subscribers have it, after ")
        (missing,) = second.missing
        assert (missing.name, missing.broker) == ("away", "B2")
        assert missing.why == "its queue is full: 1 messages"
        reason = next(row.verdict for row in first.rows if row.name == "late")
        assert "delay is the number 42" in reason
        assert first.attributes == {"delay": 42}


@on_loop
async def test_subscribers_do_not_see_that_a_sampled_message_is_traced() -> None:
    async with running(network(2), "B2", "B1") as services:
        there, here = services
        assert await here.tracer.order({"topic": "a/#", "each": "2", "seconds": "60"}) == ""
        async with (
            Client(str(there.listening["mqtt"])) as subscriber,
            Client(str(here.listening["mqtt"]), "p") as publisher,
            subscriber.subscribe("#", qos=1) as subscription,
        ):
            for number in range(4):
                await publisher.publish(f"a/{number}", b"1", qos=1)
                await publisher.publish("b", b"1", qos=1)
            for _ in range(8):
                assert not (await subscription.get()).attributes
        traced = (await here.tracer.traces({}))["traces"]
        assert [row["topic"] for row in traced] == ["a/3", "a/1"]
        assert await here.tracer.order({"seconds": "0"}) == ""
        assert here.tracer.sample is None


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"each": "0"}, "no number from 1 on"),
        ({"seconds": "-1"}, "seconds: -1"),
        ({"seconds": "nan"}, "seconds: nan"),
        ({"topic": "a/#/b"}, "#"),
        ({"where": "delay >"}, "delay"),
        ({"each": "many"}, "many"),
    ],
)
@on_loop
async def test_an_order_that_cannot_be_followed_says_why(query: dict[str, str], words: str) -> None:
    async with running(network(), "B1") as (here,):
        problem = await here.tracer.order(query)
        assert words in problem
        assert here.tracer.sample is None


@on_loop
async def test_a_broker_without_neighbours_tells_stories_too() -> None:
    async with (
        running(network(), "B1") as (here,),
        Client(str(here.listening["mqtt"]), "p") as publisher,
        Client(str(here.listening["mqtt"]), "s") as subscriber,
        subscriber.subscribe("a", qos=0) as subscription,
    ):
        await publisher.publish("a", b"1", trace="x")
        await subscription.get()
        story = await story_of([here], "x")
        assert states(story) == {"s": "delivered"}


@on_loop
async def test_a_client_that_flags_everything_is_traced_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracing, "FLAGGED_PER_S", 0.0)
    monkeypatch.setattr(tracing, "FLAGGED_BURST", 3.0)
    async with (
        running(network(), "B1") as (here,),
        Client(str(here.listening["mqtt"]), "p") as publisher,
    ):
        for _ in range(10):
            await publisher.publish("a", b"1", qos=1, trace="x")
        assert len((await here.tracer.traces({}))["traces"]) == 3


@on_loop
async def test_the_oldest_traces_and_further_subscribers_give_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracing, "MOST_TRACED", 2)
    monkeypatch.setattr(tracing, "MOST_CLIENTS", 2)
    async with (
        running(network(), "B1") as (here,),
        Client(str(here.listening["mqtt"]), "p") as publisher,
    ):
        readers = [Client(str(here.listening["mqtt"]), f"s{number}") for number in range(4)]
        for reader in readers:
            await reader.__aenter__()
            await reader.subscribe("a", qos=1).granted()
        for label in ("x", "y", "z"):
            await publisher.publish("a", b"1", qos=1, trace=label)
        found: dict[str, Any] = await here.tracer.traces({})
        assert [row["label"] for row in found["traces"]] == ["z", "y"]
        story = await story_of([here], "z")
        assert (len(states(story)), story.left_out) == (2, 2)
        for reader in readers:
            await reader.__aexit__(None, None, None)

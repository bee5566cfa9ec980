"""The stream of events of a broker, over HTTP and in the process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiomqtt
import httpx
import pytest
from httpx_sse import aconnect_sse

from shoal.broker.happenings import Happening
from shoal.client import Client
from shoal.client.terms import Keep
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.events import broker_events, rates
from shoal.runtime.events.ring import BrokerEvent
from tests.runtime.live import PATIENCE_S, on_loop
from tests.runtime.one_service import network, running


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_events, "LOOK_S", 0.05)
    monkeypatch.setattr(broker_events, "TOP_LOOKS", 1)


async def first(events: AsyncIterator[BrokerEvent], kind: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        async for event in events:
            if event.kind == kind:
                return dict(event.data)
    raise AssertionError(kind)


async def until_has(
    events: AsyncIterator[BrokerEvent], kind: str, *, which: str = "", text: str = ""
) -> dict[str, Any]:
    """The first event of a kind with this kind of happening, or this text."""
    while True:
        data = await first(events, kind)
        if which in ("", data.get("kind")) and text in ("", data.get("text")):
            return data


@on_loop
async def test_the_stream_begins_with_the_state_of_the_broker() -> None:
    async with running(network(2), "B2", "B1") as (_, here):
        events = here.events.stream()
        kinds = set()
        async with asyncio.timeout(PATIENCE_S):
            async for event in events:
                kinds.add(event.kind)
                if kinds >= {"broker", "alerts", "figures", "top"}:
                    break
        about = await first(here.events.stream(), "broker")
        assert (about["broker"], about["system"]) == ("B1", "tree")
        while not (figures := await first(events, "figures"))["links"]:
            pass
        assert [each["neighbour"] for each in figures["links"]] == ["B2"]


@on_loop
async def test_figures_have_rates_of_the_last_second() -> None:
    async with (
        running(network(2), "B2", "B1") as (there, here),
        Client(str(there.listening["mqtt"])) as subscriber,
        Client(str(here.listening["mqtt"])) as publisher,
        subscriber.subscribe("a", qos=1) as subscription,
    ):
        events = here.events.stream()
        # A message may be counted in one look, and be on its link in the next.
        missing = {"published_per_s", "in_per_s", "messages_per_s"}
        async with asyncio.timeout(PATIENCE_S):
            while missing:
                await publisher.publish("a", b"1", qos=1)
                await subscription.get()
                figures = await first(events, "figures")
                seen = {**figures, **dict(*figures["links"][:1])}
                missing -= {key for key in missing if seen.get(key, 0) > 0}
        assert figures["memory_bytes"] > 10**6


@on_loop
async def test_the_share_of_a_processor_is_that_of_a_containers_limit() -> None:
    """A broker that may use a millionth of a processor uses many times that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rates, "allowed_processors", lambda: 1e-6)
        async with running(network(1), "B1") as (here,):
            assert (await first(here.events.stream(), "figures"))["processor"] > 100


@on_loop
async def test_a_client_that_loses_messages_is_named_with_the_reason() -> None:
    limits = {"maximum_queued_messages": 3}
    async with running(network(1, limits=limits), "B1") as (here,):
        address = str(here.listening["mqtt"])
        async with Client(address, "slow", keep=Keep(seconds=60)) as slow:
            await slow.subscribe("a", qos=1).granted()
        events = here.events.stream()
        async with Client(address, "p") as publisher:
            for _ in range(5):
                await publisher.publish("a", b"1", qos=1)
        dropped = await first(events, "dropped")
        assert (dropped["client"], dropped["topic"]) == ("slow", "a")
        assert dropped["why"] == "its queue is full: 3 messages"
        while True:
            alerts = (await first(events, "alerts"))["alerts"]
            if alerts:
                break
        assert (alerts[0]["client"], alerts[0]["level"]) == ("slow", "poor")
        (worst,) = (await first(here.events.stream(), "top"))["clients"]
        assert (worst["client"], worst["waiting"], worst["dropped"]) == ("slow", 3, 2)


@on_loop
async def test_takeovers_and_orders_are_happenings() -> None:
    async with running(network(), "B1") as (here,):
        where = here.listening["mqtt"]
        events = here.events.stream()
        one = aiomqtt.Client(where.host, where.port, identifier="twin")
        other = aiomqtt.Client(where.host, where.port, identifier="twin")
        await one.__aenter__()
        async with other:
            taken = await until_has(events, "happened", which="takeover")
        with suppress(aiomqtt.MqttError):
            await one.__aexit__(None, None, None)
        assert taken["client"] == "twin"
        admin = here.listening["admin"]
        async with httpx.AsyncClient(trust_env=False) as asking:
            await asking.post(
                f"http://{admin}/delete-session?client=nobody",
                headers={"X-Shoal": "delete-session"},
            )
        order = await until_has(events, "happened", which="order")
        assert "delete-session" in order["text"]


@on_loop
async def test_a_reader_that_returns_gets_what_it_missed_and_no_more() -> None:
    async with (
        running(network(), "B1") as (here,),
        httpx.AsyncClient(trust_env=False) as asking,
    ):
        for text in ("one", "two", "three"):
            here.events.happened(Happening(at_us=1, kind="move", text=text))
        texts, identifiers = await read(asking, here, "", 3)
        assert texts == ["one", "two", "three"]
        assert (await read(asking, here, identifiers[0], 2))[0] == ["two", "three"]
        # One of an earlier incarnation of the broker says nothing about this one.
        assert (await read(asking, here, "77:2", 3))[0] == texts


async def read(
    asking: httpx.AsyncClient, here: BrokerService, since: str, most: int
) -> tuple[list[str], list[str]]:
    """The first happenings of a stream over HTTP, and their identifiers."""
    texts, identifiers = [], []
    url = f"http://{here.listening['admin']}/events"
    async with aconnect_sse(asking, "GET", url, params={"since": since}) as source:
        async for event in source.aiter_sse():
            if event.event == "happened":
                texts.append(json.loads(event.data)["text"])
                identifiers.append(event.id)
                if len(texts) == most:
                    return texts, identifiers
    raise AssertionError("the stream has ended")


@on_loop
async def test_a_reader_that_is_too_slow_for_the_ring_learns_how_much_it_missed() -> None:
    async with running(network(), "B1") as (here,):
        events = here.events.stream()
        await first(events, "figures")
        kept = broker_events.KEPT
        here.events._happenings = broker_events.LogBucket(1e6, 1e6, 0)
        for number in range(kept + 7):
            here.events.happened(Happening(at_us=1, kind="move", text=str(number)))
        assert (await first(events, "missed"))["events"] == 7
        assert (await first(events, "happened"))["text"] == "7"


@on_loop
async def test_a_flood_of_happenings_is_counted_and_bounded() -> None:
    async with running(network(), "B1") as (here,):
        events = here.events.stream()
        await first(events, "figures")
        for number in range(200):
            here.events.happened(Happening(at_us=1, kind="move", text=str(number)))
        here.events._happenings._left = 10.0
        here.events.happened(Happening(at_us=1, kind="move", text="last"))
        last = await until_has(events, "happened", text="last")
        assert last["left_out"] == 150


@on_loop
async def test_an_unknown_operator_gets_no_events() -> None:
    async with (
        running(network(), "B1") as (here,),
        httpx.AsyncClient(trust_env=False) as asking,
    ):
        answer = await asking.get(
            f"http://{here.listening['admin']}/events", headers={"Host": "evil.example"}
        )
        assert answer.status_code == 403


@on_loop
async def test_sampled_messages_answer_a_filter_and_show_no_payload() -> None:
    async with (
        running(network(), "B1") as (here,),
        Client(str(here.listening["mqtt"])) as publisher,
        httpx.AsyncClient(trust_env=False) as asking,
    ):
        secret = {"delay": 42, "carrier": "UA", "secret": "xyzzy"}
        here.front_end.traffic.due_us = 0
        await publisher.publish("flights/1", json.dumps(secret).encode(), qos=1)
        url = f"http://{here.listening['admin']}/try"
        async with asyncio.timeout(PATIENCE_S):
            while True:
                query = {"topic": "flights/#", "where": "delay > 50 AND carrier = 'UA'"}
                answer = await asking.get(url, params=query)
                found = answer.json()
                if found["of"]:
                    break
                await publisher.publish("flights/1", json.dumps(secret).encode(), qos=1)
        assert found["matched"] == 0
        assert [each["text"] for each in found["parts"]] == ["delay > 50", "carrier = 'UA'"]
        assert [each["misses"] > 0 for each in found["parts"]] == [True, False]
        assert "delay is 42" in found["example"]
        assert "xyzzy" not in answer.text
        wrong = await asking.get(url, params={"where": "delay >"})
        assert wrong.status_code == 400
        assert wrong.json()["problem"]

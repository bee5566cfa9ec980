"""The console's pages in a browser: what an operator sees of a live network, and what no page does.

Chromium is the system's; where it or the built pages are missing, the tests are skipped.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest

from shoal.broker.happenings import Happening
from shoal.client import Client
from shoal.client.terms import Keep
from shoal.console.serving import is_built, running_console
from shoal.runtime.broker_service import BrokerService
from shoal.runtime.events import broker_events
from shoal.runtime.operations.caller import ANYBODY
from tests.console.test_server import reachable
from tests.runtime.live import ANYWHERE, PATIENCE_S, on_asyncio
from tests.runtime.one_service import network, running

playwright = pytest.importorskip("playwright.async_api")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    pytest.mark.skipif(not is_built(), reason="the console's pages are not built: make console"),
]
PAGES = ("/", "/message", "/clients", "/advice", "/health")
# A client's name that is code wherever it is not escaped.
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_events, "LOOK_S", 0.2)
    monkeypatch.setattr(broker_events, "TOP_LOOKS", 1)


class Shown(NamedTuple):
    """A console in a browser: its brokers, a page, and what the page wrote to its console."""

    services: list[BrokerService]
    context: Any
    page: Any
    url: str
    written: list[str]

    async def open(self, path: str) -> None:
        await self.page.goto(self.url.partition("/?")[0] + path)

    async def see(self, text: str, within: str = "main") -> None:
        """Wait until a text is on the page."""
        found = self.page.locator(within).get_by_text(text).first
        await found.wait_for(timeout=1_000 * PATIENCE_S)


@asynccontextmanager
async def shown(brokers: int = 3, *, orders: bool = False, **changes: Any) -> AsyncIterator[Shown]:
    file = network(brokers, **changes)
    names = [f"B{number}" for number in range(1, brokers + 1)]
    async with running(file, *names) as services, playwright.async_playwright() as play:
        seen = reachable(file, *(each.listening["admin"] for each in services))
        browser = await play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = await browser.new_context(viewport={"width": 1300, "height": 1000})
        written: list[str] = []
        context.on("console", lambda message: written.append(message.text))
        context.on("weberror", lambda error: written.append(str(error.error)))
        page = await context.new_page()
        async with running_console(seen, ANYBODY, ANYWHERE, allows_orders=orders) as url:
            await page.goto(url)
            yield Shown(services, context, page, url, written)
            await browser.close()
    assert written == []


@on_asyncio
async def test_the_network_page_shows_brokers_moves_and_deaths() -> None:
    async with shown() as console:
        await console.see("Nothing is wrong: all 3 brokers answer")
        assert await console.page.locator("circle[data-broker]").count() == 3
        await console.see("delivery delay: no sample yet")
        here, *_, last = console.services
        move = Happening(
            at_us=here.node.clock.now_us(),
            kind="move",
            text="publisher UA-1 moved",
            why="31 % fewer messages",
            source="B1",
            target="B3",
        )
        here.events.happened(move)
        await console.see("publisher UA-1 moved")
        await console.see("31 % fewer messages")
        await console.page.locator("circle[data-broker=B2]").click()
        await console.see("Links", ".side")
        await console.page.get_by_role("button", name="What if it leaves?").click()
        await console.see("takes its place among", ".side")
        last.events.stop()
        await last.admin.stop()
        await console.see("B3 does not answer")
        assert (await console.page.title()).startswith("(1) ")


@on_asyncio
async def test_an_operator_finds_the_client_that_loses_messages_and_why() -> None:
    limits = {"maximum_queued_messages": 2}
    async with shown(2, limits=limits) as console:
        there, here = console.services
        address = str(there.listening["mqtt"])
        async with Client(address, EVIL, keep=Keep(seconds=600)) as slow:
            await slow.subscribe("flights/#", where="delay > 30", qos=1).granted()
        async with Client(str(here.listening["mqtt"]), "plane") as plane:
            for number in range(4):
                payload = json.dumps({"delay": 42}).encode()
                await plane.publish(f"flights/{number}", payload, qos=1, trace=f"n{number}")
            await console.see(f"{EVIL} loses messages")
            await console.page.get_by_text("open the client").first.click()
            await console.see("2 messages dropped, 2 wait")
            await console.see("its queue is full: 2 messages")
            await console.see("delay > 30")
            await console.page.fill("form[data-name=why] input[name=topic]", "flights/1")
            await console.page.fill("form[data-name=why] input[name=payload]", '{"delay": 20}')
            await console.page.locator("form[data-name=why] button").click()
            await console.see("delay is 20")
            await console.open("/message?key=n3")
            await console.see("0 of 1 subscriber has it")
            await console.see("its queue is full: 2 messages")
            await console.open("/message?key=n0")
            await console.see("it is disconnected")
            await console.page.fill("form[data-name=try] input[name=where]", "delay > 50")
            await console.page.locator("form[data-name=try] button").click()
            await console.see("0 of ")
            await console.see("delay is 42")


@on_asyncio
async def test_orders_need_a_second_press_and_show_their_outcome() -> None:
    async with shown(2, orders=True) as console:
        here = console.services[0]
        await console.page.locator("circle[data-broker=B1]").click()
        await console.page.get_by_role("button", name="drain", exact=True).click()
        assert not here.operator.is_draining
        await console.page.get_by_role("button", name="drain: sure?").click()
        await console.see("drain: ordered")
        assert here.operator.is_draining
        await console.see("the broker is not ready: clients: ")
        await console.open("/health")
        await console.see("drain, order carried out")


@on_asyncio
async def test_no_page_is_wider_than_its_window() -> None:
    async with shown(2) as console:
        wide: list[tuple[str, int, str]] = []
        async with Client(str(console.services[0].listening["mqtt"]), EVIL * 4) as client:
            await client.subscribe("a/" + "very-long-level/" * 12 + "#", qos=1).granted()
            await client.publish("a", b"1", trace="x")
            for path in (*PAGES, f"/clients?client={EVIL * 4}", "/message?key=x"):
                await console.open(path)
                for width in (420, 1300, 1600):
                    await console.page.set_viewport_size({"width": width, "height": 900})
                    for theme in ("light", "dark"):
                        await console.page.emulate_media(color_scheme=theme)
                        await console.page.locator("section").first.wait_for()
                        await asyncio.sleep(0.05)
                        over = await console.page.evaluate(
                            "document.documentElement.scrollWidth - innerWidth"
                        )
                        if over > 0:
                            wide.append((path, width, theme))
        assert wide == []

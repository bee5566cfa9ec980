"""The connection to one broker's stream of events, made again and again until it is stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
from httpx_sse import EventSource, aconnect_sse

from shoal.model import BrokerId
from shoal.runtime.events.event_types import read_event
from shoal.runtime.operations.caller import Caller

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 5.0
# A broker sends figures each second.
SILENCE_S, CONNECT_S = 10.0, 4.0

MOST_ID_CHARACTERS = 100
# Takes the kind, the data and the identifier of an event.
Took = Callable[[str, Any, str], None]


class BrokerFeed:
    """The stream of one broker; `address` is that of its admin port.

    `at_event` takes events; `at_begin` is called when the stream begins, `at_end` with the reason
    when it ends or cannot begin. `last_id` returns the identifier of the last event.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        caller: Caller,
        broker: BrokerId,
        address: str,
        *,
        at_event: Took,
        at_begin: Callable[[], None],
        at_end: Callable[[str], None],
        last_id: Callable[[], str],
    ) -> None:
        self.address = address
        self._client, self._caller, self._broker = client, caller, broker
        self._at_event, self._at_begin, self._at_end = at_event, at_begin, at_end
        self._last_id = last_id

    async def run(self) -> None:
        """Read events until this is cancelled."""
        pause_s = FIRST_PAUSE_S
        while True:
            began_s = time.monotonic()
            self._at_end(await self._read_stream())
            if time.monotonic() - began_s > LONGEST_PAUSE_S:
                pause_s = FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _read_stream(self) -> str:
        """Read until the stream ends; returns why it did."""
        try:
            async with self._connect() as source:
                if source.response.status_code != 200:
                    return await _refusal(source.response)
                self._at_begin()
                async for event in source.aiter_sse():
                    data = read_event(event.event, event.data)
                    if data is not None:
                        self._at_event(event.event, data, event.id[:MOST_ID_CHARACTERS])
        except httpx.ConnectTimeout:
            return f"no connection to {self.address} within {CONNECT_S:g} s"
        except httpx.ReadTimeout:
            return f"it says nothing for {SILENCE_S:g} s"
        except httpx.ConnectError as error:
            return f"no connection to {self.address}: {error}"
        except msgspec.ValidationError as error:
            return f"it does not speak like a broker: {error}"
        except (httpx.HTTPError, msgspec.DecodeError, ValueError) as error:
            return f"its stream broke off: {str(error) or type(error).__name__}"
        return "it has ended its stream"

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[EventSource]:
        async with aconnect_sse(
            self._client,
            "GET",
            url_of(self._caller, self.address, "/events"),
            params={"since": since} if (since := self._last_id()) else None,
            extensions=extensions_of(self._caller, self._broker),
            timeout=httpx.Timeout(SILENCE_S, connect=CONNECT_S),
        ) as source:
            yield source


def url_of(caller: Caller, address: str, path: str) -> str:
    """The URL of a path at an admin port."""
    return f"{'http' if caller.context is None else 'https'}://{address}{path}"


def extensions_of(caller: Caller, broker: BrokerId) -> dict[str, Any]:
    """Options of a request: a broker's certificate is made out to its name, not to its host."""
    name = caller.to(broker).server_name
    return {"sni_hostname": name} if name and caller.context is not None else {}


async def _refusal(response: httpx.Response) -> str:
    await response.aread()
    try:
        return str(response.json()["problem"])
    except (ValueError, KeyError, TypeError):
        return f"it answers {response.status_code} to /events"

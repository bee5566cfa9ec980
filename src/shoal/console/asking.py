"""Questions and orders of pages to the brokers' admin ports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import httpx
import msgspec

from shoal.console.feed import extensions_of, url_of
from shoal.console.view import NetworkView, Row
from shoal.model import BrokerId
from shoal.runtime.operations.caller import Caller
from shoal.runtime.tracing.story import keys_of, stories, summaries

ANSWER_S = 4.0
# An order is answered when it is carried out: a client that is moved is waited for.
ORDER_S = 30.0
# Rows of a list of clients, and pages of one client's subscriptions.
MOST_CLIENTS, MOST_PAGES = 20, 10
# Traced messages in a list.
MOST_TRACES = 50
# Stories of one label.
MOST_STORIES = 5
# Brokers that are asked for clients to fill the list.
MOST_ASKED = 5
# The orders that a page may give, with the keys of their queries.
ORDERS: Mapping[str, tuple[str, ...]] = {
    "drain": ("after",),
    "undrain": (),
    "leave": ("without",),
    "stay": (),
    "forget": ("others",),
    "move": ("client",),
    "delete-session": ("client",),
    "trace": ("topic", "where", "each", "seconds"),
}


class Asking:
    """Asks the brokers of a view; `addresses` returns their admin addresses."""

    def __init__(
        self,
        view: NetworkView,
        caller: Caller,
        client: httpx.AsyncClient,
        addresses: Callable[[], Mapping[BrokerId, str]],
    ) -> None:
        self._view, self._caller, self._client = view, caller, client
        self._addresses = addresses

    async def ask(self, broker: BrokerId, path: str, **query: str) -> Any:
        """A broker's answer; None if it does not answer."""
        address = self._addresses().get(broker)
        if address is None:
            return None
        try:
            answer = await self._client.get(
                url_of(self._caller, address, path),
                params=query,
                extensions=extensions_of(self._caller, broker),
                timeout=ANSWER_S,
            )
            return answer.json() if answer.status_code in (200, 400) else None
        except (httpx.HTTPError, ValueError):
            return None

    async def ask_all(self, path: str, **query: str) -> dict[BrokerId, Any]:
        """The answers of all connected brokers that answer."""
        there = [name for name, view in self._view.brokers.items() if not view.problem]
        found = await asyncio.gather(*(self.ask(name, path, **query) for name in there))
        return {name: row for name, row in zip(there, found, strict=True) if row is not None}

    async def order(self, broker: BrokerId, name: str, query: Mapping[str, str]) -> tuple[int, str]:
        """Give an order to a broker; the status code, and the reason if it is not carried out."""
        address = self._addresses().get(broker)
        if address is None:
            return 404, f"no broker {broker} is known"
        try:
            answer = await self._client.post(
                url_of(self._caller, address, f"/{name}"),
                params=dict(query),
                headers={"X-Shoal": name},
                extensions=extensions_of(self._caller, broker),
                timeout=ORDER_S,
            )
            return answer.status_code, str(answer.json().get("problem", ""))
        except (httpx.HTTPError, ValueError) as error:
            return 504, f"{broker} has not answered: {str(error) or type(error).__name__}"

    # --- clients ------------------------------------------------------------------------------

    async def clients(self, start: str) -> Row:
        """A list of clients: those whose names begin with `start`; without it the worst first."""
        total = sum((view.figures or {}).get("sessions", 0) for view in self._view.brokers.values())
        if start:
            answers = await self.ask_all("/clients", **{"from": start})
            rows = [
                {"broker": broker, **row}
                for broker, answer in answers.items()
                for row in answer["clients"]
                if row["client"].startswith(start)
            ]
            rows.sort(key=lambda row: row["client"])
            return {"clients": rows[:MOST_CLIENTS], "total": total}
        worst = self._view.worst_clients(MOST_CLIENTS)
        rows = [row for row in await asyncio.gather(*map(self._whole, worst)) if row is not None]
        known = {row["client"] for row in rows}
        busiest = sorted(
            (view for view in self._view.brokers.values() if not view.problem),
            key=lambda view: -(view.figures or {}).get("clients", 0),
        )
        for view in busiest[:MOST_ASKED]:
            if len(rows) >= MOST_CLIENTS:
                break
            answer = await self.ask(view.name, "/clients")
            for row in (answer or {}).get("clients", ()):
                if row["client"] not in known:
                    rows.append({"broker": view.name, **row})
        return {"clients": rows[:MOST_CLIENTS], "total": total}

    async def _whole(self, worst: Row) -> Row | None:
        """The row of a client's session, with when it lost its last message."""
        answer = await self.ask(worst["broker"], "/clients", client=worst["client"])
        rows = (answer or {}).get("clients") or [{}]
        return {**worst, **rows[0]}

    async def client(self, client: str) -> Row:
        """One client: its session, its subscriptions with their rates, and its last events."""
        answers = await self.ask_all("/clients", client=client)
        found = [
            {"broker": broker, **answer["clients"][0]}
            for broker, answer in answers.items()
            if answer["clients"]
        ]
        if not found:
            return {"problem": f"no broker has a session of {client}"}
        session = min(found, key=lambda row: row["going"] is not None)
        broker = session["broker"]
        rows, rates = await asyncio.gather(
            self._subscriptions(broker, client), self.ask(broker, "/top")
        )
        by_filter = {
            row["name"]: row["per_s"]
            for row in (rates or {}).get("filters", {}).get("messages", ())
        }
        for row in rows:
            name = f"{row['topic_filter']}?{row['where']}" if row["where"] else row["topic_filter"]
            row["per_s"] = by_filter.get(name)
        return {
            "session": session,
            "subscriptions": rows,
            "events": self._view.happenings(20, client=client),
            "drops": self._view.drops(20, client=client),
        }

    async def why(self, client: str, topic: str, payload: str) -> Row:
        """Why a message would reach a client, or not: its subscriptions, at its broker."""
        found = await self.client(client)
        if "problem" in found:
            return found
        query = {"client": client, "topic": topic, "payload": payload}
        answer = await self.ask(found["session"]["broker"], "/why", **query)
        if answer is None or "problem" in answer:
            return answer or {"problem": f"{found['session']['broker']} does not answer"}
        session = answer["session"]
        return {"subscriptions": [] if session is None else session["subscriptions"]}

    async def _subscriptions(self, broker: BrokerId, client: str) -> list[Row]:
        rows: list[Row] = []
        query = {"from": client}
        for _ in range(MOST_PAGES):
            answer = await self.ask(broker, "/subscriptions", **query)
            page = (answer or {}).get("subscriptions", ())
            rows += [row for row in page if row["client"] == client]
            if not page or page[-1]["client"] != client or not answer["next"]:
                break
            query = dict(parse_qsl(answer["next"]))
        return rows

    # --- messages -----------------------------------------------------------------------------

    async def busiest(self) -> Row:
        """The busiest publishers, topics and filters of all brokers, by messages a second."""
        totals: dict[str, dict[str, float]] = {"clients": {}, "topics": {}, "filters": {}}
        for answer in (await self.ask_all("/top")).values():
            for kind, sums in totals.items():
                for row in answer[kind]["messages"]:
                    sums[row["name"]] = sums.get(row["name"], 0.0) + row["per_s"]
        return {
            kind: sorted(sums.items(), key=lambda row: -row[1])[:MOST_CLIENTS]
            for kind, sums in totals.items()
        }

    async def traces(self, key: str) -> Row:
        """The traced messages, the newest first; of one key or label the stories."""
        answers = await self.ask_all("/traces", **({"key": key} if key else {}))
        if key:
            found: list[Row] = []
            for each in keys_of(answers, MOST_STORIES):
                whole = answers if each == key else await self.ask_all("/traces", key=each)
                found += (msgspec.to_builtins(story) for story in stories(whole))
            return {"stories": found}
        samples = [answer["sample"] for answer in answers.values() if answer["sample"]]
        return {
            "traces": summaries(answers)[:MOST_TRACES],
            "sample": samples[0] if samples else None,
        }

    async def begin_trace(self, query: Mapping[str, str]) -> tuple[int, str]:
        """Have all connected brokers trace a sample; the first reason why one does not."""
        there = [name for name, view in self._view.brokers.items() if not view.problem]
        found = await asyncio.gather(*(self.order(name, "trace", query) for name in there))
        refused = [each for each in found if each[1]]
        return refused[0] if refused else (202, "")

    async def try_filter(self, topic: str, where: str) -> Row:
        """How the last messages of all brokers answer a filter."""
        answers = await self.ask_all("/try", topic=topic, where=where)
        for answer in answers.values():
            if "problem" in answer:
                return {"problem": answer["problem"]}
        parts: dict[str, int] = {}
        for answer in answers.values():
            for part in answer["parts"]:
                parts[part["text"]] = parts.get(part["text"], 0) + part["misses"]
        misses = [answer["example"] for answer in answers.values() if answer["example"]]
        return {
            "matched": sum(answer["matched"] for answer in answers.values()),
            "of": sum(answer["of"] for answer in answers.values()),
            "parts": [{"text": text, "misses": count} for text, count in parts.items()],
            "example": misses[0] if misses else "",
        }

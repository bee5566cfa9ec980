"""An operator's orders to a live broker: leave, stay, move a client, drain, rearrange, delete a
session or retained messages.

Each returns the reason of a refusal, or an empty text.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from shoal.broker.effects import Order
from shoal.model import BrokerId
from shoal.mqtt.codec.reason_codes import ReasonCode
from shoal.mqtt.federation.moving import Moving
from shoal.runtime.forgetting import Forgetting
from shoal.runtime.front_ends.mqtt_front_end import MqttFrontEnd
from shoal.runtime.leaving import Leaving
from shoal.runtime.operations.admin import OPERATOR
from shoal.runtime.retained import Retained

# Longest time between the announcement of a drain and its begin.
LONGEST_NOTICE_S = 3_600

_ALONE = "it is all there is of its network"

_log = logging.getLogger(__name__)


class OperatorDesk:
    """One broker's."""

    def __init__(
        self, front_end: MqttFrontEnd, leaving: Leaving, forgetting: Forgetting, retained: Retained
    ) -> None:
        self._front_end = front_end
        self._leaving = leaving
        self._forgetting = forgetting
        self._retained = retained
        # A drain that was announced, and is to begin.
        self._announced: asyncio.TimerHandle | None = None

    @property
    def orders(self) -> dict[str, Callable[[Mapping[str, str]], Awaitable[str]]]:
        """Return the orders by their names at the admin port; each takes its query."""
        return {
            "leave": self._order_leave,
            "stay": self._stay,
            "forget": self._forget_broker,
            "move": self._move_client,
            "drain": self._drain,
            "undrain": self._undrain,
            "rearrange": self._rearrange,
            "delete-session": self._delete_session,
            "delete-retained": self._retained.delete,
        }

    @property
    def _moving(self) -> Moving | None:
        federation = self._front_end.clients.federation
        return federation.moving if federation is not None else None

    @property
    def is_draining(self) -> bool:
        """Return whether the broker takes no clients in, or soon will not."""
        is_draining = self._moving is not None and self._moving.is_draining
        return is_draining or self._announced is not None

    def status(self) -> dict[str, Any]:
        """Return redirects that are under way, and their outcomes."""
        moving = self._moving
        if moving is None:
            return {
                "is_draining": False,
                "drains_soon": False,
                "problem": "",
                "moving": 0,
                "moves": {},
            }
        return {
            "is_draining": self.is_draining,
            "drains_soon": self._announced is not None,
            "problem": moving.problem,
            "moving": moving.under_way,
            "moves": dict(moving.counts),
        }

    async def _order_leave(self, said: Mapping[str, str]) -> str:
        return await self._leaving.begin(names(said.get("without", "")))

    async def _stay(self, said: Mapping[str, str]) -> str:
        return await self._leaving.abort()

    async def _forget_broker(self, said: Mapping[str, str]) -> str:
        return self._forgetting.begin(said.get("broker", ""), names(said.get("others", "")))

    async def leave_plan(self, query: Mapping[str, str]) -> Mapping[str, Any]:
        """Return the steps of a leave."""
        return await self._leaving.plan(names(query.get("without", "")))

    async def _move_client(self, said: Mapping[str, str]) -> str:
        client, broker = said.get("client", ""), said.get("broker", "")
        if self._moving is None:
            return _ALONE
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def done(problem: str) -> None:
            if not answer.done():  # the requester may have disconnected
                answer.set_result(problem)

        self._front_end.move(client, broker, done)
        return await answer

    async def _drain(self, said: Mapping[str, str]) -> str:
        """With `after`, seconds, /ready says so long before that clients should go elsewhere."""
        moving = self._moving
        if self._leaving.stage:
            return "it leaves already"
        if moving is None:
            return _ALONE
        if not self._leaving.takers():
            return "no other broker is known that takes clients"
        after_s = _seconds(said.get("after", "0"))
        if after_s is None:
            return f"after: it is no number of seconds up to {LONGEST_NOTICE_S:,}"
        if not self.is_draining:
            user = said.get(OPERATOR, "")
            if after_s:
                _log.info("will be drained", extra={"user": user, "after_s": after_s})
                loop = asyncio.get_running_loop()
                self._announced = loop.call_later(after_s, self._begin_to_drain, user)
            else:
                self._begin_to_drain(user)
        return ""

    def _begin_to_drain(self, user: str) -> None:
        front_end, moving = self._front_end, self._moving
        self._announced = None
        if moving is None or self._leaving.stage:
            return
        _log.info("drained", extra={"user": user})
        moving.drain(self._leaving.takers, front_end.node.clock.now_us())
        front_end.carry_out(front_end.clients.take_effects())
        front_end.node.schedule_flush()

    def stop(self) -> None:
        """Begin nothing any more."""
        if self._announced is not None:
            self._announced.cancel()
            self._announced = None

    async def _undrain(self, said: Mapping[str, str]) -> str:
        moving = self._moving
        if moving is None or not self.is_draining:
            return "it is not being drained"
        _log.info("takes clients in again", extra={"user": said.get(OPERATOR, "")})
        self.stop()
        if moving.is_draining:
            moving.undrain()
        return ""

    async def _delete_session(self, said: Mapping[str, str]) -> str:
        """End a client's session, and its connection if there is one; a will is published."""
        front_end, client = self._front_end, said.get("client", "")
        clients, now_us = front_end.clients, front_end.node.clock.now_us()
        session = clients.sessions.get(client)
        if session is None or session.is_departed:
            return f"{client} has no session at {front_end.node.id}"
        if session.going is not None or session.diversion is not None:
            return f"the session of {client} is on its way from one broker to another"
        if session.session_writer is not None:
            reason = "an operator has deleted this session"
            connection = session.session_writer.connection
            connection.disconnect(ReasonCode.ADMINISTRATIVE_ACTION, reason, now_us)
        if clients.sessions.get(client) is session:
            clients.sessions.end(session, now_us)
        front_end.carry_out(clients.take_effects())
        front_end.node.schedule_flush()
        return ""

    async def _rearrange(self, said: Mapping[str, str]) -> str:
        rest = {key: text for key, text in said.items() if key not in ("do", OPERATOR)}
        return await self._front_end.node.order(Order(said.get("do", ""), rest))


def names(text: str) -> list[BrokerId]:
    """
    >>> names("B7, B8"), names("")
    (['B7', 'B8'], [])
    """
    return [name for each in text.split(",") if (name := each.strip())]


def _seconds(text: str) -> float | None:
    """
    >>> _seconds("2.5"), _seconds("nan"), _seconds("soon"), _seconds("-1")
    (2.5, None, None, None)
    """
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if 0 <= seconds <= LONGEST_NOTICE_S else None

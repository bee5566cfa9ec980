"""Statuses of the brokers of a live network, from their admin ports."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from shoal.cli.support.errors import UserError

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller


class Statuses(dict[str, "dict[str, Any] | None"]):
    """Every broker's answer, None if it does not answer.

    `refusals` have the reasons of brokers that refuse this caller, `silences` those of brokers that
    do not answer.
    """

    def __init__(
        self,
        found: Mapping[str, dict[str, Any] | None],
        refusals: Mapping[str, str] | None = None,
        silences: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(found)
        self.refusals = dict(refusals or {})
        self.silences = dict(silences or {})

    def why_not(self, broker: str) -> str:
        """Return why a broker that does not answer does not, to be put behind its name."""
        if broker in self.refusals:
            return f"does not say: {self.refusals[broker]}"
        return self.silences.get(broker, "does not answer")

    def only(self, broker: str) -> Statuses:
        """Return one broker's answer."""
        return Statuses({broker: self[broker]}, self.refusals, self.silences)

    def shown(self, table: str) -> list[dict[str, Any]]:
        """The last rows of a table of the trace, of all brokers, in their order at each."""
        answers = [each["shown"] for each in self.values() if each is not None]
        return [row for shown in answers for row in shown.get(table, ())]

    def in_order(self, table: str) -> list[dict[str, Any]]:
        """The same, by when they were written."""
        return sorted(self.shown(table), key=lambda row: row["at_us"])


def clock(at_us: int) -> str:
    """A moment of today, as tables show it."""
    return datetime.fromtimestamp(at_us / 1_000_000).strftime("%H:%M:%S")


async def ask_status(network: NetworkFile, caller: Caller) -> Statuses:
    """Return the statuses of the file's brokers and of those that have joined, without those that
    left and spares that do not run.

    UserError if all refuse this caller.
    """
    listed = {broker.name: broker.reached_at("admin") for broker in network.brokers}
    found = await _ask_all(listed, caller)
    if found.refusals and not any(found.values()):
        raise UserError("\n       ".join(f"{name}: {why}" for name, why in found.refusals.items()))
    if known := _known_admins(found):
        joined = {name: admin for name, admin in known.items() if name not in listed}
        further = await _ask_all(joined, caller)
        there = {name: answer for name, answer in found.items() if answer or name in known}
        silences = found.silences | further.silences
        found = Statuses(there | further, found.refusals | further.refusals, silences)
    return _without_stopped(found, network.spares.names)


def _known_admins(statuses: Statuses) -> dict[str, str]:
    """Return the admin addresses of all brokers that the brokers that answer know."""
    answers = [answer for answer in statuses.values() if answer is not None]
    return {row["broker"]: row["admin"] for answer in answers for row in answer["brokers"]}


def _without_stopped(statuses: Statuses, spares: Collection[str]) -> Statuses:
    """Leave out spares that do not answer and that no broker is linked to."""
    linked = {
        row["neighbour"]
        for answer in statuses.values()
        if answer is not None
        for row in answer["links"]
    }
    kept = {
        name: answer
        for name, answer in statuses.items()
        if answer is not None or name not in spares or name in linked
    }
    return Statuses(kept, statuses.refusals, statuses.silences)


def check_known(network: NetworkFile, statuses: Statuses, broker: str) -> None:
    """UserError unless a broker of that name is in the network."""
    if broker not in statuses:
        names = ", ".join(statuses)
        raise UserError(f"{network.name} has no broker {broker}; its brokers are {names}")


def admin_addresses(network: NetworkFile, statuses: Statuses) -> dict[str, Address]:
    """Return the admin addresses at which brokers have answered; UserError if none has."""
    from shoal.runtime.addresses import read_address

    listed = {broker.name: broker.reached_at("admin") for broker in network.brokers}
    known = _known_admins(statuses) | listed
    found = {
        name: read_address(known[name]) for name, answer in statuses.items() if answer is not None
    }
    if not found:
        why = "\n       ".join(f"{name} {statuses.why_not(name)}" for name in statuses)
        raise UserError(f"no broker of {network.name} answers\n       {why}")
    return found


async def _ask_all(admins: Mapping[str, str], caller: Caller) -> Statuses:
    from shoal.runtime.addresses import read_address
    from shoal.runtime.operations.caller import OrderRefusedError
    from shoal.runtime.supervisor import get_json

    refusals, silences = {}, {}

    async def ask(name: str, admin: str) -> dict[str, Any] | None:
        if not admin:
            silences[name] = "has no admin address; give it one in the network file (admin = …)"
            return None
        try:
            return await get_json(read_address(admin), "/status", caller.to(name))
        except OrderRefusedError as error:
            refusals[name] = str(error)
        except OSError as error:
            silences[name] = f"does not answer at {admin}: {problem_of(error)}"
        except ValueError as error:
            silences[name] = f"does not answer: {error}"
        return None

    answers = await asyncio.gather(*(ask(*each) for each in admins.items()))
    return Statuses(dict(zip(admins, answers, strict=True)), refusals, silences)


def problem_of(error: OSError) -> str:
    """Return why a broker cannot be asked, in words."""
    if isinstance(error, socket.gaierror):
        return f"the name cannot be resolved ({error.strerror})"
    if error.errno is None:
        return str(error) or "no answer in time"
    return os.strerror(error.errno)

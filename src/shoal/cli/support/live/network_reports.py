"""Answers of a live network's brokers about their clients, distances and times, for a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from shoal.cli.support.live.client_rows import ask_clients, present_rows
from shoal.cli.support.live.statuses import Statuses, admin_addresses
from shoal.cli.support.live.subscriptions import ask_subscriptions

if TYPE_CHECKING:
    from shoal.experiments.live.recorded_network import NetworkReport
    from shoal.model import BrokerId
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller


class AnsweredReport(NamedTuple):
    """A report, and brokers that keep no log."""

    report: NetworkReport
    unlogged: list[BrokerId]


async def ask_report(network: NetworkFile, caller: Caller) -> AnsweredReport:
    """Ask all brokers; UserError names one that does not answer."""
    from shoal.experiments.live.recorded_network import NetworkReport

    # This query fails unless every broker answers.
    subscriptions, _ = await ask_subscriptions(network, caller)
    statuses, clients = await ask_clients(network, caller)
    found = {name: status for name, status in statuses.items() if status is not None}
    report = NetworkReport(
        {name: status["service_us"] for name, status in found.items()},
        present_rows(clients),
        subscriptions,
        await _ask_round_trips(network, statuses, caller),
    )
    return AnsweredReport(report, [name for name, each in found.items() if each["log"] is None])


async def _ask_round_trips(
    network: NetworkFile, statuses: Statuses, caller: Caller
) -> dict[BrokerId, dict[BrokerId, int]]:
    """Return measurements of the brokers that answer in time; one end's suffices for a pair."""
    from shoal.runtime.supervisor import get_json

    found = {}
    # One after the other, as probes that arrive together would wait for each other.
    for name, address in admin_addresses(network, statuses).items():
        try:
            answer = await get_json(address, "/round-trips", caller.to(name))
        except OSError:
            continue
        found[name] = answer["round_trips_us"]
    return found

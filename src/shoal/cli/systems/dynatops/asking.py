"""Queries of `shoal plan --network` to live topic trees: places and interests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.statuses import admin_addresses, ask_status
from shoal.cli.support.live.subscriptions import ask_subscriptions
from shoal.cli.support.surveys import read_amounts
from shoal.matching.topics.filters import topic_matches
from shoal.model import BrokerId
from shoal.overlays.dynatops.planning.advising.survey import (
    SurveyedBroker,
    SurveyedClient,
    UserSurvey,
)

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller


class LiveSurvey(NamedTuple):
    """Data of a live ring; `pinned` brokers stay by its parameters."""

    survey: UserSurvey
    pinned: frozenset[BrokerId]


def ask_ring(network: NetworkFile, caller: Caller, rates: Path | None) -> LiveSurvey:
    """The survey of a ring; the `rates` of a file instead of its brokers', if there is one.

    UserError names the broker that does not answer, or says that no broker has counted
    publications.
    """
    rows, answers = asyncio.run(_ask(network, caller))
    given = None if rates is None else read_amounts(rates, ("topic", "per_second"))
    return survey_of(rows, answers, given, network.system)


async def _ask(
    network: NetworkFile, caller: Caller
) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any] | None]]:
    rows, _ = await ask_subscriptions(network, caller)
    return rows, await ask_places(network, caller)


async def ask_places(network: NetworkFile, caller: Caller) -> dict[str, dict[str, Any] | None]:
    """Return each broker's view of the ring; UserError names a broker that does not answer."""
    from shoal.runtime.supervisor import get_json

    answers = {}
    for name, address in admin_addresses(network, await ask_status(network, caller)).items():
        try:
            answers[name] = (await get_json(address, "/survey", caller.to(name)))["survey"]
        except (OSError, ValueError, KeyError) as error:
            raise UserError(f"{name} does not say where it stands: {error}") from error
    return answers


def latest_of(answers: Mapping[str, Mapping[str, Any] | None]) -> Mapping[str, Any]:
    """Return the latest ring, the manager's if that answers; UserError without any ring."""
    known = [each for each in answers.values() if each is not None]
    if not known:
        raise UserError("no broker stands on a ring")
    managers = [each for each in known if each["is_manager"]]
    return max(managers or known, key=lambda each: each["version"])


def survey_of(
    rows: Iterable[Mapping[str, Any]],
    answers: Mapping[str, Mapping[str, Any] | None],
    rates: Mapping[str, float] | None = None,
    system: str = "dynatops",
) -> LiveSurvey:
    """Return the survey from brokers' reports about their clients' subscriptions and the ring.

    Each client wants the topics with known rates that its filters match, whatever their conditions.

    >>> said = {"version": 1, "members": ["B2", "B1"], "pinned": [], "regions": [["B1"]]}
    >>> said |= {"is_manager": True, "rates": {"a": 2.0, "b": 1.0}}
    >>> row = {"client": "c", "broker": "B1", "topic_filter": "+"}
    >>> survey, pinned = survey_of([row], {"B1": said})
    >>> survey.users, [(each.name, each.position, each.region) for each in survey.brokers]
    ({'c': SurveyedClient(broker='B1', topics=('a', 'b'))}, [('B2', 0, ''), ('B1', 1, '1')])
    """
    latest = latest_of(answers)
    if rates is None:
        rates = _counted(each for each in answers.values() if each is not None)
    if not rates:
        raise UserError(
            "no broker has counted publications yet: they do so each reconfigure_us, if that is "
            "set; or give --rates"
        )
    regions = {name: str(number) for number, row in enumerate(latest["regions"], 1) for name in row}
    brokers = [
        SurveyedBroker(name, position, regions.get(name, ""))
        for position, name in enumerate(latest["members"])
    ]
    wanted: dict[tuple[str, BrokerId], set[str]] = {}
    matched: dict[str, list[str]] = {}
    for row in rows:
        topics = matched.get(text := row["topic_filter"])
        if topics is None:
            topics = [topic for topic in rates if topic_matches(text, topic)]
            matched[text] = topics
        if row["broker"] in latest["members"]:
            wanted.setdefault((row["client"], row["broker"]), set()).update(topics)
    users = {
        client: SurveyedClient(broker, tuple(sorted(topics)))
        for (client, broker), topics in wanted.items()
        if topics
    }
    survey = UserSurvey(
        brokers, users, rates, system=system, per_gateway=latest.get("per_gateway", 1)
    )
    return LiveSurvey(survey, frozenset(latest["pinned"]))


def _counted(known: Iterable[Mapping[str, Any]]) -> Mapping[str, float]:
    """Merge the counts of all topics; the largest count of a topic covers all of its
    publications.
    """
    rates: dict[str, float] = {}
    for answer in known:
        for topic, each in answer["rates"].items():
            rates[topic] = max(each, rates.get(topic, 0.0))
    return rates

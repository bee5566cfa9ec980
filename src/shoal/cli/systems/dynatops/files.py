"""Input files of `shoal plan dynatops`: CSV files of users, brokers, rates and round trips."""

from __future__ import annotations

import math
from pathlib import Path

from shoal.cli.support.errors import UserError
from shoal.cli.support.surveys import read_amount, read_amounts, read_rows, read_survey
from shoal.overlays.dynatops.planning.advising.survey import (
    SurveyedBroker,
    SurveyedClient,
    UserSurvey,
)

# Columns of a brokers' file beside the name.
_COLUMNS = ("position", "region", "room", "capacity")


def read_topic_survey(
    users: Path, brokers: Path | None, rates: Path | None, rtt: Path | None, sites: Path | None
) -> UserSurvey:
    """The survey in these files; UserError names the file and the line that is wrong.

    Without a brokers' file there are those of the users, without rates each topic is published to
    once a second.
    """
    clients = _clients(users)
    found = _brokers(brokers) if brokers is not None else []
    if brokers is None:
        found = [
            SurveyedBroker(name) for name in sorted({each.broker for each in clients.values()})
        ]
    names = {broker.name for broker in found}
    for user, client in clients.items():
        if client.broker not in names:
            known = ", ".join(sorted(names)[:8])
            raise UserError(
                f"{users}: user {user!r} is at {client.broker!r}; {brokers} has {known}"
            )
    if rates is None:
        published = {topic: 1.0 for each in clients.values() for topic in each.topics}
    else:
        published = read_amounts(rates, ("topic", "per_second"))
    if not any(published.values()):
        raise UserError(f"{rates}: no topic has publications")
    if rtt is None:
        return UserSurvey(found, clients, published)
    measured = read_survey(rtt, None, sites, tuple(broker.name for broker in found))
    return UserSurvey(found, clients, published, measured.round_trips)


def _clients(path: Path) -> dict[str, SurveyedClient]:
    at: dict[str, str] = {}
    topics: dict[str, dict[str, None]] = {}
    for line, (user, broker, topic) in read_rows(path, ("user", "broker", "topic")):
        if at.setdefault(user, broker) != broker:
            raise UserError(f"{path}:{line}: user {user!r} is at {broker!r}, and at {at[user]!r}")
        wanted = topics.setdefault(user, {})
        if topic in wanted:
            raise UserError(f"{path}:{line}: {user},{broker},{topic} stands there twice")
        wanted[topic] = None
    if not at:
        raise UserError(f"{path}: names no user")
    return {user: SurveyedClient(broker, tuple(topics[user])) for user, broker in at.items()}


def _brokers(path: Path) -> list[SurveyedBroker]:
    found: dict[str, SurveyedBroker] = {}
    for line, (name, position, region, room, capacity) in read_rows(path, ("broker",), _COLUMNS):
        if name in found:
            raise UserError(f"{path}:{line}: broker {name!r} stands there twice")
        if position and not position.isdecimal():
            raise UserError(f"{path}:{line}: position: {position!r} is no whole number from 0 on")
        found[name] = SurveyedBroker(
            name,
            int(position) if position else None,
            region,
            read_amount(path, line, "room", room) if room else math.inf,
            read_amount(path, line, "capacity", capacity) if capacity else math.inf,
        )
    return list(found.values())

"""`shoal why`: does a message reach a client, and if not, where it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.clients import read_attribute
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.live.routes import Answers, Way, down, find_way, queues
from shoal.cli.support.live.statuses import Statuses, admin_addresses, ask_status, problem_of

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller


def why(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    client: Annotated[
        str, typer.Argument(help="The client that the message should reach, by identifier.")
    ],
    topic: Annotated[str, typer.Argument(help="The topic.")],
    payload: Annotated[str, typer.Argument(help="The payload: its JSON fields count.")] = "",
    attributes: Annotated[
        list[str] | None,
        typer.Option("--attribute", "-a", metavar="NAME=VALUE", help="User properties."),
    ] = None,
    publisher: Annotated[str, typer.Option(help="The publisher, by client identifier.")] = "",
    at: Annotated[
        str, typer.Option(metavar="BROKER", help="The publisher's broker, if not by --publisher.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Also each broker's answer.")] = False,
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Explain why a message reaches a client of a running network, or does not.

    The answer names the subscription that matches and the test that fails, the brokers on the way
    and the table that ends it, the rule that forbids it, the queue that holds it. Nothing is
    published. Exit code 1 when it does not reach the client.
    """
    from shoal.cli.support.live.networks import read_network

    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    query = {
        "client": client,
        "topic": topic,
        "payload": payload,
        "attributes": json.dumps(dict(map(read_attribute, attributes or ()))),
        "publisher": publisher,
    }
    statuses, answers, ways = asyncio.run(_ask(network, caller, query, publisher, at))
    if as_json:
        said = {name: dict(answer) for name, answer in answers.items()}
        for name, way in ways.items():
            said[name]["way"] = way._asdict()
        print(json.dumps(said, indent=2))
        return
    lines = list(_lines(client, publisher, at, statuses, answers, ways))
    for line in lines[:-1]:
        print(line)
    print(lines[-1])
    if not lines[-1].startswith("it reaches"):
        raise typer.Exit(1)


async def _ask(
    network: NetworkFile, caller: Caller, query: Mapping[str, str], publisher: str, at: str
) -> tuple[Statuses, Answers, Mapping[str, Way]]:
    """Every broker, until it has said all; then the ways from where it may be published."""
    statuses = await ask_status(network, caller)
    here = admin_addresses(network, statuses)
    known: dict[tuple[str, str, str], Mapping[str, Any]] = {}

    async def get(name: str, question: str, query: Mapping[str, Any]) -> dict[str, Any]:
        from shoal.runtime.supervisor import get_json

        try:
            found = await get_json(here[name], f"/{question}?{urlencode(query)}", caller.to(name))
        except OSError as error:
            raise UserError(f"{name} does not answer: {problem_of(error)}") from error
        if "problem" in found and len(found) == 1:
            raise UserError(found["problem"])
        return found

    async def routing_decision(name: str, source: str, told: str) -> Mapping[str, Any]:
        if (name, source, told) not in known:
            asked = {**query, "source": source, "told": told}
            known[name, source, told] = await get(name, "routing_decision", asked)
        return known[name, source, told]

    async def ask(name: str) -> dict[str, Any]:
        answer: dict[str, Any] = {}
        skip: int | None = 0
        while skip is not None:
            found = await get(name, "why", {**query, "skip": skip})
            if answer:
                answer["session"]["subscriptions"] += found["session"]["subscriptions"]
            else:
                answer = found
            skip = (found["session"] or {}).get("next")
        return answer

    answers = dict(zip(here, await asyncio.gather(*map(ask, here)), strict=True))
    home = _session_broker(answers)
    if home is None:
        return statuses, answers, {}
    starts = _starts(publisher, at, answers)
    ways = {start: await find_way(start, home, routing_decision, statuses) for start in starts}
    return statuses, answers, ways


def _session_broker(answers: Answers) -> str | None:
    """Return the broker of the client, or of its session."""
    homes = {
        name: answer["session"]
        for name, answer in answers.items()
        if answer["session"] is not None and not answer["session"]["departed"]
    }
    return max(homes, key=lambda name: bool(homes[name]["connected"]), default=None)


def _lines(
    client: str,
    publisher: str,
    at: str,
    statuses: Statuses,
    answers: Answers,
    ways: Mapping[str, Way],
) -> Iterator[str]:
    """The findings; the last line is the verdict."""
    silent = [name for name, found in statuses.items() if found is None]
    if silent:
        yield f"{', '.join(silent)} does not answer"
    home = _session_broker(answers)
    if home is None:
        where = f" that answers (not {', '.join(silent)})" if silent else ""
        yield f"it does not reach {client}: no broker{where} knows a client of that name"
        return
    session = answers[home]["session"]
    yield from _standing(client, home, session)
    matching = [row for row in session["subscriptions"] if _lets_through(row)]
    yield from (
        _subscription_text(row) for row in session["subscriptions"] if not _lets_through(row)
    )
    yield from (_subscription_text(row) for row in matching)
    for start in ways:
        problem = _refusal(publisher, answers[start]["publisher"])
        if problem:
            yield f"it does not reach {client}: {problem}"
            return
    if not matching:
        yield f"it does not reach {client}: {_nothing_asks(len(session['subscriptions']))}"
        return
    if publisher == client and all(row["no_local"] for row in matching):
        yield f"it does not reach {client}: it wants nothing of its own (no local)"
        return
    for start, way in ways.items():
        known = "" if way.is_said else ", if the links are used: this system does not say it"
        yield f"from {start}: {way.text()}{known}"
    yield from queues(ways.values(), statuses)
    stopped = [
        f"from {start} ({_stop(way, statuses)})" for start, way in ways.items() if way.problem
    ]
    broken = {link for way in ways.values() if (link := down(way, statuses))}
    if stopped:
        yield f"it does not reach {client} {', '.join(stopped)}"
    elif broken:
        yield f"it waits: the link {', '.join(sorted(broken))} is not up"
    elif not session["connected"]:
        highest = max(row["qos"] for row in matching)
        kept = "at QoS 1 and 2 it is kept for it" if highest else "it asks for QoS 0, which is lost"
        yield f"it waits: {client} is away, and {kept}"
    elif all(row["shared"] for row in matching):
        yield f"it reaches {client} when it is its turn: it shares these subscriptions"
    else:
        yield f"it reaches {client}"


def _stop(way: Way, statuses: Statuses) -> str:
    """Return why a publication does not come further, and whether it waits there."""
    link = down(way, statuses)
    waits = f"; at QoS 1 and 2 it waits for the link {link}" if link else ""
    return f"{way.problem}{waits}"


def _standing(client: str, home: str, session: Mapping[str, Any]) -> Iterator[str]:
    state = "is connected to" if session["connected"] else "is away; its session is at"
    user = f" as user {session['user']}" if session["user"] else ""
    in_flight, waiting = session["in_flight"], session["waiting"]
    words = "1 message is" if in_flight == 1 else f"{in_flight:,} messages are"
    words += f" in flight to it, {waiting:,} {'waits' if waiting == 1 else 'wait'}"
    yield f"{client} {state} {home}{user}: {words}"
    if session["dropped"]:
        yield f"{session['dropped']:,} messages were dropped, as its queue was full"


def _lets_through(row: Mapping[str, Any]) -> bool:
    return bool(row["topic_matches"] and row["content_matches"])


def _subscription_text(row: Mapping[str, Any]) -> str:
    """A subscription, and the test that stops a message there."""
    if not row["topic_matches"]:
        return f"  no   {row['topic_filter']}: another topic"
    if row["content_matches"]:
        return f"  yes  {row['topic_filter']}, at QoS {row['qos']}{_conflation_text(row)}"
    reasons = "\n".join(f"         {line}" for line in str(row["why"]).split("\n"))
    return f"  no   {row['topic_filter']}: its content\n{reasons}"


def _conflation_text(row: Mapping[str, Any]) -> str:
    """
    >>> _conflation_text({"conflation": None})
    ''
    >>> rule = {"every": "10s", "changed": "", "held_s": 4.0, "has_changed": True}
    >>> _conflation_text({"conflation": rule})
    ', $every 10s: held for 4.0 s, unless a newer one comes'
    """
    found = row.get("conflation")
    if found is None:
        return ""
    asked = [f"${name} {found[name]}" for name in ("every", "changed") if found[name]]
    if found["held_s"]:
        effect = f"held for {found['held_s']} s, unless a newer one comes"
    else:
        effect = "at once" if found["has_changed"] else "suppressed, as nothing has changed"
    return f", {', '.join(asked)}: {effect}"


def _starts(publisher: str, at: str, answers: Answers) -> list[str]:
    """Return the brokers where it may be published."""
    if at:
        if at not in answers:
            raise UserError(f"--at {at}: no such broker answers; there are {', '.join(answers)}")
        return [at]
    if publisher:
        found = [name for name, answer in answers.items() if answer["publisher"] is not None]
        if not found:
            raise UserError(f"--publisher {publisher}: is not connected; say --at BROKER instead")
        return found
    return list(answers)


def _nothing_asks(subscriptions: int) -> str:
    """
    >>> _nothing_asks(0), _nothing_asks(1)
    ('it has no subscription', 'its only subscription does not let it through')
    """
    if subscriptions > 1:
        return f"none of its {subscriptions} subscriptions lets it through"
    if subscriptions:
        return "its only subscription does not let it through"
    return "it has no subscription"


def _refusal(publisher: str, said: Mapping[str, Any] | None) -> str:
    """Return the rule that forbids the publisher this publication."""
    if said is None:
        return ""
    if not said["may_publish"]:
        user = f"user {said['user']}" if said["user"] else "who gives no name"
        return f"no rule allows {publisher} ({user}) to publish there"
    if not said["advertised"]:
        return f"{publisher} has not advertised it ($advertise), so its broker refuses it"
    return ""

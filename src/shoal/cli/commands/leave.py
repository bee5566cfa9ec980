"""`shoal leave`: take one broker out of a live network, or take that back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from shoal.cli.support.errors import UserError
from shoal.cli.support.live.operators import (
    Operator,
    OperatorCertificate,
    OperatorPassword,
    read_caller,
)
from shoal.cli.support.live.statuses import problem_of

if TYPE_CHECKING:
    from shoal.runtime.addresses import Address
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

_POLL_S = 0.2
# Stages are short but for the sessions'; a longer one is printed.
_SAY_AFTER_S = 5.0
_HEAR_S = 5.0
# Questions, one after the other, to which no answer came in time.
_MOST_UNANSWERED = 6


def leave(
    network_file: Annotated[Path, typer.Argument(metavar="NETWORK.toml", help="The network.")],
    broker: Annotated[str, typer.Argument(help="The broker's name.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the steps, and reasons that refuse them.")
    ] = False,
    abort: Annotated[
        bool, typer.Option("--abort", help="Take a leave back that has not come to its end.")
    ] = False,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BROKER",
            help="Treat this neighbour, which is not connected, as dead; may be repeated.",
        ),
    ] = None,
    admin: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Its admin port, if the file does not list it and no other broker answers.",
        ),
    ] = "",
    operator: Operator = "",
    operator_password: OperatorPassword = "",
    operator_certificate: OperatorCertificate = "",
) -> None:
    """Take a broker out of a running network for good.

    Its clients are sent to other brokers, sessions that stay behind are handed over, its links end
    when all in them has arrived, and then its process ends, with exit code 0.  Nothing that was
    acknowledged is lost.

    A broker does not leave while a neighbour is not connected: wait, or say --without.  With
    --dry-run the exit code is 1 if the broker cannot leave.
    """
    from shoal.cli.support.live.forgetting import forget_broker
    from shoal.cli.support.live.networks import read_network
    from shoal.runtime.addresses import read_address

    if abort and (dry_run or without):
        raise UserError("--abort: takes a leave back; say nothing else with it")
    network = read_network(network_file, has_files=False)
    caller = read_caller(network, operator, operator_password, operator_certificate)
    known = {each.name: each.reached_at("admin") for each in network.brokers}
    address = admin or known.get(broker, "")
    if not address and broker in known:
        raise UserError(f"{network_file}: broker {broker!r} has no admin address")
    if not address:
        address = asyncio.run(_joined_at(network, broker, caller))
    try:
        there = read_address(address)
        others = {
            name: read_address(each) for name, each in known.items() if each and name != broker
        }
    except ValueError as error:
        raise UserError(f"--admin: {error}") from error
    if dry_run:
        _show_plan(broker, asyncio.run(_plan(broker, there, without or (), caller.to(broker))))
    elif abort:
        asyncio.run(_abort(broker, there, caller.to(broker)))
        print(f"{broker} stays")
    else:
        for each in without or ():
            asyncio.run(forget_broker(network, each, caller, at=broker))
        is_news = asyncio.run(_leave(broker, there, others, caller, is_listed=broker in known))
        print(f"{broker} has left" if is_news else f"{broker} had left already")


async def _joined_at(network: NetworkFile, broker: str, caller: Caller) -> str:
    """Return the admin address of a broker that has joined, from the brokers that answer."""
    from shoal.cli.support.live.statuses import admin_addresses, ask_status

    statuses = await ask_status(network, caller)
    if statuses.get(broker) is not None:
        return str(admin_addresses(network, statuses)[broker])
    if broker in statuses:
        raise UserError(f"{broker} {statuses.why_not(broker)}")
    raise UserError(
        f"broker {broker!r} is not listed, and no broker that answers knows it; name its --admin"
    )


async def _check_name(broker: str, address: Address, caller: Caller) -> None:
    """UserError unless this is the broker that answers there."""
    from shoal.runtime.supervisor import get_json

    name = (await get_json(address, "/status", caller))["broker"]
    if name != broker:
        raise UserError(f"the broker at {address} is {name}, not {broker}")


async def _plan(
    broker: str, address: Address, without: Sequence[str], caller: Caller
) -> dict[str, Any]:
    """Print the steps of a leave."""
    from shoal.runtime.supervisor import get_json

    query = urlencode({"without": ",".join(without)})
    try:
        await _check_name(broker, address, caller)
        return await get_json(address, f"/leave-plan?{query}", caller)
    except OSError as error:
        raise UserError(f"{broker} does not answer at {address}: {problem_of(error)}") from error


def _show_plan(broker: str, plan: Mapping[str, Any]) -> None:
    """Print it; exit code 1 if the broker cannot leave."""
    stage, takers = plan["stage"], ", ".join(plan["takers"])
    if stage:
        print(f"{broker} leaves already, busy with its {stage}")
    print(
        f"clients: {plan['clients']:,} would be sent elsewhere, {plan['follow']:,} of them follow"
    )
    print(f"sessions: {plan['sessions']:,} to hand over, to {takers or 'no other broker'}")
    for row in plan["neighbours"]:
        state = "connected" if row["connected"] else "not connected"
        if row["dead"]:
            state = f"treated as dead; {row['waiting_bytes']:,} bytes that wait for it are lost"
        print(f"neighbour {row['broker']}: {state}")
    if plan["successor"]:
        print(f"{plan['successor']} takes the place of {broker}")
    for reader, behind in plan.get("readers", {}).items():
        if behind:
            print(
                f"reader {reader} has {behind:,} records of its log to read; "
                "its folder stays, for `shoal log serve`"
            )
    if plan["problems"]:
        for problem in plan["problems"]:
            print(f"{broker} cannot leave: {problem}")
        raise typer.Exit(1)
    print(f"{broker} can leave")


async def _abort(broker: str, address: Address, caller: Caller) -> None:
    from shoal.runtime.supervisor import order

    try:
        await _check_name(broker, address, caller)
        problem = await order(address, "stay", caller)
    except OSError as error:
        raise UserError(f"{broker} does not answer at {address}: {problem_of(error)}") from error
    if problem:
        raise UserError(f"{broker}: {problem}")


async def _leave(
    broker: str,
    address: Address,
    others: Mapping[str, Address],
    caller: Caller,
    *,
    is_listed: bool,
) -> bool:
    """Return whether it has left now, and had not before."""
    from shoal.runtime.supervisor import ask_to_leave, get_json

    try:
        await _check_name(broker, address, caller.to(broker))
        problem = await ask_to_leave(address, caller.to(broker))
    except OSError as error:
        # A name that is in no file may never have existed.
        if is_listed and await _is_gone(broker, others, caller, 0):
            return False
        raise UserError(f"{broker} does not answer at {address}: {problem_of(error)}") from error
    if problem:
        raise UserError(f"{broker} cannot leave: {problem}")
    stage, said, unanswered = "", ("", ""), 0
    while True:
        try:
            found: dict[str, Any] = await get_json(address, "/status", caller.to(broker))
        except TimeoutError:  # busy, not gone; a machine that is off refuses nothing either
            unanswered += 1
            if unanswered > _MOST_UNANSWERED:
                break
            continue
        except OSError:
            break
        unanswered = 0
        leaving = found["leaving"]
        if not leaving["stage"]:
            if leaving["outcome"]:
                raise UserError(f"{broker} stays: its leave was {leaving['outcome']}")
            raise UserError(f"{broker} was started again before it had left; ask it once more")
        stage = leaving["stage"]
        # Counts that change all the time, as the number of sessions, are printed once.
        words = (stage, leaving["next"])
        if leaving["since_s"] > _SAY_AFTER_S and words != said:
            said = words
            problem = f": {leaving['problem']}" if leaving["problem"] else ""
            print(f"{broker} is still busy with its {stage}{problem}", flush=True)
            print(f"  next: {leaving['next']}", flush=True)
        await asyncio.sleep(_POLL_S)
    # At the stage `left` its links have ended: a broker behind a dead one may learn it later.
    if not await _is_gone(broker, others, caller, _HEAR_S) and stage != "left":
        raise UserError(f"{broker} ended while it was busy with its {stage}; it has not left")
    return True


async def _is_gone(
    broker: str, others: Mapping[str, Address], caller: Caller, within_s: float
) -> bool:
    """Return whether the brokers that answer know that it has left; the last may hear it a bit
    later.

    If asked at once (`within_s` 0), at least one broker must answer.
    """
    from shoal.runtime.supervisor import get_json

    with suppress(TimeoutError):
        async with asyncio.timeout(within_s or None):
            while True:
                lists = [
                    [row["broker"] for row in found["brokers"]]
                    for found in await asyncio.gather(
                        *(
                            get_json(address, "/status", caller.to(name))
                            for name, address in others.items()
                        ),
                        return_exceptions=True,
                    )
                    if isinstance(found, dict)
                ]
                is_gone = not any(broker in names for names in lists)
                if is_gone or not within_s:
                    return is_gone and bool(lists or within_s)
                await asyncio.sleep(_POLL_S)
    return False

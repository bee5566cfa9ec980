"""`shoal bridge`: carry messages between a shoal network and another MQTT broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.support.errors import UserError


def bridge(
    bridge_file: Annotated[Path, typer.Argument(metavar="BRIDGE.toml", help="The carried topics.")],
    check: Annotated[bool, typer.Option("--check", help="Only report faults in it.")] = False,
    metrics: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Answer Prometheus there: /metrics, over HTTP.")
    ] = "",
) -> None:
    """Carry messages between a shoal network and any other MQTT broker, until it is stopped.

    The file names the two brokers and, in its tables `in` and `out`, which topics are carried. The
    brokers keep queued messages: the bridge may be stopped, killed and started again.
    """
    from prometheus_client import start_http_server

    from shoal.client.bridges.bridge import run_bridge
    from shoal.client.bridges.bridge_file import load_bridge
    from shoal.client.bridges.metrics import BridgeTally, bridge_registry
    from shoal.runtime.addresses import read_address
    from shoal.runtime.operations.logs import start_logging
    from shoal.runtime.serving import StoppedError, run_or_stop
    from shoal.typed_toml import TomlError

    try:
        found = load_bridge(bridge_file)
        for end in (found.here, found.there):
            end.password()
            end.tls.context()
    except (TomlError, ValueError) as error:
        raise UserError(str(error)) from error
    if check:
        return
    start_logging(f"bridge-{found.name}")
    tally = BridgeTally()
    if metrics:
        try:
            host, port = read_address(metrics)
            start_http_server(port, host, bridge_registry(found.name, tally))
        except ValueError as error:
            raise UserError(f"--metrics {metrics}: {error}") from error
        except OSError as error:
            raise UserError(f"--metrics {metrics}: {error.strerror or error}") from error
    try:
        run_or_stop(lambda: run_bridge(found, tally))
    except StoppedError:
        return

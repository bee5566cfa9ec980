"""The options by which commands connect and speak as clients, the same for all of them."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from shoal.cli.support.errors import UserError

if TYPE_CHECKING:
    from shoal.client import Client
    from shoal.client.endpoint import Endpoint, Tls

Broker = Annotated[
    str, typer.Option(help="host:port of a broker, or mqtts://, ws://, wss://host:port.")
]
Username = Annotated[str | None, typer.Option(help="The user name.")]
Password = Annotated[str | None, typer.Option(envvar="SHOAL_PASSWORD", help="The user's password.")]
Authority = Annotated[
    str,
    typer.Option(
        metavar="FILE",
        help="Over TLS: the authority of the broker's certificate, in PEM.",
        show_default="those that the system trusts",
    ),
]
Certificate = Annotated[
    str, typer.Option(metavar="FILE", help="Over TLS: your own certificate, in PEM.")
]
KeyFile = Annotated[str, typer.Option(metavar="FILE", help="And its key.")]
ServerName = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Over TLS: the name in the broker's certificate, if not host."
    ),
]
Version = Annotated[str, typer.Option("--mqtt", help="The version of MQTT: 5 or 3.1.1.")]


class _OnStderr(logging.Handler):
    """Prints clients' log lines in the commands' format."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"shoal: {record.getMessage()}", file=sys.stderr, flush=True)


_ON_STDERR = _OnStderr()


class Connecting(NamedTuple):
    """Address and options with which clients of a command connect."""

    endpoint: Endpoint
    username: str | None
    password: str | None
    tls: Tls
    version: str

    def client(self, client_id: str = "", **options: Any) -> Client:
        """A client that is not connected yet; stderr says when it loses its broker."""
        from shoal.client import Client

        log = logging.getLogger("shoal.client")
        log.setLevel(logging.INFO)
        log.addHandler(_ON_STDERR)
        return Client(
            str(self.endpoint),
            client_id,
            username=self.username,
            password=self.password,
            tls=self.tls,
            version="3.1.1" if self.version == "3.1.1" else "5",
            **options,
        )


def read_connecting(
    broker: str,
    username: str | None,
    password: str | None,
    authority: str,
    certificate: str,
    key: str,
    server_name: str,
    version: str = "5",
) -> Connecting:
    """Read the options; UserError for an address or files that cannot be used."""
    from shoal.client.endpoint import read_endpoint

    try:
        endpoint = read_endpoint(broker)
    except ValueError as error:
        raise UserError(f"--broker: {error}") from error
    if any((authority, certificate, key, server_name)) and not endpoint.is_over_tls:
        raise UserError(f"--broker {broker}: is not over TLS; write mqtts:// or wss:// before it")
    tls = read_tls(authority, certificate, key, server_name)
    if version not in ("5", "3.1.1"):
        raise UserError(f"--mqtt {version}: is not 5 or 3.1.1")
    return Connecting(endpoint, username, password, tls, version)


def read_tls(authority: str, certificate: str, key: str, server_name: str) -> Tls:
    """Read the options about TLS; UserError names a file that cannot be used."""
    from shoal.client.endpoint import Tls

    tls = Tls(authority=authority, certificate=certificate, key=key, server_name=server_name)
    try:
        tls.context()
    except ValueError as error:
        raise UserError(f"--{error}") from error
    return tls


def check_topic_filters(*topics: str) -> None:
    """UserError for a topic filter that MQTT does not allow, before a connection is made."""
    from shoal.matching.topics.filters import TopicError
    from shoal.mqtt.codec.requests import check_topic_filter

    try:
        for each in topics:
            check_topic_filter(each)
    except TopicError as error:
        raise UserError(f"--topic: {error}") from error


def read_attribute(text: str) -> tuple[str, str]:
    """The name and the value of an `--attribute`; UserError if it has none."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"--attribute {text}: write NAME=VALUE, such as dep_delay=41")
    return name, value

"""Requests to admin ports: over TLS or not, by an operator or anonymous.

A mismatch is reported, and not taken for a broker that is down: one end speaks TLS and the other
does not, a certificate is not trusted, an operator is unknown.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from shoal.http_calls import HttpConnection, basic
from shoal.model import BrokerId
from shoal.runtime.addresses import Address
from shoal.runtime.network_sections import AdminSection

# Default time limit of an answer; a wrong password is answered after 5 s.
ANSWER_S = 8.0
# Long enough to begin a TLS handshake anywhere.
_PROBE_S = 3.0


class OrderRefusedError(OSError):
    """A broker is there, and refuses the request; the text says which option to change."""


class Caller(NamedTuple):
    """Access to the admin ports of a network, with the operator's credentials.

    `server_name` is the name that the certificate is made out to, if not the host, and
    `certificate` the file with the operator's own.
    """

    context: ssl.SSLContext | None = None
    authorization: str = ""
    server_name: str = ""
    names_brokers: bool = False
    certificate: str = ""

    def to(self, broker: BrokerId) -> Caller:
        """Return the caller for this broker; with an authority of the network's own the broker must
        prove its name.
        """
        return self._replace(server_name=broker) if self.names_brokers else self

    def exchange(
        self,
        address: Address,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> tuple[int, bytes]:
        """Status code and body of an answer.

        RefusedError when both ends do not fit, TimeoutError when there is no answer yet, else
        OSError when there is none.  Proxies of the environment are for the world outside.
        """
        given = {"Authorization": self.authorization} if self.authorization else {}
        connection = HttpConnection(
            address.host,
            address.port,
            timeout_s or ANSWER_S,
            self.context,
            self.server_name,
        )
        try:
            connection.request(method, path, headers={**given, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.read()
        except ssl.SSLError as error:
            raise OrderRefusedError(_problem(error)) from None
        except (http.client.HTTPException, ConnectionResetError, BrokenPipeError) as error:
            if self.context is None and speaks_tls(address):
                why = "it speaks TLS; set admin.certificate in the network file"
                raise OrderRefusedError(why) from None
            if self.certificate and isinstance(error, http.client.RemoteDisconnected):
                why = f"it hangs up on {self.certificate}, which admin.operator_authority may not"
                raise OrderRefusedError(f"{why} have signed") from None
            if isinstance(error, http.client.HTTPException):  # it was killed while it answered
                raise OSError(f"the answer broke off: {error!r}") from None
            raise
        finally:
            connection.close()


# For a network with admin ports for this machine only.
ANYBODY = Caller()


def make_caller(
    section: AdminSection, operator: str = "", password: str = "", certificate: str = ""
) -> Caller:
    """Return the caller for the brokers of a network; ValueError for a file that cannot be used.

    `certificate` names a PEM file with the operator's certificate and its key.
    """
    authorization = basic(operator, password) if operator else ""
    if not section.is_over_tls:
        if certificate:
            raise ValueError(f"{certificate}: the network's admin ports do not speak TLS")
        return Caller(None, authorization)
    path = section.authority
    if path and not Path(path).is_file():
        raise ValueError(f"admin.authority: no file {path}")
    try:
        context = ssl.create_default_context(cafile=path or None)
    except ssl.SSLError as error:
        raise ValueError(f"admin.authority: {path}: {error}") from None
    if certificate:
        try:
            context.load_cert_chain(certificate)
        except OSError as error:  # TLS's own errors are among them
            raise ValueError(f"{certificate}: no certificate with its key: {error}") from None
    return Caller(context, authorization, names_brokers=bool(path), certificate=certificate)


def _problem(error: ssl.SSLError) -> str:
    match error:
        case ssl.SSLCertVerificationError():
            return f"its certificate is not trusted: {error.verify_message}"
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE"):
            return "it does not speak TLS, although admin.certificate is set; start it again"
    return f"TLS fails: {(error.reason or str(error)).lower().replace('_', ' ')}"


def speaks_tls(address: Address) -> bool:
    """Return whether a listener that hangs up on plain text is one for TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(address, _PROBE_S) as plain,
            context.wrap_socket(plain),
        ):
            return True
    except OSError:  # TLS's own errors are among them
        return False

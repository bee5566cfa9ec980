"""The options by which commands ask brokers at their admin ports, the same for all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.support.errors import UserError

if TYPE_CHECKING:
    from shoal.runtime.network_file import NetworkFile
    from shoal.runtime.operations.caller import Caller

Operator = Annotated[
    str,
    typer.Option(
        envvar="SHOAL_OPERATOR", help="The operator's name at admin ports that ask for it."
    ),
]
OperatorPassword = Annotated[
    str, typer.Option(envvar="SHOAL_OPERATOR_PASSWORD", help="The operator's password.")
]

OperatorCertificate = Annotated[
    str,
    typer.Option(
        envvar="SHOAL_OPERATOR_CERTIFICATE",
        metavar="FILE",
        help="Or your certificate with its key, in PEM.",
    ),
]


def read_caller(
    network: NetworkFile, operator: str, password: str, certificate: str = ""
) -> Caller:
    """Return the caller for the brokers of a network; UserError for files that cannot be used."""
    from shoal.runtime.operations.caller import make_caller

    if password and not operator:
        raise UserError("--operator-password needs --operator, too")
    try:
        return make_caller(network.admin, operator, password, certificate)
    except ValueError as error:
        raise UserError(str(error)) from error

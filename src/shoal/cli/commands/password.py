"""`shoal password`: add a user to a password file, or change a password."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.support.errors import UserError


def password(
    file: Annotated[Path, typer.Argument(help="The password file; made when it is not there.")],
    user: Annotated[str, typer.Argument(help="The user with this password.")],
    secret: Annotated[
        str | None,
        typer.Option(
            "--password",
            envvar="SHOAL_PASSWORD",
            help="Asked for when it is not given; the first line of standard input, if that is no "
            "terminal.",
        ),
    ] = None,
) -> None:
    """Set a user's password in a password file, which holds only its hash.

    Brokers read the file when they start, and again at SIGHUP.
    """
    from shoal.runtime.front_ends.entry.passwords import parse_passwords, password_line

    if secret is None:
        secret = _asked()
    elif not secret:
        raise UserError("no password: it is empty (--password, SHOAL_PASSWORD)")
    try:
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        parse_passwords(before)
        kept = [line for line in before.splitlines() if not line.startswith(f"{user}:")]
        text = "\n".join((*kept, password_line(user, secret))) + "\n"
        partial = file.with_name(f".{file.name}.partial")
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(text)
        partial.replace(file)
    except OSError as error:
        raise UserError(f"{file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: byte {error.start} is not UTF-8 text") from error
    except ValueError as error:
        raise UserError(f"{file}: {error}") from error
    print(f"{file}: {user} is set")


def _asked() -> str:
    """Return the password that a user types twice, or a program pipes in once."""
    if sys.stdin.isatty():
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True))
    secret = sys.stdin.readline().rstrip("\r\n")
    if not secret:
        raise UserError("no password: standard input is empty (--password, SHOAL_PASSWORD)")
    return secret

"""Options of `shoal` itself, before any command, and the layout of help."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup


def unbroken(text: str) -> str:
    r"""Each paragraph of a docstring in one line, which a terminal breaks where it is full.

    >>> unbroken("What it does.\n\n    More of it,\n    to the end.\n    ")
    'What it does.\n\nMore of it, to the end.'
    """
    return "\n\n".join(each.replace("\n", " ") for each in inspect.cleandoc(text).split("\n\n"))


class Command(TyperCommand):
    """A command whose help shows no value for flags, and whose errors say what to use."""

    def get_params(self, ctx: Any) -> Any:
        return _without_values(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = as_advice(error.message)
            raise


def as_advice(problem: str) -> str:
    """The words of typer's validation, as all other errors of options have them.

    >>> as_advice("Input should be greater than or equal to 1")
    'use 1 or more'
    >>> as_advice("Input should be less than or equal to 2")
    'use 2 or less'
    >>> as_advice("Value error, 'big' is not one of 'small', 'paper'.")
    "'big' is not one of 'small', 'paper'."
    """
    for phrase, bound in (("greater", "more"), ("less", "less")):
        begin = f"Input should be {phrase} than or equal to "
        if problem.startswith(begin):
            return f"use {problem.removeprefix(begin)} or {bound}"
    return problem.removeprefix("Value error, ")


class CommandGroup(TyperGroup):
    """The same of `shoal` itself."""

    def get_params(self, ctx: Any) -> Any:
        return _without_values(super().get_params(ctx))


def _without_values(options: Iterable[Any]) -> list[Any]:
    found = list(options)
    for each in found:
        if getattr(each, "is_flag", False) and each.metavar is None:
            each.metavar = ""
    return found


def _show_version(is_asked: bool) -> None:
    if is_asked:
        from shoal.matching.compiled.kernels.choice import described

        print(f"shoal {metadata.version('shoal')}, {described()}")
        raise typer.Exit


def front(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version."),
    ] = False,
) -> None:
    """Keeps `shoal` a group of commands whatever their number."""

"""The page of commands, from their own parser."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Collection
from typing import Any

import typer

from shoal.cli.main import COMMANDS, load_command
from tools.reference.texts import cell

# An option that so many commands share is described once.
SHARED = 4
HEAD = "| option | value | default | |\n| --- | --- | --- | --- |"


def parser() -> Any:
    """All commands in one: typer's group, with the parser of each in `commands`."""
    app = typer.Typer(name="shoal", add_completion=False)
    for name in COMMANDS:
        app.command(name)(load_command(name))
    return typer.main.get_command(app)


def command_page() -> list[str]:
    """Every command, its arguments and options."""
    lines = [
        "# Commands",
        "",
        "`shoal COMMAND --help` says the same. Exit code 2 means that the command line or a file",
        "is wrong.",
        "",
        "| command | |",
        "| --- | --- |",
        *(f"| [`{name}`](#shoal-{name}) | {cell(text)} |" for name, text in COMMANDS.items()),
    ]
    commands = parser().commands
    rows = Counter(
        _row(one)
        for command in commands.values()
        for one in command.params
        if one.param_type_name == "option" and not one.required
    )
    shared = [row for row, times in rows.items() if times >= SHARED]
    for name in COMMANDS:
        lines += ["", *_command(name, commands[name], shared)]
    lines += ["", "## Shared options", "", f"{SHARED} commands or more have these."]
    return [*lines, "", *HEAD.splitlines(), *shared]


def _command(name: str, command: Any, shared: Collection[str]) -> list[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    words = "".join(f" {_argument(one)}" for one in arguments)
    lines = [f"## `shoal {name}`", "", f"`shoal {name}{words}`", "", _prose(command.help)]
    rows = [_row(one) for one in (*arguments, *options)]
    if own := [row for row in rows if row not in shared]:
        lines += ["", *HEAD.splitlines(), *own]
    if others := [f"`{row.split('`')[1]}`" for row in rows if row in shared]:
        lines += ["", f"[Shared options](#shared-options): {', '.join(others)}."]
    return lines


def _row(one: Any) -> str:
    return f"| `{_argument(one)}` | {_value(one)} | {_default(one)} | {cell(one.help or '')} |"


def _argument(one: Any) -> str:
    if one.param_type_name == "option":
        return "`, `".join(sorted(one.opts, key=len, reverse=True))
    name = str(one.metavar or one.name.upper())
    if one.nargs == -1 and not name.endswith("..."):
        name += "..."
    return name if one.required else f"[{name}]"


def _value(one: Any) -> str:
    """The placeholder of the value, or its type and bounds."""
    if getattr(one, "is_flag", False):
        return ""
    kind = one.type_descriptor.annotation
    if one.metavar and one.param_type_name == "option":
        return f"`{one.metavar}`"
    if getattr(kind, "__origin__", None) is not None and kind.__origin__ is not list:
        return ", ".join(f"`{each}`" for each in kind.__args__)
    item = getattr(kind, "__args__", (kind,))[0]
    names = {"int": "whole number", "float": "number", "str": "text", "Path": "path"}
    text = str(names.get(item.__name__, item.__name__))
    match one.min, one.max:
        case None, None:
            return text
        case least, None:
            return f"{text}, at least {least}"
        case least, most:
            return f"{text}, {least} to {most}"


def _default(one: Any) -> str:
    """The default."""
    if one.required:
        return "needed"
    if isinstance(one.show_default, str):
        return cell(one.show_default)
    if one.default in (None, "", (), [], False) or inspect.isfunction(one.default):
        return ""
    return f"`{getattr(one.default, 'value', one.default)}`"


def _prose(text: str | None) -> str:
    paragraphs = inspect.cleandoc(text or "").split("\n\n")
    return "\n\n".join(re.sub(r"\s+", " ", each) for each in paragraphs)

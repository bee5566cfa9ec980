"""The pages of the reference, by file name."""

from __future__ import annotations

from collections.abc import Mapping

from shoal.client.bridges import bridge_file
from shoal.experiments.scenarios import scenario
from shoal.overlays.registry import SYSTEMS
from shoal.pipeline.sources import declaration
from shoal.runtime import network_file
from tools.reference.api import api_page
from tools.reference.commands import command_page
from tools.reference.metrics import metric_page
from tools.reference.tables import Pages, section

MADE = "<!-- Made from the code by `make docs`; a test says when it is stale. -->"
UNITS = "Keys that end in `_us` are microseconds, in `_s` seconds, in `_bytes` bytes."
SYSTEM_PAGE = "systems.md"
# Handwritten pages of the folder.
WRITTEN = {
    "filters.md": ("Filters", "the language"),
    "mqtt.md": ("MQTT, feature by feature", "conformance, attributes, queries, refusals"),
    "glossary.md": ("Glossary", "one word for one thing"),
}
CONTENTS = {
    "network-file.md": "every key of a live network",
    "scenario.md": "every key of a simulated run",
    "systems.md": "the table of each routing system",
    "source-declaration.md": "how the columns of a file are read",
    "bridge.md": "every key of a bridge to another MQTT broker",
    "commands.md": "every command, argument and option",
    "metrics.md": "every metric at `/metrics`",
    "python-api.md": "classes and functions, from their docstrings",
}


def pages() -> Mapping[str, str]:
    """Each page's text; systems of other modules are left out."""
    own = [
        name for name, system in SYSTEMS.items() if system.strategy.__module__.startswith("shoal.")
    ]
    made = {
        "network-file.md": _network_file(own),
        "scenario.md": _scenario(own),
        "systems.md": _systems(own),
        "source-declaration.md": _declaration(),
        "bridge.md": _bridge(),
        "commands.md": command_page(),
        "metrics.md": metric_page(own),
        "python-api.md": api_page(),
    }
    made["README.md"] = _index(made)
    return {name: "\n".join([MADE, *lines, ""]) for name, lines in made.items()}


def _index(made: Mapping[str, list[str]]) -> list[str]:
    lines = ["# Reference", "", "| page | |", "| --- | --- |"]
    lines += [f"| [{title}]({name}) | {text} |" for name, (title, text) in WRITTEN.items()]
    for name, page in made.items():
        lines.append(f"| [{page[0].removeprefix('# ')}]({name}) | {CONTENTS[name]} |")
    return [*lines, "", "All pages but the first three are made from the code."]


def _network_file(systems: list[str]) -> list[str]:
    kind = network_file.NetworkFile
    lines = section(kind, "", Pages(), "The network file", level=1, without="parameters")
    return [*lines[:2], UNITS, "", *lines[2:], "", *_links(systems)]


def _scenario(systems: list[str]) -> list[str]:
    kind = scenario.Scenario
    lines = section(kind, "", Pages(), "Scenarios", level=1, without="sections")
    return [*lines[:2], UNITS, "", *lines[2:], "", *_links(systems)]


def _links(systems: list[str]) -> list[str]:
    shown = ", ".join(f"[`[{name}]`]({SYSTEM_PAGE}#{name})" for name in systems)
    return ["## Systems", "", f"A system's table has its name: {shown}."]


def _systems(systems: list[str]) -> list[str]:
    lines = [
        "# Tables of systems",
        "",
        "A network file and a scenario have a table of the system's name. Numbers in brackets",
        f"are sections of the system's paper; (ours) is not in it. {UNITS}",
    ]
    shown = Pages()
    earlier: dict[str, list[str]] = {}
    for name in systems:
        kind = SYSTEMS[name].parameters
        shown.places.setdefault(kind, f"#{name}")
        found = section(kind, name, shown, f"`[{name}]`")
        lines += ["", *without_repeats(found, earlier)]
        earlier[name] = found
    return lines


def without_repeats(
    found: list[str], earlier: Mapping[str, list[str]], least: int = 10
) -> list[str]:
    """A system's section, without the keys that an earlier system of it has, if these are many.

    A key of that system which this one lacks is named.
    """
    rows = [line for line in found if line.startswith("| `")]
    name = max(earlier, key=lambda name: len({*rows} & {*earlier[name]}), default="")
    shared = {*rows} & {*earlier.get(name, [])}
    if len(shared) < least:
        return found
    theirs = [line.split("`")[1] for line in earlier[name] if line.startswith("| `")]
    own = [line for line in rows if line not in shared]
    lacking = [f"`{key}`" for key in theirs if key not in {row.split("`")[1] for row in rows}]
    text = f"The keys of [`[{name}]`](#{name})"
    text += f", but for {', '.join(lacking)}" if lacking else ""
    text += f", and {'this one' if len(own) == 1 else 'these'}:" if own else "."
    start = found.index("| key | value | default | |")
    return [*found[:start], text, *(["", *found[start : start + 2], *own] if own else [])]


def _bridge() -> list[str]:
    return section(bridge_file.Bridge, "", Pages(), "A bridge's file", level=1)


def _declaration() -> list[str]:
    return section(declaration.Mapping, "", Pages(), "Source declarations", level=1)

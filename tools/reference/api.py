"""The page of the Python API, from signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tools.reference.texts import cell, doc_of, read_doc

# Annotations are texts; a default that is a struct is shown as three dots.
_ANNOTATION = re.compile(r"(: |-> )'([^']*)'")
_FORWARD = re.compile(r"ForwardRef\(('[^']*')\)")
_LONG_DEFAULT = re.compile(r" = [A-Z]\w+\((?:[^()]|\([^()]*\))*\)")


class Part(NamedTuple):
    """A module's classes and functions; of a class the named methods, or all."""

    title: str
    module: str
    names: Sequence[str]
    methods: Mapping[str, Sequence[str]] = {}


_CLIENT = {
    "Client": ("publish", "subscribe", "unsubscribe", "acknowledge", "is_connected"),
    "Subscription": ("granted", "get", "close"),
}
_INDEX = (
    *("add", "remove", "match", "match_each", "match_batch", "match_destinations"),
    *("match_destinations_batch", "matches_any", "add_ranges", "add_table"),
)
_MATCHING = {"MatchIndex": _INDEX, "TopicIndex": ("add", "remove", "match", "match_each")}
_SPARK = "shoal.pipeline.matching"

PARTS = (
    Part(
        "The client",
        "shoal.client",
        ("Client", "Subscription", "Message", "Keep", "Will", "Tls", "ClientError"),
        _CLIENT,
    ),
    Part("Tables in memory", "shoal.frames", ("match_frame",)),
    Part("Filters", "shoal.language", ("parse", "format_filter", "FilterSyntaxError")),
    Part(
        "The index",
        "shoal.matching",
        (
            *("MatchIndex", "TopicIndex", "CoveringSet", "covering_set", "covers", "overlaps"),
            *("explain", "evaluate", "matches", "topic_matches"),
        ),
        _MATCHING,
    ),
    Part(
        "In a Spark session",
        "shoal.spark",
        (
            *("prepare", "read", "write", "ingest", "Ingested", "WorkloadOptions", "workload"),
            *("Workload", "truth", "match", "explain", "profile", "FilterProfile", "summarise"),
            *("Summary", "compare", "Source", "SettingError"),
        ),
        {"Ingested": (), "FilterProfile": (), "Summary": (), "Source": (), "Workload": ()},
    ),
    Part("Spark", f"{_SPARK}.compiled_matching", ("match_tables",)),
    Part("Spark, partitioned", f"{_SPARK}.partitioned_matching", ("match_partitioned",)),
    Part("Spark, streams", f"{_SPARK}.matching_stream", ("match_stream",)),
    Part("An overlay's strategy", "shoal.broker.strategy", ("OverlaySystem", "LifeEvents")),
    Part(
        "Its optional capabilities",
        "shoal.broker.capabilities",
        (
            "MatchingCost",
            "Introspection",
            "Membership",
            "LoadReports",
            "Retransmission",
            "OperatorOrders",
        ),
    ),
    Part("An overlay's description", "shoal.overlays.system", ("System",)),
)


def api_page() -> list[str]:
    """The public API: each class and function with its docstring."""
    lines = ["# Python API"]
    for part in PARTS:
        module = importlib.import_module(part.module)
        lines += ["", f"## {part.title}", "", f"In `{part.module}`."]
        for name in part.names:
            lines += _entry(getattr(module, name), name, part.methods.get(name))
    return lines


def _entry(kind: Any, name: str, methods: Sequence[str] | None) -> list[str]:
    if not inspect.isclass(kind):
        return ["", f"### {name}", *_signature(name, kind), *_prose(kind)]
    lines = ["", f"### {name}"]
    if not (issubclass(kind, Exception) or getattr(kind, "_is_protocol", False)):
        lines += _signature(name, kind)
    doc = doc_of(kind)
    lines += ["", doc.prose] if doc.prose else []
    if keys := read_doc(kind.__doc__ or "").keys:
        lines += ["", "| name | |", "| --- | --- |"]
        lines += [f"| `{key}` | {cell(text)} |" for key, text in keys.items()]
    for each in methods if methods is not None else _public(kind):
        found = inspect.getattr_static(kind, each)
        if isinstance(found, property):
            lines += ["", f"**`{name}.{each}`**", *_prose(found)]
        else:
            lines += _signature(f"{name}.{each}", getattr(kind, each)) + _prose(found)
    return lines


def _public(kind: type) -> list[str]:
    """Methods and properties with a docstring, in the order of the class."""
    return [
        name
        for name, value in vars(kind).items()
        if not name.startswith("_")
        and (callable(value) or isinstance(value, property))
        and value.__doc__
    ]


def _signature(name: str, function: Any) -> list[str]:
    try:
        found = inspect.signature(function)
    except (NameError, ValueError):  # of a struct whose types are imported for checkers only
        return []
    given = [each for each in found.parameters.values() if each.name != "self"]
    text = _FORWARD.sub(r"\1", _LONG_DEFAULT.sub(" = ...", str(found.replace(parameters=given))))
    text = _ANNOTATION.sub(r"\1\2", text)
    start = "async " if inspect.iscoroutinefunction(function) else ""
    return ["", "```text", *_folded(f"{start}{name}{text}"), "```"]


def _folded(text: str, width: int = 88) -> list[str]:
    """A signature in lines, broken behind parameters."""
    lines = [""]
    for part in re.split(r"(?<=, )(?=[\w*/])", text):
        if lines[-1] and len(lines[-1]) + len(part) > width:
            lines.append("    ")
        lines[-1] += part
    return [line.rstrip() for line in lines]


def _prose(found: Any) -> list[str]:
    text = inspect.getdoc(found) or ""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(">>>"):
            lines += ["", "```text", *paragraph.splitlines(), "```"]
        elif paragraph:
            lines += ["", re.sub(r"\s+", " ", paragraph)]
    return lines

"""Caveats about a run: impossible events, and the reasons why no publisher moved.

>>> scenario = {"system": "grape", "grape": {"trace_session_length": 100}}
>>> remarks(scenario, {"most_by_one_publisher": 84})[0]
'publishers publish at most 84 times; grape.trace_session_length needs 100: no publisher can move'
>>> remarks(scenario, {"most_by_one_publisher": 100})
[]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shoal.overlays.registry import FURTHER, SYSTEMS
from shoal.report.drawing.figures import count, seconds

# A queue that is shorter may be a burst's.
FAR_BEHIND_US = 5_000_000


def remarks(scenario: Mapping[str, Any], checks: Mapping[str, Any]) -> list[str]:
    """Return settings of a run that had no effect, and other limits of it, a sentence each.

    An unknown setting is not judged.
    """
    return [
        *_unknown(scenario),
        *_too_few(scenario, checks),
        *_too_late(scenario, checks),
        *_too_much(scenario, checks),
    ]


def why_nobody_moved(
    scenario: Mapping[str, Any], checks: Mapping[str, Any], *, has_decided: bool
) -> str:
    """Return the reason as text; `has_decided` says that the system chose a broker for a
    publisher.
    """
    system = scenario["system"]
    if not _needed(system) and not has_decided:
        return f"{system} moves no publishers."
    if too_few := _too_few(scenario, checks):
        text = too_few[0]
        return f"{text[0].upper()}{text[1:]}."
    if scenario.get(system, {}).get("moves") == "subscribers":
        return f"{system} moves subscribers ({system}.moves)."
    if has_decided:
        least = scenario[system].get("least_gain_percent")
        margin = "" if least is None else f" ({system}.least_gain_percent: {least})"
        return f"{system} decided, and moving never promised enough{margin}."
    return f"{system} decided nothing."


def _needed(system: str) -> str:
    """The parameter that says after how many publications of one publisher it decides."""
    return SYSTEMS[system].decides_after if system in SYSTEMS else ""


def _unknown(scenario: Mapping[str, Any]) -> list[str]:
    system = scenario["system"]
    if system in SYSTEMS:
        return []
    return [
        f"{system} is no system that is known here, so its brokers' records are left out: name "
        f"its module in {FURTHER}"
    ]


def _too_few(scenario: Mapping[str, Any], checks: Mapping[str, Any]) -> list[str]:
    system, most = scenario["system"], checks.get("most_by_one_publisher")
    key = _needed(system)
    needed = scenario.get(system, {}).get(key)
    if most is None or needed is None or most >= needed:
        return []
    times = "once" if most == 1 else f"{count(most)} times"
    return [
        f"publishers publish at most {times}; {system}.{key} needs {count(needed)}: no publisher "
        "can move"
    ]


def _too_late(scenario: Mapping[str, Any], checks: Mapping[str, Any]) -> list[str]:
    end_us = checks.get("virtual_end_us")
    if end_us is None:
        return []
    return [
        f"faults.{kind}[{number}].at_us: the run ended before, at {seconds(end_us)} s"
        for kind in ("crashes", "link_downs")
        for number, fault in enumerate(scenario.get("faults", {}).get(kind, ()))
        if fault["at_us"] >= end_us
    ]


def _too_much(scenario: Mapping[str, Any], checks: Mapping[str, Any]) -> list[str]:
    found = []
    if (behind_us := checks.get("most_behind_us", 0)) >= FAR_BEHIND_US:
        found.append(
            f"brokers could not keep up: one was {seconds(behind_us)} s behind, so that delays are "
            "mostly its queue's; replay more slowly (shoal workload --duration-s) or make messages "
            "cheaper (service)"
        )
    if under_way := checks.get("under_way"):
        after = seconds(scenario.get("run", {}).get("drain_us"))
        found.append(
            f"{count(under_way)} copies of publications were still under way {after} s after the "
            "last event (run.drain_us): what is missing may be among them"
        )
    return found

"""Plug-in systems: modules named in the environment, each checked before anything runs on it.

Their authors get a sentence about the missing part, not a traceback out of a broker.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Collection, Mapping

import msgspec

from shoal.broker.messages import Message
from shoal.broker.strategy import OverlaySystem
from shoal.broker.wire import COMMON, Codec, Form
from shoal.overlays.errors import SystemModuleError
from shoal.overlays.shapes import Shape
from shoal.overlays.system import System
from shoal.overlays.trace_rows import SHARED_TABLES, columns_of


def guests(variable: str, value: str, taken: Collection[str]) -> Mapping[str, System]:
    """The systems of the modules in `value`, by name; SystemModuleError for an invalid one."""
    found: dict[str, System] = {}
    for module in dict.fromkeys(filter(None, map(str.strip, value.split(",")))):
        try:
            system = _load(module)
            if system.name in taken or system.name in found:
                raise SystemModuleError(
                    f"there is a system {system.name!r} already; give SYSTEM another name"
                )
            _check(system)
        except SystemModuleError as error:
            raise SystemModuleError(f"{variable}: module {module}: {error}") from error.__cause__
        found[system.name] = system
    return found


def _load(module: str) -> System:
    nobody = SystemModuleError(
        "there is none; say it as an import has it (not as a path), and have its folder in "
        "PYTHONPATH"
    )
    if not all(map(str.isidentifier, module.split("."))):
        raise nobody
    try:
        system = getattr(importlib.import_module(module), "SYSTEM", None)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name in _parts(module):
            raise nobody from None
        raise SystemModuleError(f"{type(error).__name__}: {error}{_place(error)}") from error
    if not isinstance(system, System):
        raise SystemModuleError("it has no SYSTEM = System(name=…, strategy=…)")
    return system


def _parts(module: str) -> list[str]:
    """`a.b.c`: a, a.b, a.b.c."""
    names = module.split(".")
    return [".".join(names[: count + 1]) for count in range(len(names))]


def _place(error: Exception) -> str:
    """The line of its author's code that failed."""
    if isinstance(error, SyntaxError):
        return ""  # the error's text names it
    *_, last = traceback.extract_tb(error.__traceback__)
    return "" if "importlib" in last.filename else f" ({last.filename}, line {last.lineno})"


def _check(system: System) -> None:
    if not (isinstance(system.name, str) and system.name.isidentifier()):
        raise SystemModuleError(
            f"the name {system.name!r} cannot be a key of a file; use letters, digits and _"
        )
    if not isinstance(system.shape, Shape):
        raise SystemModuleError(
            f"shape is {system.shape!r}; give one of shoal.overlays.shapes, such as TREE"
        )
    _check_parameters(system)
    _check_strategy(system)
    _check_messages(system)
    _check_records(system)


def _check_parameters(system: System) -> None:
    kind = system.parameters
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        raise SystemModuleError(
            f"parameters is {kind!r}; give the class itself, which derives from msgspec.Struct"
        )
    for field in msgspec.structs.fields(kind):
        if field.required:
            raise SystemModuleError(f"{kind.__name__}.{field.name} has no default; give it one")
    try:
        made = system.complete(kind(), ("B1", "B2"))
    except ValueError:
        return  # two may be too few
    except Exception as error:
        raise SystemModuleError(
            f"complete: {type(error).__name__}: {error}{_place(error)}"
        ) from error
    if not isinstance(made, kind):
        raise SystemModuleError(
            f"complete gives {type(made).__name__}; it is to give {kind.__name__}"
        )


def _check_strategy(system: System) -> None:
    kind = system.strategy
    if not isinstance(kind, type):  # a function: its result's type is unknown here
        if not callable(kind):
            raise SystemModuleError(f"strategy is {kind!r}; give a class, or a factory of one")
        return
    said = {name for each in kind.__mro__ for name in getattr(each, "__annotations__", ())}
    wanted = [name for name in vars(OverlaySystem) if not name.startswith("_")]
    missing = [name for name in wanted if not hasattr(kind, name) and name not in said]
    if missing:
        raise SystemModuleError(
            f"class {kind.__name__} lacks {', '.join(missing)}; derive it from BaseStrategy and "
            "write the rest in the class (docs/tutorials/write-an-overlay.md)"
        )


def _check_messages(system: System) -> None:
    for entry in system.messages:
        if isinstance(entry, Form):
            continue
        if not (isinstance(entry, type) and issubclass(entry, Message)):
            raise SystemModuleError(
                f"messages has {getattr(entry, '__name__', entry)}; list classes that derive from "
                "shoal.broker.messages.Message"
            )
    try:
        Codec(COMMON + tuple(system.messages))
    except (TypeError, ValueError) as error:
        raise SystemModuleError(f"messages cannot travel: {error}") from error


def _check_records(system: System) -> None:
    for name, row in system.records.items():
        if name in SHARED_TABLES:
            raise SystemModuleError(f"records: every trace has a table {name!r}; name it otherwise")
        try:
            columns_of(row)
        except (KeyError, ValueError, TypeError, NameError):
            raise SystemModuleError(
                f"records: a field of {getattr(row, '__name__', row)} is no column; fields are "
                "str, int or float, or one of these and None"
            ) from None
    for name in system.shown:
        if name not in system.records:
            raise SystemModuleError(f"shown: {name!r} is none of records")

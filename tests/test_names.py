"""A system's name occurs only in its own packages: code elsewhere asks the system's description."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shoal.overlays.registry import MODULES
from tools.modules import SOURCES

# Several systems are built on a tree, and it is a common noun.
NAMES = frozenset(MODULES) - {"tree"}
# The folder of each system, and those of its relatives.
FAMILIES = frozenset(module.split(".")[2] for module in MODULES.values()) - {"tree"}
# Registries: systems and studies by name, a line for each.
REGISTRIES = ("overlays/registry.py", "experiments/registry.py", "cli/systems/registry.py")
# A system may build on another; a study compares some; a package of the command line belongs to
# one.
ROOMS = ("overlays/", "experiments/", "cli/systems/")
# The demo, and the default of a scenario: both name one system.
CHOSEN = ("cli/commands/demo.py", "cli/support/demo_live.py", "experiments/scenarios/scenario.py")


def is_at_home(file: str) -> bool:
    """Whether this file is in a folder of the system, or of a study of several."""
    rooms = (each for each in ROOMS if file.startswith(each))
    return any(file.removeprefix(each).split("/")[0] in {*FAMILIES, "relocation"} for each in rooms)


def named(source: str) -> Iterator[str]:
    """Systems named, or whose modules are imported; docstrings do not count."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)):
                yield from _family(module)
            case ast.Import(names):
                for each in names:
                    yield from _family(each.name)
            case ast.Constant(value=str(text)) if text in NAMES:
                yield text


def _family(module: str) -> Iterator[str]:
    package, _, rest = module.partition("shoal.overlays.")
    if not package and (family := rest.partition(".")[0]) in FAMILIES:
        yield family


def test_the_rule_finds_named_systems() -> None:
    source = '''
"""Of octopia."""
from shoal.overlays.dynatops.parameters import PER_GATEWAY
import shoal.overlays.tid.system
def chosen(system: str) -> bool:
    """Whether it is grape."""
    from shoal.overlays.tree.routing import Routing
    return system == "tco"
'''
    assert sorted(named(source)) == ["dynatops", "tco", "tid"]


def test_systems_are_named_only_in_their_own_packages() -> None:
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        file = str(path.relative_to(SOURCES))
        if file not in (*REGISTRIES, *CHOSEN) and not is_at_home(file):
            names = sorted(set(named(path.read_text(encoding="utf-8"))))
            if names:
                found[file] = names
    assert found == {}

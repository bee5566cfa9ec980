"""No system's name stands outside its own rooms: what others must know of it, it says itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shoal.overlays.registry import MODULES
from tools.modules import SOURCES

# A tree is what several systems are built on, and a word of its own.
NAMES = frozenset(MODULES) - {"tree"}
# The folder of each; its siblings' too.
FAMILIES = frozenset(module.split(".")[2] for module in MODULES.values()) - {"tree"}
# Here systems and studies stand by their names, a line for each.
REGISTRIES = ("overlays/registry.py", "experiments/registry.py", "cli/systems/registry.py")
# A system may build on another; a study compares some; a room of the command line is of one.
ROOMS = ("overlays/", "experiments/", "cli/systems/")
# A tour, and what a scenario runs that does not say it: they chose one system.
CHOSEN = ("cli/commands/demo.py", "cli/support/demo_live.py", "experiments/scenario.py")


def is_at_home(file: str) -> bool:
    """Whether this file is in a folder of a system, or of the study that is of two."""
    rooms = (each for each in ROOMS if file.startswith(each))
    return any(file.removeprefix(each).split("/")[0] in {*FAMILIES, "relocation"} for each in rooms)


def named(source: str) -> Iterator[str]:
    """Systems that are named, or whose modules are imported; not what docstrings say."""
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


def test_the_rule_sees_what_it_is_about() -> None:
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


def test_systems_are_named_in_their_own_rooms_only() -> None:
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        file = str(path.relative_to(SOURCES))
        if file not in (*REGISTRIES, *CHOSEN) and not is_at_home(file):
            names = sorted(set(named(path.read_text(encoding="utf-8"))))
            if names:
                found[file] = names
    assert found == {}

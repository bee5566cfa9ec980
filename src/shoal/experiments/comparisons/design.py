"""The design of a study: factors, their settings, and a scenario for each setting and seed.

A factor is a key of the scenario with several values; the settings are all combinations. A factor
of one system's parameters has no effect on another system, and a topology none on a system with
links of its own: there the setting leaves it out, and the combinations that only differ in it are
one. Changes that all settings share are left out likewise.

>>> factors = [Factor("system", ("tree", "grape")), Factor("grape.weight", ("0", "100"))]
>>> def is_known(key: str, chosen: Setting) -> bool:
...     return "." not in key or key.startswith(chosen["system"])
>>> found = settings(factors, is_known)
>>> [label(setting) for setting in found]
['system=tree', 'system=grape grape.weight=0', 'system=grape grape.weight=100']
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from shoal.experiments.scenarios.scenario import Scenario, has_effect, load_scenario
from shoal.experiments.studies.runs import digest
from shoal.overlays.registry import SYSTEMS
from shoal.typed_toml import OVERRIDE, TomlError

SYSTEM = "system"
VARY = "--vary"
# Keys that a study gives each run itself.
_OWN = ("seed", "name")
# Characters of a run's name, so that a file can have it.
_LONGEST = 60

Setting = Mapping[str, str]
"""The value of each factor that has an effect, by its key, as it was typed."""


class DesignError(ValueError):
    """Factors that make no study; says which and why."""


class Factor(NamedTuple):
    """A key of the scenario, and its values as they were typed; the first is the reference."""

    key: str
    values: tuple[str, ...]


class Design(NamedTuple):
    """Everything that the runs follow from.

    scenario_file   the scenario that all settings change
    overrides       changes that all settings share, `KEY.PATH=VALUE`
    factors         the first one's first value is the reference
    seeds           the scenario's seed and those that follow it: so many
    """

    scenario_file: Path
    overrides: tuple[str, ...]
    factors: tuple[Factor, ...]
    seeds: int

    def settings(self) -> list[Setting]:
        """All settings in the order of the factors; DesignError if there is one only, or for a key
        that has an effect in none.
        """
        chosen = [each for each in self.overrides if _key(each) == SYSTEM]
        system = load_scenario(self.scenario_file, chosen).system
        found = settings(
            self.factors, lambda key, setting: _is_known(key, setting.get(SYSTEM, system))
        )
        systems = {setting.get(SYSTEM, system) for setting in found}
        for key in (*map(_key, self.overrides), *(factor.key for factor in self.factors)):
            if not any(_is_known(key, each) for each in systems):
                raise DesignError(f"{key}: {', '.join(sorted(systems))}: none depends on it")
        if len(found) < 2:
            raise DesignError("a study compares two settings or more: vary a key by --vary")
        return found

    def scenarios(self, setting: Setting) -> list[Scenario]:
        """A scenario for each seed; ValueError names a key or value that cannot be."""
        changes = [f"{key}={value}" for key, value in setting.items()]
        chosen = [each for each in (*self.overrides, *changes) if _key(each) == SYSTEM]
        try:
            system = load_scenario(self.scenario_file, chosen).system
            shared = [each for each in self.overrides if _is_known(_key(each), system)]
            first = load_scenario(self.scenario_file, (*shared, *changes))
        except TomlError as error:
            raise TomlError(_named_as_typed(str(error), setting)) from None
        numbers = range(first.seed, first.seed + self.seeds)
        return [
            load_scenario(
                self.scenario_file,
                (*shared, *changes, f"seed={seed}", f'name="{run_name(setting, seed)}"'),
            )
            for seed in numbers
        ]


def _named_as_typed(fault: str, setting: Setting) -> str:
    """A fault of a change, which names the option that the key was typed behind.

    >>> _named_as_typed("--set: topolgy: unknown key", {"topolgy.kind": "star"})
    '--vary: topolgy: unknown key'
    >>> _named_as_typed("--set: servce: unknown key", {"topology.kind": "star"})
    '--set: servce: unknown key'
    >>> _named_as_typed("--set: faults.crashes[0].at_us: is missing", {"faults.crashes": "[{}]"})
    '--vary: faults.crashes[0].at_us: is missing'
    """
    option, _, rest = fault.partition(": ")
    path = rest.partition(": ")[0]
    is_varied = any(
        f"{key}.".startswith(f"{path}.") or path.startswith((f"{key}.", f"{key}["))
        for key in setting
    )
    return f"{VARY}: {rest}" if option == OVERRIDE and is_varied else fault


def parse_factor(text: str) -> Factor:
    """A factor as `KEY.PATH=VALUE,VALUE,...`; a comma within brackets or quotes separates nothing.

    >>> parse_factor("topology.fan_out=2,4"), parse_factor('a=[1,2],[3]').values
    (Factor(key='topology.fan_out', values=('2', '4')), ('[1,2]', '[3]'))
    """
    key, equals, values = text.partition("=")
    found = tuple(value.strip() for value in _separated(values))
    if not equals or not key.strip() or not all(found):
        raise DesignError(f"--vary {text}: write KEY.PATH=VALUE,VALUE,... (system=tree,grape)")
    if len(set(found)) < len(found):
        raise DesignError(f"--vary {text}: a value stands there twice")
    if key.strip() in _OWN:
        raise DesignError(f"--vary {text}: a study gives each run its seed and name, see --seeds")
    return Factor(key.strip(), found)


def _separated(text: str) -> list[str]:
    """The parts of a list, apart at commas outside of brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[{":
            depth += 1
        elif sign in "]}":
            depth -= 1
        elif sign == "," and not depth:
            parts.append("")
            continue
        parts[-1] += sign
    return parts


def settings(factors: Sequence[Factor], is_known: Callable[[str, Setting], bool]) -> list[Setting]:
    """All combinations; a factor that a setting's system does not know is left out of it.

    DesignError if one key is varied twice.
    """
    keys = [factor.key for factor in factors]
    for key in keys:
        if keys.count(key) > 1:
            raise DesignError(f"--vary {key} stands there twice; list all values in one")
    found: dict[tuple[tuple[str, str], ...], Setting] = {}
    for values in product(*(factor.values for factor in factors)):
        chosen = dict(zip(keys, values, strict=True))
        kept = {key: value for key, value in chosen.items() if is_known(key, chosen)}
        found.setdefault(tuple(kept.items()), kept)
    return list(found.values())


def _is_known(key: str, system: str) -> bool:
    """Whether a system depends on a key; true for a system that there is not, which has an error of
    its own.
    """
    return system not in SYSTEMS or has_effect(key, system)


def _key(setting: str) -> str:
    """The key of `KEY.PATH=VALUE`."""
    return setting.partition("=")[0].strip()


def label(setting: Setting) -> str:
    return " ".join(f"{key}={value}" for key, value in setting.items())


def run_name(setting: Setting, seed: int) -> str:
    """A name that a file can have; another for each setting of a study.

    >>> run_name({"system": "grape", "topology.fan_out": "2"}, 7)
    'grape-fan_out2-seed7'
    >>> run_name({"workload.path": "a/b"}, 7), run_name({"workload.path": "a_b"}, 7)
    ('patha_b-6cc4c03c-seed7', 'patha_b-seed7')
    """
    parts = [
        value if key == SYSTEM else f"{key.rpartition('.')[2]}{value}"
        for key, value in setting.items()
    ]
    name = "-".join(parts)
    if len(name) > _LONGEST or not all(re.fullmatch(r"[\w.]+", part) for part in parts):
        short = re.sub(r"[^\w.-]+", "_", name)[:_LONGEST]
        name = f"{short}-{digest([label(setting)])[:8]}"
    return f"{name}-seed{seed}"

"""The first lines of modules, and ARCHITECTURE.md's table of packages."""

from __future__ import annotations

import re

from tools.modules import SOURCES, first_line, modules

PACKAGES = sorted(each.parent for each in SOURCES.rglob("__init__.py"))


def test_each_module_and_package_has_a_one_line_summary() -> None:
    silent = [path for folder in PACKAGES for path in folder.glob("*.py") if not first_line(path)]
    assert silent == []


def test_a_package_is_printed_with_its_sub_packages() -> None:
    found = dict(modules(SOURCES / "overlays" / "octopia", and_within=True))
    assert found["protocol.py"].startswith("The strategy of one OctopiA broker")
    assert found["ways/"] == first_line(SOURCES / "overlays" / "octopia" / "ways")
    assert found["  copies.py"].startswith("The copies of a publication")


def test_the_map_names_existing_packages_and_modules() -> None:
    """ARCHITECTURE.md's table of packages has each package, its sub-packages, and where to start
    reading.
    """
    root = SOURCES.parents[1]
    rows = [
        line.split(" | ")
        for line in (root / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `") and line.count(" | ") == 2
    ]
    packages = {row[0].strip("| `"): row for row in rows}
    assert {f"{each.name}/" for each in SOURCES.iterdir() if each.is_dir()} - {"__pycache__/"} <= (
        set(packages)
    )
    for package, (_, said, start) in packages.items():
        folder = SOURCES / package if (SOURCES / package).exists() else root / package
        assert folder.exists(), package
        for name in re.findall(r"`([\w/.]+)`", said.split(". Its")[0] + start):
            if name.endswith(("/", ".py", ".lark")) and folder.is_dir():
                assert (folder / name).exists() or (root / name).exists(), f"{package} {name}"

"""Who looks for a place in the code finds it by what each module says of itself."""

from __future__ import annotations

from tools.modules import SOURCES, first_line, modules

PACKAGES = sorted(each.parent for each in SOURCES.rglob("__init__.py"))


def test_each_module_and_package_says_what_it_is_in_one_line() -> None:
    silent = [path for folder in PACKAGES for path in folder.glob("*.py") if not first_line(path)]
    assert silent == []


def test_a_package_is_printed_with_its_rooms() -> None:
    found = dict(modules(SOURCES / "overlays" / "octopia", and_within=True))
    assert found["protocol.py"].startswith("OctopiA at one broker")
    assert found["ways/"] == first_line(SOURCES / "overlays" / "octopia" / "ways")
    assert found["  copies.py"].startswith("Which copies of a publication go where")

"""Filters of hostile clients, of which each pair takes long to compare."""

from __future__ import annotations

from random import Random

# All of them with the hostile one take some 2 s.
MANY = 800


def hostile_patterns(count: int = MANY) -> list[str]:
    """Patterns of which each takes some 2 ms with the hostile one."""
    random = Random(1)

    def pieces() -> str:
        ends = (random.choice("ab") + "_" * random.randrange(3) for _ in range(15))
        return "%".join(end + random.choice("ab") for end in ends)

    return [f"s LIKE '%{pieces()}%'" for _ in range(count)]


def hostile_one() -> str:
    random = Random(2)
    return "s LIKE '" + "".join(random.choice("ab_%") for _ in range(80)) + "'"

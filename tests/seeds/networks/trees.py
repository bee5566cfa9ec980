"""Paths in the trees of the random tests."""

from __future__ import annotations


def path(edges: list[tuple[str, str]], source: str, target: str) -> tuple[str, ...]:
    def search(here: str, behind: tuple[str, ...]) -> tuple[str, ...] | None:
        if here == target:
            return (*behind, here)
        for edge in edges:
            if here in edge:
                routing_decision = edge[1] if edge[0] == here else edge[0]
                if routing_decision not in behind and (
                    found := search(routing_decision, (*behind, here))
                ):
                    return found
        return None

    found = search(source, ())
    assert found is not None
    return found

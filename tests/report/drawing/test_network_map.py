"""Titles of brokers' discs on the map."""

from __future__ import annotations

from collections import Counter

from shoal.report.drawing.geography import MapPlacement
from shoal.report.drawing.network_map import Drawing, network_map


def test_one_publisher_is_singular() -> None:
    drawing = Drawing(
        title="tree",
        colour="red",
        placement=MapPlacement(
            kind="circle", points={"B1": (1.0, 1.0), "B2": (2.0, 2.0)}, outlines=(), note=""
        ),
        names={},
        links=[("B1", "B2")],
        loads={},
        largest_load=0.0,
        publishers={"B1": ["Brest"], "B2": ["Lyon", "Ulm"]},
        transfers=Counter(),
    )
    text = str(network_map(drawing))
    assert "\n1 publisher: Brest" in text
    assert "\n2 publishers: Lyon, Ulm" in text

"""Charts: ticks, gaps, dots and labels."""

from shoal.report.drawing.charts import (
    BAR_HEIGHT,
    CHARACTER,
    MAX_BARS,
    TOP,
    Series,
    bar_chart,
    line_chart,
    ticks,
)


def test_ticks_are_round_and_inside() -> None:
    assert ticks(0.0, 1.06, 4) == [0.0, 0.5, 1.0]
    assert ticks(0.0, 299.0, 12) == [25.0 * step for step in range(12)]


def test_a_gap_in_a_line_is_not_bridged() -> None:
    points = [(0.0, 1.0), (1.0, 2.0), (2.0, None), (3.0, 1.0), (4.0, 1.0)]
    drawing = line_chart(
        [Series(name="a", colour="#000", points=points)], unit="ms", time_unit="s", name="Delay"
    )
    path = drawing.split('class="series"')[0].rsplit('d="', 1)[1]
    assert path.count("M") == 2


def test_a_single_reading_between_gaps_is_a_dot() -> None:
    """Drawn as wide as the line it would be two pixels, which no reader sees."""
    points = [(0.0, 1.0), (1.0, None), (2.0, 2.0), (3.0, 1.0), (4.0, None), (5.0, 1.0)]
    drawing = line_chart(
        [Series(name="a", colour="#000", points=points)], unit="ms", time_unit="s", name="Delay"
    )
    line, dots = (
        drawing.split(f'class="{name}"')[0].rsplit('d="', 1)[1].split('"')[0]
        for name in ("series", "series lone")
    )
    assert (line.count("M"), line.count("L"), line.count("h0")) == (1, 1, 0)
    assert (dots.count("M"), dots.count("h0")) == (2, 2)


def test_a_run_without_any_delivery_draws_an_empty_chart() -> None:
    drawing = line_chart(
        [Series(name="a", colour="#000", points=[(0.0, None)])], unit="", time_unit="s", name="x"
    )
    assert 'class="series"' not in drawing


def test_the_busiest_brokers_are_shown_first_up_to_the_limit() -> None:
    before = {f"b{n}": float(n) for n in range(MAX_BARS + 20)}
    drawing = bar_chart([before, {}], names=("x", "y"), colours=("#000", "#fff"), unit="messages/s")
    assert drawing.count("<g>") == MAX_BARS
    assert drawing.index(f"b{MAX_BARS + 19}:") < drawing.index(f"b{MAX_BARS + 18}:")
    assert "<title>b19:" not in drawing


def below_bars(brokers: list[str]) -> tuple[str, float]:
    """The drawing, and the room below the bars."""
    loads = [dict.fromkeys(brokers, 1.0)]
    drawing = bar_chart(loads, names=("x",), colours=("#000",), unit="messages/s")
    height = float(drawing.split('viewBox="0 0 ')[1].split('"')[0].split()[1])
    return drawing, height - TOP - BAR_HEIGHT


def test_names_below_bars_are_whole_and_inside_the_drawing() -> None:
    """Long names such as `strasbourg` are neither cut nor outside."""
    few, _ = below_bars(["strasbourg", "lyon"])
    assert ">strasbourg<" in few
    assert "rotate" not in few
    many, room = below_bars([f"strasbourg{number:02}" for number in range(30)])
    assert ">strasbourg29<" in many
    assert "rotate" in many
    assert room > len("strasbourg29") * CHARACTER
    long, _ = below_bars(["a broker with a very long name"])
    assert ">a broker with a\N{HORIZONTAL ELLIPSIS}<" in long

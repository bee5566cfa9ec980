"""The report: one HTML page that needs no network, no server and no library.

`render` is a pure function of the runs; the page's style and script are files beside this one
and are written into the page.

Example: `render([run])` is a string that starts with `<!doctype html>`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from statistics import median
from typing import Any

import msgspec

from shoal.overlays.registry import SYSTEMS
from shoal.report.chance import differences, verdicts
from shoal.report.comparison import comparison_table, faults, groups_of, headline, swatch, verdict
from shoal.report.costs import costs_table
from shoal.report.drawing import figures
from shoal.report.drawing.charts import MAX_BARS, bar_chart, readings
from shoal.report.drawing.geography import MapPlacement, place
from shoal.report.drawing.markup import Markup, join, tag
from shoal.report.drawing.network_map import Drawing, network_map
from shoal.report.events import events
from shoal.report.exchanges import (
    exchanged,
    exchanges,
    gone_links,
    links_at_end,
    links_in_words,
    new_links,
)
from shoal.report.inputs import ReportRun, Row
from shoal.report.made_up import made_up, one_seed
from shoal.report.over_time import charts_of, over_time, time_unit_of
from shoal.report.replays import Replay, replays_section
from shoal.report.settings import differing, flat
from shoal.report.transfers import movers

# Okabe and Ito's palette, told apart by colour-blind readers too; the reference run is grey.
REFERENCE_COLOUR = "#6b7280"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")


def render(
    runs: Sequence[ReportRun], title: str | None = None, replays: Sequence[Replay] = ()
) -> str:
    """The whole page; the first run, or replay, is the one that the others are compared with."""
    colours = [REFERENCE_COLOUR, *(COLOURS[index % len(COLOURS)] for index in range(len(runs)))]
    if len(runs) == 1:
        colours = [COLOURS[0]]
    colours = colours[: len(runs)]
    title = title or _default_title(runs[0])
    time_unit, unit_us = time_unit_of(runs)
    charts = charts_of(runs, colours, time_unit, unit_us)
    body = join(
        tag("header", tag("h1", title), _facts(runs[0]), headline(runs)),
        tag("main",
            _cards(runs, colours),
            _section("Comparison", _of_which_seed(runs), comparison_table(runs, colours),
                     id_="comparison"),
            _chance(runs),
            _networks(runs, colours),
            _costs(runs),
            _section("Load and delay over time",
                     *over_time(runs, colours, charts, time_unit), id_="over-time"),
            _live(replays),
            _section("Invented data", _made_up(runs), id_="made-up"),
            _section("Runs", _differences(runs), _scenarios(runs), id_="scenarios"),
            _section("How to read this", _definitions(runs), id_="definitions")),
        tag("footer", "Written by shoal report. Everything is in this one file."),
    )  # fmt: skip
    data = {name: readings(series, unit, time_unit) for name, series, unit in charts}
    return "<!doctype html>\n" + tag(
        "html",
        tag("head",
            tag("meta", charset="utf-8"),
            tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
            tag("title", title),
            tag("style", _asset("page.css"))),
        tag("body", body,
            tag("script", _script_data(data), type_="application/json", id_="readings"),
            tag("script", _asset("page.js")),
            tag("script", _asset("stack.js"), type_="module")),
        lang="en",
    )  # fmt: skip


def _asset(name: str) -> Markup:
    return Markup((resources.files("shoal.report") / name).read_text(encoding="utf-8"))


def _script_data(data: Mapping[str, Any]) -> Markup:
    # Inside a script only the closing tag could end the data; `<` has another spelling in JSON.
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _section(title: str, *children: Markup | None, id_: str) -> Markup:
    return tag("section", tag("h2", title), *children, id_=id_)


def _costs(runs: Sequence[ReportRun]) -> Markup | None:
    table = costs_table(runs)
    if table is None:
        return None
    note = ("Every message that a broker sent, from the first to the last: before the first "
            "publication (set-up), until the last one, and after it. Control messages have the "
            "name of their type, and the bytes of their frames.")  # fmt: skip
    return _section("Messages by phase and kind", tag("p", note, class_="note"), table, id_="costs")


def _default_title(run: ReportRun) -> str:
    return f"shoal: {figures.count(run.metrics['brokers'])} brokers, one workload"


def _facts(run: ReportRun) -> Markup:
    parts = [
        f"{figures.count(run.metrics[name])} {name}"
        for name in ("publications", "brokers", "publishers", "subscriptions")
    ]
    if "seed" in run.checks:
        more = f", the first of {len(run.seeds)}" if run.seeds else ""
        parts.append(f"seed {run.checks['seed']}{more}")
    return tag("p", " · ".join(parts), class_="facts")


def _cards(runs: Sequence[ReportRun], colours: Sequence[str]) -> Markup:
    reference = runs[0]
    cards = []
    for run, colour in zip(runs, colours, strict=True):
        rate, delay = (
            _big(run, reference, column, label)
            for column, label in (
                ("message_rate_per_s", "broker message rate"),
                ("delay_mean_us", "mean delivery delay"),
            )
        )
        name = tag("h3", swatch(colour), run.name)
        proof = "nothing lost, nothing twice" if not faults(run) else "deliveries are wrong"
        mark = tag("p", proof, class_="fault" if faults(run) else "proof")
        cards.append(tag("article", name, rate, delay, mark))
    return tag("div", cards, class_="cards")


def _big(run: ReportRun, reference: ReportRun, column: str, label: str) -> Markup:
    """A figure and its change; of several seeds their median, and the median of the changes."""
    value, before = run.metrics[column], reference.metrics[column]
    if run.seeds:
        values = [row[column] for row in run.seeds if row[column] is not None]
        value = median(values) if values else None
        changes = {each.column: each.median for each in differences(run, reference)}
        before = None if value is None or column not in changes else value / (1 + changes[column])
        label = f"{label}, median of {figures.count(len(run.seeds))} seeds"
    is_delay = column.endswith("_us")
    text = figures.milliseconds(value) if is_delay else figures.quantity(value)
    unit = "ms" if is_delay else "messages/s"
    change = None
    if run is not reference and before is not None:
        change = tag(
            "span", figures.change(value, before), class_=f"change {verdict(value, before)}"
        )
    return tag("div", tag("strong", text), " ", tag("small", unit), change, tag("span", label))


def _of_which_seed(runs: Sequence[ReportRun]) -> Markup | None:
    if not any(run.seeds for run in runs):
        return tag("p", one_seed(runs), class_="note") if len(runs) > 1 else None
    text = "Figures of the first seed alone, as all tables and charts below."
    return tag("p", text, class_="note")


def _networks(runs: Sequence[ReportRun], colours: Sequence[str]) -> Markup:
    """One panel per run but the reference, chosen by tabs: maps, loads, movers."""
    placement = _placement(runs)
    largest = max((load for run in runs for load in run.loads.values()), default=0.0)
    chosen = list(range(1, len(runs))) or [0]
    tabs = [
        tag("button", swatch(colours[index]), runs[index].name, type_="button", role="tab",
            aria_selected="true" if index == chosen[0] else "false", data_panel=f"run-{index}")
        for index in chosen
    ]  # fmt: skip
    panels = [
        tag(
            "div",
            _panel(runs[0], runs[index], (colours[0], colours[index]), placement, largest),
            id_=f"run-{index}",
            class_="panel",
            hidden=index != chosen[0],
        )
        for index in chosen
    ]
    return _section(
        "The network before and after",
        tag("div", tabs, class_="tabs", role="tablist") if len(tabs) > 1 else None,
        *panels,
        id_="network",
    )


def _panel(
    reference: ReportRun,
    run: ReportRun,
    colours: tuple[str, str],
    placement: MapPlacement,
    largest: float,
) -> Markup:
    sides = []
    if run is not reference:
        sides.append((reference, colours[0], _map_title(reference)))
    sides.append((run, colours[1], _map_title(run)))
    maps = [
        tag(
            "figure",
            tag("figcaption", caption),
            network_map(_drawing(side, colour, placement, largest, caption)),
        )
        for side, colour, caption in sides
    ]
    return join(
        tag("div", maps, class_=f"maps maps-{len(maps)}"),
        tag(
            "p",
            f"{_marks_note(run)}, its area the message rate. Ring and number: publishers "
            "connected there. Arc: from a publisher's first broker to its last. ",
            "Dashed: a link that went; coloured: one that came. " if new_links(run) else "",
            _cluster_note(run),
            placement.note,
            class_="note",
        ),
        tag("h3", "Load per broker, the busiest first"),
        tag("div", bar_chart(
            [side.loads for side, _, _ in sides], names=[side.name for side, _, _ in sides],
            colours=[colour for _, colour, _ in sides], unit="messages/s",
        ), class_="wide"),
        _bars_note([side for side, _, _ in sides]),
        tag("h3", "Moves of publishers"),
        movers(run),
        exchanges(run),
        events(run),
    )  # fmt: skip


def _front_ends(run: ReportRun) -> list[str]:
    """The brokers that clients connect to, where those are not all."""
    system = SYSTEMS.get(run.metrics["system"])
    if system is None:
        return []
    parameters = msgspec.convert(run.scenario.get(system.name, {}), system.parameters)
    brokers = [row["broker"] for row in run.brokers]
    front_ends = [each for each in brokers if system.takes_clients(parameters, each)]
    return front_ends if len(front_ends) < len(brokers) else []


def _marks_note(run: ReportRun) -> str:
    if _front_ends(run):
        return "Square: a broker that clients connect to; disc: one that they do not"
    return "Disc: a broker"


def _cluster_note(run: ReportRun) -> str:
    system = SYSTEMS.get(run.metrics["system"])
    if system is None or not system.shape.opens_links:
        return ""
    every = "" if _front_ends(run) else "Every broker takes clients. "
    return f"In {run.name} every broker may talk to every other. {every}"


def _map_title(run: ReportRun) -> str:
    went = "where publishers went" if run.migrations else "no publisher moves"
    number = len(exchanged(run))
    links = f", {links_in_words(number)} exchanged" if number else ""
    return f"{run.name}: {went}{links}"


def _bars_note(runs: Sequence[ReportRun]) -> Markup | None:
    texts = []
    if len(runs) > 1:
        texts.append(f"Wide bar: {runs[0].name}. Narrow bar: {runs[1].name}.")
    number = len({broker for run in runs for broker in run.loads})
    if number > MAX_BARS:
        texts.append(f"The busiest {MAX_BARS} of {figures.count(number)} brokers are shown.")
    return tag("p", " ".join(texts), class_="note") if texts else None


def _placement(runs: Sequence[ReportRun]) -> MapPlacement:
    coordinates: dict[str, tuple[float, float] | None] = {}
    links: set[tuple[str, str]] = set()
    for run in runs:
        links.update(run.links)
        for row in run.brokers:
            both = row["latitude"], row["longitude"]
            coordinates[row["broker"]] = None if None in both else both
    inside = {broker for run in runs for broker in _front_ends(run)}
    return place(coordinates, sorted(links), inside)


def _drawing(
    run: ReportRun, colour: str, placement: MapPlacement, largest: float, title: str
) -> Drawing:
    homes: dict[str, list[str]] = {}
    for row in run.moves:
        homes.setdefault(row["last_broker"], []).append(row["publisher"])
    return Drawing(
        title=title, colour=colour, placement=placement,
        names={row["broker"]: _broker_name(row) for row in run.brokers},
        links=links_at_end(run), new_links=new_links(run), gone_links=gone_links(run),
        loads=run.loads, largest_load=largest, publishers=homes,
        transfers=Counter(
            (row["first_broker"], row["last_broker"])
            for row in run.moves if row["first_broker"] != row["last_broker"]
        ),
        squares=_front_ends(run),
    )  # fmt: skip


def _broker_name(row: Row) -> str:
    name = row["name"]
    return f"{row['broker']}, {name}" if name and name != row["broker"] else str(row["broker"])


def _chance(runs: Sequence[ReportRun]) -> Markup | None:
    """Return the result of several seeds, run by run; None with one seed."""
    said = [verdicts(run, runs[0]) for run in runs[1:]]
    parts = [
        join(tag("h3", first), tag("ul", [tag("li", each) for each in rest]))
        for first, *rest in filter(None, said)
    ]
    if not parts:
        return None
    note = (
        "A seed decides what the scenario leaves to chance: random links, latencies that are "
        "drawn, what brokers draw. Runs are compared seed by seed; the interval of the median "
        "comes from the order of the differences alone. All tables and charts beside these are of "
        "the first seed."
    )
    return _section("By more than chance?", *parts, tag("p", note, class_="note"), id_="chance")


def _live(replays: Sequence[Replay]) -> Markup | None:
    if not replays:
        return None
    return _section("Live", replays_section(replays), id_="live")


def _differences(runs: Sequence[ReportRun]) -> Markup | None:
    """Return the scenario keys whose values differ between runs."""
    found = differing(runs)
    if not found:
        return None
    head = tag("tr", tag("th", "setting"), [tag("th", run.name, scope="col") for run in runs])
    rows = [
        tag(
            "tr",
            tag("th", key, scope="row"),
            [
                tag("td", figures.MISSING if value is None or _is_foreign(key, run) else value)
                for value, run in zip(values, runs, strict=True)
            ],
        )
        for key, values in found.items()
    ]
    return join(
        tag(
            "p",
            "The runs have other values for these settings, and the same for all others:",
            class_="note",
        ),
        tag(
            "div",
            tag("table", tag("thead", head), tag("tbody", rows), class_="settings"),
            class_="wide",
        ),
    )


def _is_foreign(key: str, run: ReportRun) -> bool:
    """Return whether a setting is another system's, which this run does not read."""
    table = key.partition(".")[0]
    return table in SYSTEMS and table != run.metrics["system"]


def _scenarios(runs: Sequence[ReportRun]) -> Markup:
    return join(
        [
            tag(
                "details",
                tag("summary", f"All settings of {run.name}"),
                tag("pre", "\n".join(f"{key} = {value}" for key, value in flat(run.scenario))),
            )
            for run in runs
        ]
    )


def _made_up(runs: Sequence[ReportRun]) -> Markup:
    """Return the parts of runs that are not from data, once if all runs share them."""
    said: dict[str, list[str]] = {}
    for run in runs:
        for sentence in made_up(run):
            said.setdefault(sentence, []).append(run.name)
    return join(
        [
            tag("p", text if len(names) == len(runs) else f"{text} ({', '.join(names)})")
            for text, names in said.items()
        ]
    )


def _definitions(runs: Sequence[ReportRun]) -> Markup:
    entries = [
        join(
            tag("dt", metric.label, f" ({metric.unit})" if metric.unit else ""),
            tag("dd", metric.meaning + "."),
        )
        for _, metrics in groups_of(runs)
        for metric in metrics
    ]
    return join(
        tag(
            "p",
            "The first run is the reference: every other run gets the same publications at the "
            "same times and the same subscriptions. Changes are in percent of the reference; "
            "blue with ▼ is less, which is better, orange with ▲ is more, which is worse; "
            "changes below 0.5 % are not coloured. Times are the simulator's virtual time, but "
            "for what was measured at live brokers.",
        ),
        tag("dl", entries),
    )

// The network as a drawing: made once for a layout; after that only attributes change.
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "d3-force";
import { geoAlbersUsa, geoEqualEarth, geoPath } from "d3-geo";
import { select as pick } from "d3-selection";
import { zoom, zoomIdentity } from "d3-zoom";
import { noChange } from "lit-html";
import { AsyncDirective } from "lit-html/async-directive.js";
import { directive } from "lit-html/directive.js";
import { feature, mesh } from "topojson-client";
import { select } from "./network.js";
import { brokerNumber, brokerRow, figure, state } from "./state.js";

const WIDTH = 975, HEIGHT = 610;
const LABELS = { wide: 26, narrow: 8 };
const MOVE_MS = 6000, MOST_MOVES = 12;
// From so many brokers on, a graph shows groups at first glance only by what is busy.
const FEW_TICKS = 400;
// us-atlas has drawn its outlines in this projection.
const usa = geoAlbersUsa().scale(1300).translate([487.5, 305]);

let points = [], layout = 0, moves = [], outline = null, wanted = "";

export const hasPlaces = () => state.network.brokers.some((each) => each.at);
const isMap = () => hasPlaces() && state.view !== "graph";

/** Where brokers are drawn: at their places, moved apart, or as their links pull them. */
export function layOut() {
  const { brokers, links } = state.network;
  points = isMap() ? onMap(brokers) : asGraph(brokers, links);
  layout += 1;
}

function onMap(brokers) {
  const placed = brokers.filter((each) => each.at);
  const isAmerican = placed.every((each) => usa(each.at));
  let project = usa;
  if (isAmerican) fetchOutline("usa", (found) => found);
  else {
    project = geoEqualEarth().fitExtent([[60, 50], [WIDTH - 60, HEIGHT - 50]], { type: "MultiPoint", coordinates: spread(placed) });
    const draw = geoPath(project).digits(1);
    fetchOutline("world", (world) => ({ land: draw(feature(world, world.objects.land)), borders: draw(mesh(world, world.objects.countries, (one, other) => one !== other)) }));
  }
  const nodes = brokers.map((each, number) => {
    const [x, y] = (each.at && project(each.at)) ?? [30 + (number % 20) * 24, HEIGHT - 24];
    return { x, y, home: [x, y] };
  });
  forceSimulation(nodes).stop().force("x", forceX((each) => each.home[0])).force("y", forceY((each) => each.home[1])).force("apart", forceCollide(9)).tick(60);
  return nodes;
}

/** The corners around brokers that are near each other, so that the map shows some land. */
function spread(placed) {
  const longitudes = placed.map((each) => each.at[0]), latitudes = placed.map((each) => each.at[1]);
  const margin = Math.max(2, 0.08 * (Math.max(...longitudes) - Math.min(...longitudes)));
  return [[Math.max(-180, Math.min(...longitudes) - margin), Math.max(-85, Math.min(...latitudes) - margin)],
          [Math.min(180, Math.max(...longitudes) + margin), Math.min(85, Math.max(...latitudes) + margin)]];
}

function fetchOutline(name, draw) {
  const key = `${name} ${JSON.stringify(state.network.brokers.map((each) => each.at))}`;
  if (wanted === key) return;
  wanted = key;
  outline = null;
  fetch(`/static/${name}.json`).then((answer) => answer.json()).then((found) => { outline = draw(found); layout += 1; state.draw(); }, () => { wanted = ""; });
}

function asGraph(brokers, links) {
  const nodes = brokers.map(() => ({}));
  const ties = links.map(([source, target]) => ({ source, target }));
  forceSimulation(nodes).stop().force("links", forceLink(ties).distance(34)).force("apart", forceManyBody().strength(-140)).force("collide", forceCollide(11))
    .force("x", forceX(0).strength(0.05)).force("y", forceY(0).strength(0.09)).tick(brokers.length > FEW_TICKS ? 120 : 300);
  const [xs, ys] = [nodes.map((each) => each.x), nodes.map((each) => each.y)];
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  // A few brokers keep their distance instead of filling the drawing.
  const across = Math.max(right - left, 220), down = Math.max(bottom - top, 150);
  for (const each of nodes) {
    each.x = WIDTH / 2 + ((each.x - (left + right) / 2) / across) * (WIDTH - 110);
    each.y = HEIGHT / 2 + ((each.y - (top + bottom) / 2) / down) * (HEIGHT - 70);
  }
  return nodes;
}

/** Draws an arc for a happening that goes from one broker to another, for some seconds. */
export function showMove(event) {
  const [source, end] = [brokerNumber(event.source), brokerNumber(event.target)];
  if (source < 0 || end < 0 || source === end) return;
  const move = { ...event, source, end, layout };
  moves = [...moves, move].slice(-MOST_MOVES);
  setTimeout(() => { moves = moves.filter((each) => each !== move); state.draw(); }, MOVE_MS);
}

class Drawing extends AsyncDirective {
  render() { return noChange; }

  update(part) {
    if (this.box !== part.element) this.begin(part.element);
    if (this.layout !== layout) this.make();
    this.refresh();
    return noChange;
  }

  begin(box) {
    this.box = box;
    this.scale = 1;
    this.watch = new ResizeObserver(() => this.refresh());
    this.watch.observe(box);
  }

  disconnected() { this.watch?.disconnect(); this.box = null; this.layout = -1; }

  make() {
    this.layout = layout;
    const { brokers, links } = state.network;
    this.box.replaceChildren();
    const svg = pick(this.box).append("svg").attr("viewBox", `0 0 ${WIDTH} ${HEIGHT}`).attr("class", "map").attr("role", "img")
      .attr("aria-label", `${brokers.length} brokers and ${links.length} links`);
    const all = svg.append("g");
    if (isMap() && outline) {
      all.append("path").attr("class", "land").attr("d", outline.land);
      all.append("path").attr("class", "borders").attr("d", outline.borders);
    }
    this.links = all.append("g").attr("class", "links").selectAll("line").data(links).join("line")
      .attr("x1", ([left]) => points[left].x).attr("y1", ([left]) => points[left].y)
      .attr("x2", ([, right]) => points[right].x).attr("y2", ([, right]) => points[right].y);
    this.links.append("title");
    this.moves = all.append("g");
    this.brokers = all.append("g").selectAll("circle").data(brokers).join("circle").attr("tabindex", 0).attr("role", "button")
      .attr("aria-label", (each) => each.name).attr("data-broker", (each) => each.name)
      .attr("cx", (_, number) => points[number].x).attr("cy", (_, number) => points[number].y)
      .on("click", (_, each) => select(each.name)).on("keydown", (event, each) => { if (event.key === "Enter") select(each.name); });
    this.brokers.append("title");
    this.labels = all.append("g").attr("class", "labels");
    this.scale = 1;
    this.zoom = zoom().scaleExtent([1, 8]).translateExtent([[0, 0], [WIDTH, HEIGHT]])
      .filter((event) => event.type !== "wheel" || event.ctrlKey || this.scale > 1)
      .on("zoom", ({ transform }) => { all.attr("transform", transform); this.scale = transform.k; this.refresh(); });
    svg.call(this.zoom).on("dblclick.zoom", () => svg.call(this.zoom.transform, zoomIdentity));
  }

  refresh() {
    const { figures, network } = state;
    if (!this.box || !figures || !this.links || this.links.size() !== figures.links.length) return;
    const width = this.box.clientWidth || WIDTH;
    const unit = Math.min(2.2, WIDTH / width) / this.scale; // of a pixel, so that text stays readable
    const rows = network.brokers.map((_, number) => brokerRow(number));
    const isDown = ([left, right], number) => figures.links[number][3] || rows[left].away || rows[right].away;
    const most = Math.max(...figures.links.map((link) => link[0]), 1);
    const isMany = network.links.length > 3 * network.brokers.length; // only the busy ones stand out
    this.links.attr("stroke-width", (_, number) => (1 + 5 * Math.sqrt(figures.links[number][0] / most)) * Math.sqrt(unit))
      .attr("class", (link, number) => (isDown(link, number) ? "down" : null))
      .attr("stroke-opacity", (_, number) => (isMany ? 0.04 + 0.6 * (figures.links[number][0] / most) ** 1.5 : 0.55 + 0.4 * Math.sqrt(figures.links[number][0] / most)));
    this.links.select("title").text(([left, right], number) => `${network.brokers[left].name} – ${network.brokers[right].name}: ${figure(figures.links[number][0])} messages/s, ${figure(figures.links[number][1])} ms`);
    this.radius = rows.map((row) => (3.4 + Math.sqrt(row.in_per_s ?? 0) * (5 / Math.sqrt(Math.max(100, figures.at?.[1] ?? 0) / rows.length)) * 0.5) * Math.sqrt(unit)).map((radius) => Math.min(radius, 14 * Math.sqrt(unit)));
    this.brokers.attr("r", (_, number) => this.radius[number])
      .attr("class", (each, number) => `broker${rows[number].away ? " away" : rows[number].processor > 0.7 ? " busy" : ""}${each.name === state.selected ? " selected" : ""}`);
    this.brokers.select("title").text((each, number) => `${each.name}: ${rows[number].away ? "does not answer" : `${figure(rows[number].in_per_s)} messages/s, ${Math.round(rows[number].processor * 100)} % busy, ${figure(rows[number].clients)} clients`}`);
    this.drawMoves(unit);
    this.label(unit, width < 560 ? LABELS.narrow : LABELS.wide, rows);
  }

  drawMoves(unit) {
    const shown = moves.filter((each) => points[each.source] && points[each.end]);
    this.moves.selectAll("g").data(shown, (each) => `${each.at_us}${each.text}`).join((enter) => {
      const group = enter.append("g").attr("class", (each) => `moving ${each.kind}`);
      group.append("path").attr("pathLength", 1).attr("d", (each) => arc(points[each.source], points[each.end]));
      group.append("circle").attr("r", 5 * Math.sqrt(unit)).attr("cx", (each) => points[each.end].x).attr("cy", (each) => points[each.end].y);
      return group;
    }).select("path").attr("stroke-width", 2.4 * Math.sqrt(unit));
  }

  /** Names of the brokers that matter most, where they cover no other name. */
  label(unit, most, rows) {
    const { network } = state;
    const isMoving = (number) => moves.some((each) => each.source === number || each.end === number);
    const rank = (number) => (network.brokers[number].name === state.selected ? 1e12 : 0) + (rows[number].away ? 1e11 : 0) + (isMoving(number) ? 1e10 : 0) + (rows[number].clients ?? 0) + (rows[number].in_per_s ?? 0);
    const taken = points.map((each, number) => (rows[number].in_per_s > 60 ? [each.x - 3 * unit, each.y - 3 * unit, each.x + 3 * unit, each.y + 3 * unit] : [0, 0, 0, 0]));
    const texts = [];
    const high = 12.5 * unit, step = 7.9 * unit;
    for (const number of points.map((_, place) => place).sort((one, other) => rank(other) - rank(one))) {
      if (texts.length >= most * Math.max(1, this.scale)) break;
      const { x, y } = points[number], long = network.brokers[number].name.length * step, gap = this.radius[number] + 3 * unit;
      for (const [left, middle] of [[x + gap, y], [x - gap - long, y], [x - long / 2, y - gap - high / 2], [x - long / 2, y + gap + high / 2]]) {
        const box = [left, middle - high / 2, left + long, middle + high / 2];
        if (left < 0 || left + long > WIDTH || box[1] < 0 || box[3] > HEIGHT) continue;
        if (!rows[number].away && taken.some((other, place) => place !== number && box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
        taken.push(box);
        texts.push({ number, left, middle });
        break;
      }
    }
    this.labels.selectAll("text").data(texts, (each) => each.number).join("text").attr("font-size", high)
      .attr("x", (each) => each.left).attr("y", (each) => each.middle + high * 0.36)
      .attr("class", (each) => (rows[each.number].away ? "away" : network.brokers[each.number].name === state.selected ? "selected" : null))
      .text((each) => network.brokers[each.number].name);
  }
}

function arc(from, to) {
  const [across, down] = [to.x - from.x, to.y - from.y];
  const bend = across > 0 ? 0.22 : -0.22;
  return `M${from.x} ${from.y}Q${(from.x + to.x) / 2 + down * bend} ${(from.y + to.y) / 2 - across * bend} ${to.x} ${to.y}`;
}

export const drawMap = directive(Drawing);

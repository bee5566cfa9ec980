// What all pages share: the network as the stream tells it, and how figures are written.

/** network: the last snapshot; figures: of this second; events: happenings, the newest first. */
export const state = {
  network: null,
  figures: null,
  history: null,
  events: [],
  live: false,
  selected: "",
  view: "",
  draw: () => {},
  open: () => {},
};

const MOST_EVENTS = 200;
const HISTORY_S = 600;

/** A broker's figures by name; `away` stands for a broker that does not answer. */
export function brokerRow(number) {
  const row = state.figures?.brokers[number];
  if (!row) return { away: true };
  return Object.fromEntries(state.network.columns.map((name, place) => [name, row[place]]));
}

export const brokerNumber = (name) => state.network.brokers.findIndex((each) => each.name === name);

export function takeNetwork(network) {
  state.network = network;
  state.history = network.history;
  state.events = network.events;
  if (state.selected && brokerNumber(state.selected) < 0) state.selected = "";
}

export function takeFigures(figures) {
  // A snapshot of another layout comes first; figures of the former one are not read.
  if (figures.brokers.length !== state.network?.brokers.length || figures.links.length !== state.network.links.length) return;
  state.figures = figures;
  const { history } = state;
  if (!figures.at || history.at_s.at(-1) === figures.at[0]) return;
  ["at_s", "rate", "p99_ms", "clients"].forEach((name, place) => {
    history[name].push(figures.at[place]);
    if (history[name].length > HISTORY_S) history[name].shift();
  });
}

export function takeHappened(event) {
  state.events = [event, ...state.events].slice(0, MOST_EVENTS);
}

/** Without the many reasons to stay: of each client the latest, and a few of all. */
export function withFewStays(events, most) {
  const seen = new Set();
  let stays = 0;
  return events.filter((each) => {
    if (each.kind !== "stay") return true;
    const key = each.client || each.broker;
    if (seen.has(key) || stays >= most) return false;
    seen.add(key);
    stays += 1;
    return true;
  });
}

/** Asks the console; `into` gets the answer. */
export async function ask(question, query, into) {
  try {
    const answer = await fetch(`/ask/${question}?${new URLSearchParams(query)}`);
    into(await answer.json());
  } catch {
    into({ problem: "the console does not answer" });
  }
  state.draw();
}

/** Gives an order to a broker; returns why it was not carried out, or nothing. */
export async function order(name, query) {
  try {
    const answer = await fetch(`/order/${name}?${new URLSearchParams(query)}`, { method: "POST", headers: { "X-Shoal": name } });
    return (await answer.json()).problem;
  } catch {
    return "the console does not answer";
  }
}

// --- figures in words ------------------------------------------------------------------------

export function figure(value) {
  if (value == null) return "–";
  if (Math.abs(value) >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString("en-US");
  return Number(value.toPrecision(Math.abs(value) >= 10 ? 3 : 2)).toString();
}

export function bytes(value) {
  if (value == null) return "–";
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let place = 0;
  while (value >= 1000 && place < units.length - 1) { value /= 1000; place += 1; }
  return `${place ? Number(value.toPrecision(3)) : value} ${units[place]}`;
}

export function duration(seconds) {
  if (seconds == null || seconds < 0) return "0 s";
  for (const [unit, size] of [["d", 86_400], ["h", 3_600], ["min", 60]]) if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.floor(seconds)} s`;
}

export const clock = (second) => new Date(second * 1000).toTimeString().slice(0, 8);
export const clockOfMicroseconds = (microseconds) => clock(microseconds / 1e6);
export const now = () => Date.now() / 1000;

/** A link of the console: opens without a load; with a modifier key as any link. */
export function follow(event, path) {
  if (event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  state.open(path);
}

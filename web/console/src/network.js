// The Network page: what is wrong first, four figures, the map, what happens and why.
import { html, nothing } from "lit-html";
import { chart } from "./chart.js";
import { drawMap, hasPlaces, layOut } from "./map.js";
import { brokerOrders } from "./orders.js";
import { ask, brokerNumber, brokerRow, bytes, clockOfMicroseconds, duration, figure, follow, now, state, withFewStays } from "./state.js";

/** The symbol of each kind of happening. */
const SYMBOLS = {
  move: "→", decision: "→", stay: "·", failed: "✕", takeover: "⇄", redirect: "⇢", links: "⟲", overlay: "⟲", scaling: "±", join: "+", leave: "−",
  order: "›", refused: "✕", slow: "!", client: "·", dropped: "✕",
};

export function networkPage() {
  const view = state.view || (hasPlaces() ? "map" : "graph");
  const choose = (name) => { state.view = name; layOut(); state.draw(); };
  return html`
    ${wrongList()}
    ${cards()}
    <div class="split">
      <section class="drawing">
        <div class="head"><h2>${view === "map" ? "Map" : "Graph"}</h2>
          ${hasPlaces() ? html`<div class="tabs" role="group" aria-label="Drawing">${["map", "graph"].map((name) => html`
            <button aria-pressed=${view === name} @click=${() => choose(name)}>${name}</button>`)}</div>` : nothing}</div>
        <div class="canvas" ${drawMap()}></div>
        ${legend()}
      </section>
      <section class="side">${state.selected ? brokerPanel() : feed("What happens, and why", withFewStays(state.events, 8).slice(0, 40))}</section>
    </div>
    <div class="halves">
      <section><h2>Messages <small>handled a second by all brokers</small></h2>${chart("rate", () => [state.history.at_s, state.history.rate], { unit: "/s" })}</section>
      <section><h2>Delivery delay <small>99 of 100 are faster, ms</small></h2>${chart("delay", () => [state.history.at_s, state.history.p99_ms], { unit: " ms" })}</section>
    </div>`;
}

export function wrongList() {
  const wrong = state.figures.wrong;
  if (!wrong.length) {
    const count = state.network.brokers.length;
    return html`<p class="fine">Nothing is wrong: ${count === 1 ? "the broker answers" : `all ${count} brokers answer`}, no link is down, no client loses messages.</p>`;
  }
  return html`<ul class="wrong">${wrong.slice(0, 12).map((each) => html`
    <li class=${each.level}><i class="mark">${each.level === "bad" ? "✕" : "!"}</i>
      <div><b>${each.text.includes(each.broker) ? each.text : `${each.broker}: ${each.text}`}</b> <small>for ${duration(now() - each.since_s)}</small>
        <span>${[each.effect, each.advice].filter(Boolean).join(". ")}</span></div>
      ${each.client
        ? html`<a href="/clients?client=${encodeURIComponent(each.client)}" @click=${(event) => follow(event, `/clients?client=${encodeURIComponent(each.client)}`)}>open the client →</a>`
        : html`<a href="/" @click=${(event) => { event.preventDefault(); select(each.broker); }}>look at ${each.broker} →</a>`}</li>`)}
    ${wrong.length > 12 ? html`<li class="poor"><i class="mark">…</i><div>${wrong.length - 12} more</div></li>` : nothing}</ul>`;
}

function cards() {
  const { figures, history, network } = state;
  const rows = network.brokers.map((_, number) => brokerRow(number));
  const there = rows.filter((row) => !row.away);
  const sum = (name) => there.reduce((total, row) => total + (row[name] ?? 0), 0);
  const waiting = figures.links.reduce((total, link) => total + link[2], 0);
  const away = rows.length - there.length;
  const delay = figures.at?.[2];
  return html`<div class="cards">
    ${card(figure(figures.at?.[1]), "messages/s", "all brokers together", change(history.rate))}
    ${card(delay == null ? "–" : figure(delay), "ms", delay == null ? "delivery delay: no sample yet" : "delivery delay, p99", change(history.p99_ms, true))}
    ${card(figure(there.length), `of ${rows.length}`, rows.length === 1 ? "broker answers" : "brokers answer", away ? html`<i class="change worse">${away} away</i>` : nothing)}
    ${card(figure(sum("clients")), "clients", waiting ? `connected; ${bytes(waiting)} wait at links` : "connected; nothing waits at links", nothing)}
  </div>`;
}

const card = (value, unit, text, mark) => html`<article><div><strong>${value}</strong> <small>${unit}</small></div><span>${text} ${mark}</span></article>`;

/** The change within a minute. */
function change(column, isBadWhenMore = false) {
  const [latest, then] = [column.at(-1), column.at(-61)];
  if (latest == null || !then) return nothing;
  const percent = (100 * (latest - then)) / then;
  if (Math.abs(percent) < 2) return html`<i class="change">steady</i>`;
  const kind = !isBadWhenMore ? "" : percent > 0 ? "worse" : "better";
  return html`<i class="change ${kind}" title="against a minute ago">${percent > 0 ? "▲ +" : "▼ −"}${Math.abs(percent).toFixed(0)} %</i>`;
}

export function feed(title, events, isShort = false) {
  return html`<h2>${title}</h2>
    ${events.length ? html`<ol class="feed ${isShort ? "short" : ""}">${events.map(happening)}</ol>` : html`<p class="note">Nothing yet. Moves, joins, orders and takeovers appear here as they come.</p>`}`;
}

export const happening = (each) => html`<li class=${each.kind}><time>${clockOfMicroseconds(each.at_us)}</time><i>${SYMBOLS[each.kind] ?? "·"}</i>
  <div><b>${each.text}</b>${each.source && each.target ? html` <span class="path">${each.source} → ${each.target}</span>` : nothing}
    ${each.why ? html`<small>${each.why}</small>` : nothing}${each.left_out ? html`<small>${figure(each.left_out)} more were left out</small>` : nothing}</div></li>`;

export function select(name) {
  state.selected = name;
  if (location.pathname !== "/") state.open("/");
  state.draw();
}

function brokerPanel() {
  const { network, figures, selected } = state;
  const number = brokerNumber(selected);
  if (number < 0) return nothing;
  const row = brokerRow(number);
  const links = network.links.map(([left, right], place) => ({ other: left === number ? right : left, isMine: left === number || right === number, link: figures.links[place] }))
    .filter((each) => each.isMine && each.link).sort((one, other) => other.link[0] - one.link[0]);
  const mine = state.events.filter((each) => [each.broker, each.source, each.target].includes(selected)).slice(0, 5);
  const text = (value) => (row.away ? "–" : value);
  return html`
    <div class="head"><h2>${selected} <small class=${row.away ? "bad" : ""}>${row.away ? "does not answer" : row.draining ? "drained" : row.ready ? "ready" : "not ready"}</small></h2>
      <button class="quiet" @click=${() => select("")}>all events</button></div>
    <dl class="pairs">
      <dt>Messages</dt><dd>${text(`${figure(row.in_per_s)}/s, ${figure(row.deliveries_per_s)} deliveries/s`)}</dd>
      <dt>Processor</dt><dd>${row.away ? "–" : html`${Math.round(row.processor * 100)} % ${meter(row.processor)}`}</dd>
      <dt>Memory</dt><dd>${text(bytes(row.memory_bytes))}</dd>
      <dt>Clients</dt><dd>${text(`${figure(row.clients)}, ${figure(row.subscriptions)} subscriptions`)}</dd>
      <dt>Up for</dt><dd>${text(duration(row.uptime_s))}, version ${network.brokers[number].version || "–"}</dd>
    </dl>
    ${brokerOrders(selected, row)}
    ${row.away ? nothing : leavePlan()}
    ${links.length ? html`<h3>Links</h3>
    <div class="wide"><table class="small"><thead><tr><th>to</th><th class="n">messages/s</th><th class="n">delay</th><th class="n">waits</th></tr></thead>
      <tbody>${links.slice(0, 12).map(({ other, link }) => html`<tr>
        <td><a href="/" @click=${(event) => { event.preventDefault(); select(network.brokers[other].name); }}>${network.brokers[other].name}</a></td>
        <td class="n">${link[3] ? html`<b class="bad">down</b>` : figure(link[0])}</td><td class="n">${figure(link[1])} ms</td><td class="n">${link[2] ? bytes(link[2]) : "0"}</td></tr>`)}</tbody></table></div>` : nothing}
    ${mine.length ? feed("What happened here", mine, true) : nothing}`;
}

let plan = null;

/** What a leave of the selected broker would do; nothing changes. */
function leavePlan() {
  const { selected } = state;
  const askPlan = () => { plan = { broker: selected }; ask("leave-plan", { broker: selected }, (found) => { plan = { broker: selected, ...found }; }); };
  if (plan?.broker !== selected) return html`<p class="note"><button class="quiet" @click=${askPlan}>What if it leaves?</button></p>`;
  if (plan.problem) return html`<p class="bad">${plan.problem}</p>`;
  if (!plan.neighbours) return html`<p class="note">asking …</p>`;
  return html`<h3>If it leaves</h3><ul class="plan">
    ${plan.problems.map((each) => html`<li class="bad">it is refused: ${each}</li>`)}
    <li>${figure(plan.clients)} clients are sent to ${plan.takers.join(", ") || "no other broker: there is none"}${plan.follow < plan.clients ? `; ${figure(plan.clients - plan.follow)} of them must connect again by themselves` : ""}</li>
    <li>${figure(plan.sessions)} sessions are handed over</li>
    <li>${plan.successor ? `${plan.successor} takes its place among ` : "its neighbours are "}${plan.neighbours.map((each) => `${each.broker}${each.connected ? "" : " (not connected)"}`).join(", ") || "no neighbours"}</li>
    ${Object.entries(plan.readers).map(([name, behind]) => html`<li class="poor">reader ${name} of its log is ${figure(behind)} records behind</li>`)}</ul>`;
}

export const meter = (share) => html`<svg class="meter" width="64" height="8" aria-hidden="true"><rect width="64" height="8" rx="4"/><rect class=${share > 0.7 ? "high" : "value"} width=${64 * Math.min(1, share ?? 0)} height="8" rx="4"/></svg>`;

const legend = () => html`<p class="legend">
  <span><svg width="34" height="12"><line class="thin" x2="34" y1="6" y2="6"/></svg>few</span>
  <span><svg width="34" height="12"><line class="thick" x2="34" y1="6" y2="6"/></svg>many messages</span>
  <span><svg width="14" height="14"><circle class="broker" cx="7" cy="7" r="5"/></svg>broker</span>
  <span><svg width="14" height="14"><circle class="broker busy" cx="7" cy="7" r="5"/></svg>above 70 % busy</span>
  <span><svg width="34" height="14"><line class="down" x2="20" y1="7" y2="7"/><circle class="broker away" cx="26" cy="7" r="5"/></svg>does not answer</span>
  <span><svg width="34" height="12"><path class="move" d="M2 10 Q17 -4 32 8"/></svg>moves</span></p>`;

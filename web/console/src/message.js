// Messages: the story of a traced one, messages that were dropped, and a filter tried.
import { html, nothing, svg } from "lit-html";
import { ask, bytes, clock, clockOfMicroseconds, figure, follow, order, state } from "./state.js";

const AGAIN_MS = 4000;
const SHOWN = { all: "all", missing: "what is missing", no: "filters that say no" };
const LATE = ["dropped", "missing", "waiting", "sent"];
const ENDS = { delivered: "delivered", sent: "not acknowledged", dropped: "dropped", waiting: "waits", no: "not for it", missing: "missing", settled: "settled" };
const TICKS = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 60_000];

let list = null, drops = null, told = null, wanted = null, askedAt = 0, shown = "all", tried = null, isTrying = false, traceNote = "";

export function messagePage() {
  const key = new URLSearchParams(location.search).get("key") ?? "";
  refresh(key);
  return html`
    <form class="find" @submit=${find}>
      <input name="key" aria-label="A message" value=${key} placeholder="a key, or the label of a message's $trace"><button>Tell its story</button>
      <span class="note">${list?.sample ? html`one of ${figure(list.sample.each)} messages on <span class="mono">${list.sample.topic}</span> is traced until ${clockOfMicroseconds(list.sample.until_us)}` : "publishers trace a message by the user property $trace"}</span></form>
    ${key ? storyOrNone(key) : nothing}
    ${traced(key)}
    ${dropped()}
    ${tryFilter()}`;
}

function refresh(key) {
  const time = Date.now();
  if (key !== wanted) { wanted = key; told = null; askedAt = 0; }
  if (time - askedAt < AGAIN_MS) return;
  askedAt = time;
  ask("traces", {}, (found) => { list = found; });
  ask("drops", {}, (found) => { drops = found; });
  if (key) ask("traces", { key }, (found) => { if (key === wanted) told = found; });
}

function find(event) {
  event.preventDefault();
  const key = new FormData(event.target).get("key").trim();
  state.open(key ? pathOf(key) : "/message");
}

const pathOf = (key) => `/message?key=${encodeURIComponent(key)}`;
const storyLink = (key, text) => html`<a class="mono" href=${pathOf(key)} @click=${(event) => follow(event, pathOf(key))}>${text}</a>`;
const clientLink = (client) => { const path = `/clients?client=${encodeURIComponent(client)}`; return html`<a href=${path} @click=${(event) => follow(event, path)}>open the client</a>`; };

// --- a story ---------------------------------------------------------------------------------

function storyOrNone(key) {
  if (!told) return html`<section><p class="note">asking the brokers …</p></section>`;
  if (told.problem) return html`<section><p class="bad">${told.problem}</p></section>`;
  if (!told.stories.length) return html`<section><h1 class="mono">${key}</h1><p class="note">No broker has a traced message of this key or label. Brokers keep the last 500 traced messages.</p></section>`;
  return told.stories.slice(0, 5).map(story);
}

function story(each) {
  return html`
    <section class="head-of-story">
      <h1 class="mono">${each.label || each.key}</h1>
      <p class="facts">${each.publisher} · <span class="mono">${each.topic}</span> · ${clockOfMicroseconds(each.published_us)} · ${bytes(each.bytes)}, payload hidden${each.label ? html` · key <span class="mono">${each.key}</span>` : nothing}</p>
      <p class="attributes">${Object.entries(each.attributes).slice(0, 20).map(([name, value]) => html`<code>${name} ${typeof value === "string" ? `'${value}'` : value}</code>`)}</p>
      <p class="headline">${each.headline}.</p>
      ${each.missing.length ? html`<ul class="wrong inner">${each.missing.slice(0, 20).map((row) => html`<li class=${row.state === "dropped" || row.state === "missing" ? "bad" : "poor"}><i class="mark">${row.state === "dropped" ? "✕" : "…"}</i>
        <div><b>${row.name}</b> <small>${ENDS[row.state]}${row.kind === "client" ? ` at ${row.broker}` : ""}</small><span>${row.why}</span></div>
        ${row.kind === "client" ? clientLink(row.name) : nothing}</li>`)}</ul>` : nothing}
    </section>
    <section>
      <div class="head"><h2>From its publisher to every subscriber <small>ms since it was published, logarithmic</small></h2>
        <div class="tabs" role="group" aria-label="Shown">${Object.entries(SHOWN).map(([name, text]) => html`<button aria-pressed=${shown === name} @click=${() => { shown = name; state.draw(); }}>${text}</button>`)}</div></div>
      ${drawn(each)}
      <p class="legend">
        <span><svg width="34" height="12"><line class="hop" x2="34" y1="6" y2="6"/></svg>on a link</span>
        <span><svg width="24" height="12"><rect class="work" width="24" height="12" rx="2"/></svg>at a broker</span>
        <span><svg width="8" height="12"><line class="ack" x1="4" x2="4" y2="12"/></svg>acknowledged</span>
        <span><svg width="14" height="14"><circle class="delivered" cx="7" cy="7" r="5"/></svg>delivered</span>
        <span><svg width="14" height="14"><path class="dropped" d="M2 2L12 12M12 2L2 12"/></svg>dropped</span>
        <span><svg width="14" height="14"><circle class="waiting" cx="7" cy="7" r="5"/></svg>waits</span></p>
    </section>`;
}

function drawn(each) {
  const longest = Math.max(10, ...each.rows.map((row) => Math.max(row.to_ms, row.ended_ms ?? 0)));
  /** Where a time is on the axis; logarithmic, as hops take from 0.1 ms to seconds. */
  const at = (ms) => `${(1 + (96 * Math.log1p(Math.max(0, ms))) / Math.log1p(longest)).toFixed(2)}%`;
  const ticks = TICKS.filter((ms) => ms <= longest);
  const isShown = (row) => row.kind !== "client" || shown === "all" || (shown === "no" ? row.state === "no" : LATE.includes(row.state));
  let left = 0;
  const rows = each.rows.map((row) => { const from = row.kind === "broker" ? left : row.from_ms; if (row.kind === "broker") left = row.to_ms; return { ...row, sent_ms: Math.min(from, row.from_ms) }; });
  return html`<div class="story">
    <div class="row axis"><span></span><svg height="18">${ticks.map((ms) => svg`<text x=${at(ms)} y="13" text-anchor="middle">${ms}</text>`)}</svg><span></span></div>
    ${rows.filter(isShown).slice(0, 300).map((row) => html`<div class="row ${row.kind} ${row.state} depth${Math.min(5, row.depth)}">
      <div class="name"><b>${row.name}</b><small>${row.kind === "broker" && !row.state ? nothing : ENDS[row.state] ?? nothing}</small></div>
      <svg height="22" aria-hidden="true">${ticks.map((ms) => svg`<line class="grid" x1=${at(ms)} x2=${at(ms)} y2="22"/>`)}${marks(row, at)}</svg>
      <div class="say">${row.kind === "client" ? html`<code>${row.text}</code> ${row.verdict ? html`<em>${lastLine(row.verdict)}</em>` : nothing}` : row.text}
        ${row.why ? html`<strong>${row.why}</strong>` : nothing}</div></div>`)}
    ${each.left_out ? html`<p class="note">${figure(each.left_out)} more subscribers were not kept.</p>` : nothing}</div>`;
}

function lastLine(verdict) {
  const lines = verdict.split("\n").map((line) => line.trim().replace(/^(TRUE|FALSE|UNKNOWN)\s+/, "")).filter(Boolean);
  return (lines.length > 1 ? lines.slice(1) : lines).map((line) => line.slice(line.indexOf(": ") + 2)).join(" · ");
}

function marks(row, at) {
  const done = row.ended_ms == null ? nothing : svg`<line class="ack" x1=${at(row.ended_ms)} x2=${at(row.ended_ms)} y1="4" y2="18"/>`;
  if (row.kind === "publisher") return svg`<circle class="delivered" cx=${at(0)} cy="11" r="4"/>${done}`;
  if (row.kind === "broker") {
    if (row.state === "missing") return svg`<line class="wait" x1=${at(row.from_ms)} x2="98%" y1="11" y2="11"/>`;
    return svg`${row.sent_ms < row.from_ms ? svg`<line class="hop" x1=${at(row.sent_ms)} x2=${at(row.from_ms)} y1="11" y2="11"/>` : nothing}
      <svg x=${at(row.from_ms)} width="98%" overflow="visible"><rect class="work" y="6" width=${width(row, at)} height="10" rx="2"/></svg>`;
  }
  if (row.state === "delivered") return svg`<circle class="delivered" cx=${at(row.from_ms)} cy="11" r="5"/>${done}`;
  if (row.state === "dropped") return svg`<svg x=${at(row.from_ms)} overflow="visible"><path class="dropped" d="M-5 6L5 16M5 6L-5 16"/></svg>`;
  if (row.state === "waiting" || row.state === "sent") return svg`<line class="wait" x1=${at(row.from_ms)} x2="97%" y1="11" y2="11"/><circle class="waiting" cx="97%" cy="11" r="5"/>`;
  return svg`<line class="nomark" x1=${at(row.from_ms)} x2=${at(row.from_ms)} y1="8" y2="14"/>`;
}

const width = (row, at) => `${Math.max(0.6, parseFloat(at(row.to_ms)) - parseFloat(at(row.from_ms)))}%`;

// --- lists -----------------------------------------------------------------------------------

function traced(key) {
  const rows = list?.traces ?? [];
  return html`<section><div class="head"><h2>Traced lately</h2>${state.network.orders ? traceForm() : nothing}</div>
    ${traceNote ? html`<p class="note">${traceNote}</p>` : nothing}
    ${rows.length ? html`<div class="wide scroll"><table class="small rows"><thead><tr><th>at</th><th>message</th><th>publisher</th><th>topic</th><th>subscribers</th></tr></thead><tbody>${rows.slice(0, key ? 8 : 30).map((each) => html`
      <tr class=${key && [each.key, each.label].includes(key) ? "open" : ""}><td class="n">${clock(each.published_us / 1e6)}</td><td>${storyLink(each.label || each.key, each.label || each.key)}</td><td>${each.publisher}</td><td class="mono">${each.topic}</td>
        <td>${Object.entries(each.states).map(([name, count]) => html`<span class=${LATE.includes(name) ? "poor" : ""}>${count} ${ENDS[name]}</span> `)}${Object.keys(each.states).length ? nothing : "nobody"}</td></tr>`)}</tbody></table></div>`
      : html`<p class="note">${list ? html`No message is traced. Trace a sample: <code>shoal trace NETWORK.toml -t '#' --rate 1/100</code>, or one message: publish it with the user property <code>$trace</code>.` : "asking the brokers …"}</p>`}</section>`;
}

function traceForm() {
  return html`<form class="find" @submit=${beginTrace}><input class="mono short" name="topic" aria-label="Topics to trace" value="#">
    <button name="seconds" value="60">Trace 1 of 100 for a minute</button></form>`;
}

async function beginTrace(event) {
  event.preventDefault();
  const topic = new FormData(event.target).get("topic");
  const problem = await order("trace", { topic, each: "100", seconds: "60" });
  traceNote = problem ? `Refused: ${problem}` : "";
  askedAt = 0;
  state.draw();
}

function dropped() {
  if (!drops?.length) return nothing;
  return html`<section><h2>Dropped lately <small>messages that a client will not get</small></h2><div class="wide scroll"><table class="small rows"><thead><tr><th>at</th><th>client</th><th>topic</th><th>reason</th></tr></thead>
    <tbody>${drops.slice(0, 30).map((each) => html`<tr><td class="n">${clockOfMicroseconds(each.at_us)}</td><td>${each.client} <small>at ${each.broker}</small></td><td class="mono">${each.topic}</td><td>${each.why}${each.left_out ? html` <small>(${figure(each.left_out)} more)</small>` : nothing}</td></tr>`)}</tbody></table></div></section>`;
}

// --- a filter --------------------------------------------------------------------------------

function tryFilter() {
  return html`<section>
    <h2>Try a filter <small>against the last 1,000 sampled messages of each broker; payloads stay there</small></h2>
    <form class="find" data-name="try" @submit=${submitFilter}>
      <input name="topic" class="mono short" aria-label="Topic filter" value="#">
      <input name="where" class="mono" aria-label="Content filter" placeholder="dep_delay > 30 and carrier = 'UA'"><button>Try</button></form>
    ${isTrying ? html`<p class="note">asking the brokers …</p>` : outcome()}
  </section>`;
}

function submitFilter(event) {
  event.preventDefault();
  const form = new FormData(event.target);
  isTrying = true;
  ask("try", { topic: form.get("topic"), where: form.get("where") }, (found) => { tried = found; isTrying = false; });
  state.draw();
}

function outcome() {
  if (!tried) return nothing;
  if (tried.problem) return html`<p class="bad">${tried.problem}</p>`;
  if (!tried.of) return html`<p class="note">No sampled message is on such a topic.</p>`;
  return html`<p><b>${figure(tried.matched)} of ${figure(tried.of)}</b> match.</p>
    ${tried.parts.length > 1 ? html`<ul>${tried.parts.map((each) => html`<li><code>${each.text}</code> is not true for ${figure(each.misses)}</li>`)}</ul>` : nothing}
    ${tried.example ? html`<p class="note">The last that does not match:</p><pre class="mono">${tried.example}</pre>` : nothing}`;
}

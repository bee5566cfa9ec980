// Clients: those that lose or wait first; one of them opened; and what is busy.
import { html, nothing } from "lit-html";
import { happening, select } from "./network.js";
import { clientOrders } from "./orders.js";
import { ask, bytes, duration, figure, follow, state } from "./state.js";

const AGAIN_MS = 5000;
let list = null, busiest = null, opened = null, wanted = null, start = "", askedAt = 0;

export function clientsPage() {
  const client = new URLSearchParams(location.search).get("client") ?? "";
  refresh(client);
  return html`
    <form class="find" @submit=${find}>
      <input name="start" aria-label="A client" placeholder="the beginning of a client's name" value=${start}><button>Find</button>
      <span class="note">${list?.total != null ? `${figure(list.total)} sessions; clients that lose or wait come first` : nothing}</span></form>
    <div class="split even">
      <section><h2>Clients</h2>${list?.clients ? table(list.clients, client) : html`<p class="note">${list?.problem ?? "asking the brokers …"}</p>`}</section>
      <section>${client ? one(client) : html`<h2>Busiest</h2>${top()}`}</section>
    </div>
    ${client ? details() : nothing}`;
}

/** Asks again every few seconds while the page is open. */
function refresh(client) {
  const time = Date.now();
  if (client !== wanted) { wanted = client; opened = null; askedAt = 0; }
  if (time - askedAt < AGAIN_MS) return;
  askedAt = time;
  ask("clients", { start }, (found) => { list = found; });
  if (client) ask("client", { client }, (found) => { if (client === wanted) opened = found; });
  else ask("busiest", {}, (found) => { busiest = found; });
}

function find(event) {
  event.preventDefault();
  start = new FormData(event.target).get("start").trim();
  askedAt = 0;
  state.draw();
}

const pathOf = (client) => `/clients?client=${encodeURIComponent(client)}`;
const clientLink = (client) => html`<a href=${pathOf(client)} @click=${(event) => follow(event, pathOf(client))}>${client}</a>`;

function table(rows, client) {
  if (!rows.length) return html`<p class="note">${start ? `No client's name begins with “${start}”.` : "No client is there yet."}</p>`;
  return html`<div class="wide"><table class="small rows"><thead><tr><th>client</th><th>broker</th><th>state</th><th class="n">in flight</th><th class="n">waiting</th><th class="n">dropped</th></tr></thead>
    <tbody>${rows.map((each) => html`<tr class=${each.client === client ? "open" : ""}><td>${clientLink(each.client)}</td>
      <td>${each.broker}</td><td>${standing(each)}</td><td class="n">${figure(each.in_flight)}</td>
      <td class="n">${each.waiting > 100 ? html`<b class="poor">${figure(each.waiting)}</b>` : figure(each.waiting)}</td>
      <td class="n">${each.dropped ? html`<b class="bad">${figure(each.dropped)}</b>` : 0}</td></tr>`)}</tbody></table></div>`;
}

function standing(each) {
  if (each.going) return html`<span class="poor">moves to ${each.going}</span>`;
  if (each.address) return "connected";
  return html`<span class="poor">away${each.away_s == null ? "" : ` ${duration(each.away_s)}`}</span>`;
}

function top() {
  if (!busiest?.topics) return html`<p class="note">${busiest?.problem ?? "asking the brokers …"}</p>`;
  const part = (title, rows, cell) => html`<h3>${title}</h3>${rows.length ? html`<div class="wide"><table class="small"><tbody>${rows.slice(0, 6).map(([name, perSecond]) => html`
    <tr><td>${cell(name)}</td><td class="n">${figure(perSecond)}/s</td></tr>`)}</tbody></table></div>` : html`<p class="note">none lately</p>`}`;
  return html`${part("Publishers", busiest.clients, clientLink)}${part("Topics", busiest.topics, (name) => html`<span class="mono">${name}</span>`)}
    ${part("Filters, by what they bring", busiest.filters, (name) => html`<span class="mono">${name}</span>`)}
    <p class="note">By samples of the last two to four minutes.</p>`;
}

function one(client) {
  if (!opened) return html`<h2>${client}</h2><p class="note">asking the brokers …</p>`;
  if (opened.problem) return html`<h2>${client}</h2><p class="note">${opened.problem}.</p>`;
  const { session, drops } = opened;
  return html`
    <div class="head"><h2>${client} <small>${session.user ? `user ${session.user} ` : ""}at <a href="/" @click=${(event) => { event.preventDefault(); select(session.broker); }}>${session.broker}</a></small></h2>
      <a href="/clients" @click=${(event) => follow(event, "/clients")}>all clients</a></div>
    ${session.dropped ? html`<ul class="wrong inner"><li class="bad"><i class="mark">✕</i><div><b>${figure(session.dropped)} messages dropped, ${figure(session.waiting)} wait</b>
      <span>${drops[0] ? `The last on ${drops[0].topic}: ${drops[0].why}.` : "None since the console has been looking."}</span></div></li></ul>` : nothing}
    <dl class="pairs"><dt>State</dt><dd>${standing(session)}${session.address ? ` from ${session.address}, by ${session.listener}` : ""}</dd>
      <dt>Kept</dt><dd>${session.expiry_s == null ? "for ever" : session.expiry_s ? `${duration(session.expiry_s)} after it disconnects` : "while it is connected"}</dd>
      <dt>In flight</dt><dd>${figure(session.in_flight)} sent and not acknowledged</dd>
      <dt>Waiting</dt><dd>${figure(session.waiting)} messages, ${bytes(session.waiting_bytes)}</dd>
      <dt>Published</dt><dd>${figure(session.published)} messages here</dd></dl>
    ${clientOrders(session.broker, client)}
    ${whyForm(client)}`;
}

let why = null;

/** Whether a message would reach the client, by its subscriptions. */
function whyForm(client) {
  const submit = (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    why = { client };
    ask("why", { client, topic: form.get("topic"), payload: form.get("payload") }, (found) => { why = { client, ...found }; });
  };
  return html`<h3>Would it get a message?</h3>
    <form class="find" data-name="why" @submit=${submit}><input name="topic" class="mono short" aria-label="Topic" placeholder="flights/UA" required>
      <input name="payload" class="mono" aria-label="Payload" placeholder='{"dep_delay": 20}'><button>Ask</button></form>
    ${why?.client === client ? verdicts() : nothing}`;
}

function verdicts() {
  if (why.problem) return html`<p class="bad">${why.problem}</p>`;
  if (!why.subscriptions) return html`<p class="note">asking …</p>`;
  const fits = why.subscriptions.filter((each) => each.topic_matches);
  if (!fits.length) return html`<p class="note">None of its subscriptions has such a topic.</p>`;
  return fits.map((each) => html`<p>${each.content_matches ? html`<b>yes</b>` : html`<b class="poor">no</b>`}, by <code>${each.topic_filter}</code>${paced(each)}</p>${each.why ? html`<pre class="mono">${each.why}</pre>` : nothing}`);
}

// What a subscription asks for beside its filter: $every and $changed.
function pace(each) {
  return ["every", "changed"].filter((name) => each[name]).map((name) => html` <small>$${name}</small> <code>${each[name]}</code>`);
}

function paced({ conflation }) {
  if (!conflation) return nothing;
  const effect = conflation.held_s ? `held for ${conflation.held_s} s, unless a newer one comes` : conflation.has_changed ? "at once" : "suppressed, as nothing has changed";
  return html`,${pace(conflation)}: ${effect}`;
}

function details() {
  if (!opened?.session) return nothing;
  const { subscriptions, events, drops } = opened;
  return html`<section><h2>Subscriptions <small>${subscriptions.length}</small></h2>
      ${subscriptions.length ? html`<div class="wide"><table class="rows"><thead><tr><th>topic</th><th>where</th><th class="n">QoS</th><th class="n">matches/s</th></tr></thead>
      <tbody>${subscriptions.slice(0, 50).map((each) => html`<tr><td class="mono">${each.topic_filter}</td><td>${each.where ? html`<code>${each.where}</code>` : html`<small>everything</small>`}${pace(each)}</td>
        <td class="n">${each.qos}</td><td class="n">${each.per_s == null ? html`<small>few</small>` : figure(each.per_s)}</td></tr>`)}</tbody></table></div>` : html`<p class="note">It subscribes to nothing.</p>`}</section>
    <section><h2>What happened to it <small>since the console has been looking, and as far as brokers remember</small></h2>
      ${events.length || drops.length ? html`<ol class="feed plain">${[...events.map((each) => ({ ...each, order: each.at_us })), ...drops.map((each) => ({ ...each, kind: "dropped", text: `message on ${each.topic} dropped`, order: each.at_us }))]
        .sort((one, other) => other.order - one.order).slice(0, 30).map(happening)}</ol>` : html`<p class="note">Nothing: no takeover, no move, no dropped message.</p>`}</section>`;
}


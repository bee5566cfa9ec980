// Is it well? Checks, every broker in a line by what is asked for, and who ordered what.
import { html, nothing } from "lit-html";
import { happening, meter, select, wrongList } from "./network.js";
import { ask, brokerRow, bytes, duration, figure, state } from "./state.js";

const AGAIN_MS = 3000;
let orders = null, askedAt = 0, sorted = "trouble";
const BY = {
  trouble: (row) => [-(row.away || !row.ready), -(row.processor ?? 0)],
  name: (row) => [row.name],
  clients: (row) => [-(row.clients ?? -1)],
  disk: (row) => [row.disk_free_bytes ?? Infinity],
  certificate: (row) => [row.certificate_days ?? Infinity],
};

function compare(one, other) {
  const [left, right] = [BY[sorted](one), BY[sorted](other)];
  for (let place = 0; place < left.length; place += 1) {
    if (left[place] < right[place]) return -1;
    if (left[place] > right[place]) return 1;
  }
  return one.name < other.name ? -1 : 1;
}

export function healthPage() {
  if (Date.now() - askedAt > AGAIN_MS) {
    askedAt = Date.now();
    ask("events", { kinds: "order,leave,join,refused" }, (found) => { orders = found; });
  }
  const { network, figures } = state;
  const rows = network.brokers.map((each, number) => ({ name: each.name, version: each.version, ...brokerRow(number) })).sort(compare);
  return html`${wrongList()}
    <div class="checks">${checks(rows, figures).map(([name, text, isWrong]) => html`<article class=${isWrong ? "poor" : "good"}><b>${isWrong ? "!" : "✓"} ${name}</b><span>${text}</span></article>`)}</div>
    <section><div class="head"><h2>Brokers</h2><div class="tabs" role="group" aria-label="Order">${Object.keys(BY).map((each) => html`<button aria-pressed=${sorted === each} @click=${() => { sorted = each; state.draw(); }}>by ${each}</button>`)}</div></div>
      <div class="scroll wide"><table class="small rows"><thead><tr><th>broker</th><th>state</th><th class="n">up for</th><th class="n">messages/s</th><th class="n">processor</th><th></th><th class="n">memory</th><th class="n">clients</th><th class="n">disk free</th><th class="n">certificate</th></tr></thead>
      <tbody>${rows.map(line)}</tbody></table></div></section>
    <section><h2>Orders, joins and refusals</h2>${orders?.length ? html`<ol class="feed plain">${orders.slice(0, 40).map(happening)}</ol>` : html`<p class="note">None as far as the brokers remember.</p>`}</section>`;
}

function line(row) {
  const text = (value) => (row.away ? "–" : value);
  return html`<tr><td><a href="/" @click=${(event) => { event.preventDefault(); select(row.name); }}>${row.name}</a></td>
    <td>${row.away ? html`<b class="bad">does not answer</b>` : row.draining ? html`<span class="poor">drained</span>` : row.ready ? "ready" : html`<b class="poor">not ready</b>`}</td>
    <td class="n">${text(duration(row.uptime_s))}</td><td class="n">${text(figure(row.in_per_s))}</td><td class="n">${text(`${Math.round(row.processor * 100)} %`)}</td><td>${row.away ? nothing : meter(row.processor)}</td>
    <td class="n">${text(bytes(row.memory_bytes))}</td><td class="n">${text(figure(row.clients))}</td><td class="n">${text(bytes(row.disk_free_bytes))}</td>
    <td class="n">${row.certificate_days == null ? "none" : `${figure(Math.floor(row.certificate_days))} days`}</td></tr>`;
}

function checks(rows, figures) {
  const there = rows.filter((row) => !row.away);
  const down = figures.links.filter((link) => link[3]).length;
  const dropped = there.reduce((sum, row) => sum + (row.dropped ?? 0), 0);
  const least = (name) => there.map((row) => row[name]).filter((value) => value != null).sort((one, other) => one - other)[0];
  const [disk, days] = [least("disk_free_bytes"), least("certificate_days")];
  const losing = figures.wrong.filter((each) => each.client).length;
  const versions = new Set(rows.map((row) => row.version).filter(Boolean));
  return [
    ["Brokers", `${there.length} of ${rows.length} answer, ${there.filter((row) => row.ready).length} are ready`, there.some((row) => !row.ready) || there.length < rows.length],
    ["Links", `${figures.links.length - down} of ${figures.links.length} are up`, down],
    ["Clients", losing ? `${losing} lose messages now` : `none loses messages; ${figure(dropped)} dropped since the starts`, losing],
    ["Disks", disk == null ? "brokers keep nothing on disk" : `${bytes(disk)} free at the least`, disk != null && disk < 1e9],
    ["Certificates", days == null ? "none in use" : `${figure(Math.floor(days))} days at the least`, days != null && days < 30],
    ["Versions", versions.size === 1 ? `all ${[...versions][0]}` : `${versions.size}: ${[...versions].join(", ")}`, versions.size > 1],
  ];
}

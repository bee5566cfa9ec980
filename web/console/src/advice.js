// Advice: what the network's own system has decided, or recommends, and why; "stay" among it.
import { html, nothing } from "lit-html";
import { happening } from "./network.js";
import { ask, state, withFewStays } from "./state.js";

const AGAIN_MS = 3000;
const KINDS = "decision,stay,move,links,overlay,failed";
const SHOWN = { all: "all", stay: "reasons to stay", move: "changes" };
/** The command that plans or advises, by system, with what it needs. */
const COMMANDS = {
  dynatops: ["shoal plan dynatops --network NETWORK.toml", "plans places of brokers and clients from what the brokers measure"],
  hybrid: ["shoal plan dynatops --network NETWORK.toml", "plans places of brokers and clients from what the brokers measure"],
  bayeux: ["shoal plan dynatops --network NETWORK.toml", "plans places of brokers and clients from what the brokers measure"],
  geops: ["shoal plan dynatops --network NETWORK.toml", "plans places of brokers and clients from what the brokers measure"],
  self_organising: ["shoal status NETWORK.toml --advise", "prints the links that the brokers recommend"],
  octopia: ["shoal plan octopia --rtt rtt.csv", "plans clusters and links from measured round trips"],
};
let rows = null, askedAt = 0, shown = "all";

export function advicePage() {
  if (Date.now() - askedAt > AGAIN_MS) {
    askedAt = Date.now();
    ask("events", { kinds: KINDS }, (found) => { rows = found; });
  }
  const { system } = state.network;
  const command = COMMANDS[system];
  const found = withFewStays(rows ?? [], 40).filter((each) => shown === "all" || (shown === "stay") === (each.kind === "stay"));
  return html`
    <section><h1>What ${system} does by itself</h1>
      <p class="facts">Decisions of the brokers with the figures behind them, the newest first; of each client the latest reason to stay.</p>
      <dl class="pairs">${summary(rows ?? []).map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`)}</dl></section>
    <section><div class="head"><h2>Decisions</h2><div class="tabs" role="group" aria-label="Shown">${Object.entries(SHOWN).map(([key, text]) => html`
        <button aria-pressed=${shown === key} @click=${() => { shown = key; state.draw(); }}>${text}</button>`)}</div></div>
      ${found.length ? html`<ol class="feed plain">${found.slice(0, 60).map(happening)}</ol>` : html`<p class="note">${rows === null ? "asking …" : none(system)}</p>`}</section>
    ${command ? html`<section><h2>Advice on demand</h2><p><code>${command[0]}</code> ${command[1]}.</p></section>` : nothing}`;
}

function summary(found) {
  const count = (kind) => found.filter((each) => each.kind === kind).length;
  return [["Changes", `${count("move") + count("links")} made${count("failed") ? `, ${count("failed")} failed` : ""}`], ["Reasons to stay", `${count("stay")} lately`]];
}

const none = (system) => (["tree", "tid", "tco"].includes(system)
  ? `${system} does not rearrange itself. Systems that do: grape, pop, self_organising, octopia, bluedove, dynatops.`
  : "No decision yet: brokers decide when enough messages have been published.");

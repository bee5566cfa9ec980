// Messages: a filter tried against the last ones, and messages that clients did not get.
import { html, nothing } from "lit-html";
import { ask, figure, state } from "./state.js";

let tried = null, isTrying = false;

export function messagePage() {
  return html`${tryFilter()}`;
}

export function tryFilter() {
  const given = new URLSearchParams(location.search);
  return html`<section>
    <h2>Try a filter <small>against the last 1,000 sampled messages of each broker; payloads stay there</small></h2>
    <form class="find" @submit=${submit}>
      <input name="topic" class="mono short" aria-label="Topic filter" value=${given.get("topic") ?? "#"}>
      <input name="where" class="mono" aria-label="Content filter" placeholder="dep_delay > 30 and carrier = 'UA'" value=${given.get("where") ?? ""}><button>Try</button></form>
    ${isTrying ? html`<p class="note">asking the brokers …</p>` : outcome()}
  </section>`;
}

function submit(event) {
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

// Orders of an operator: each is confirmed by a second press, and says what came of it.
import { html, nothing } from "lit-html";
import { order, state } from "./state.js";

/** The order that waits for its second press, and the outcome of the last one. */
let asked = "", outcome = "";

function button(name, text, query, title) {
  const key = JSON.stringify([name, query]);
  const press = async () => {
    if (asked !== key) {
      asked = key;
      outcome = "";
      setTimeout(() => { if (asked === key) { asked = ""; state.draw(); } }, 5000);
    } else {
      asked = "";
      outcome = `${text}: under way …`;
      state.draw();
      const problem = await order(name, query);
      outcome = problem ? `${text}: refused: ${problem}` : `${text}: ordered`;
    }
    state.draw();
  };
  return html`<button class=${asked === key ? "sure" : ""} title=${title} @click=${press}>${asked === key ? `${text}: sure?` : text}</button>`;
}

export function brokerOrders(broker, row) {
  if (!state.network.orders) return nothing;
  const neighbour = state.network.brokers.find((each) => each.name !== broker)?.name ?? "";
  return html`<div class="orders">
    ${row.away
      ? button("forget", "forget", { broker: neighbour, dead: broker }, "The network goes on without this broker, which is dead")
      : html`${row.draining ? button("undrain", "undrain", { broker }, "Let clients in again") : button("drain", "drain", { broker }, "Send all clients to other brokers")}
        ${button("leave", "leave", { broker }, "Take this broker out of the network for good")}${button("stay", "stay", { broker }, "Take its leave back")}`}
    </div>${outcome ? html`<p class="note">${outcome}</p>` : nothing}`;
}

export function clientOrders(broker, client) {
  if (!state.network.orders) return nothing;
  const others = state.network.brokers.map((each) => each.name).filter((name) => name !== broker);
  return html`<div class="orders">
    ${others.slice(0, 6).map((target) => button("move", `move to ${target}`, { broker, client, target }, `Send ${client} to ${target}`))}
    ${button("delete-session", "delete session", { broker, client }, "End its session and its connection")}</div>
    ${outcome ? html`<p class="note">${outcome}</p>` : nothing}`;
}

// The frame around every page: its name, the theme, and the stream that all pages read.
import "uplot/dist/uPlot.min.css";
import { html, nothing, render } from "lit-html";
import { advicePage } from "./advice.js";
import { clientsPage } from "./clients.js";
import { healthPage } from "./health.js";
import { layOut, showMove } from "./map.js";
import { messagePage } from "./message.js";
import { networkPage } from "./network.js";
import { follow, state, takeFigures, takeHappened, takeNetwork } from "./state.js";

const PAGES = [
  ["/", "Network", networkPage],
  ["/message", "Message", messagePage],
  ["/clients", "Clients", clientsPage],
  ["/advice", "Advice", advicePage],
  ["/health", "Health", healthPage],
];
const THEMES = { "": "◐", light: "○", dark: "●" };
const app = document.getElementById("app");
let isDrawing = false;

/** Draws once for all changes of this frame. */
function draw() {
  if (isDrawing) return;
  isDrawing = true;
  requestAnimationFrame(() => { isDrawing = false; drawNow(); });
}

function drawNow() {
  const [path, title, page] = PAGES.find(([each]) => each === location.pathname) ?? PAGES[0];
  const wrong = state.figures?.wrong ?? [];
  const { network } = state;
  document.title = `${wrong.length ? `(${wrong.length}) ` : ""}${title} · shoal`;
  const theme = document.documentElement.dataset.theme ?? "";
  render(html`
    <header>
      <div class="bar">
        <a class="brand" href="/" @click=${(event) => follow(event, "/")}>shoal</a>
        <span class="where"><b>${network?.network ?? "…"}</b>
          <small>${network ? `${network.brokers.length} broker${network.brokers.length === 1 ? "" : "s"} · ${network.system}` : nothing}</small></span>
        <span class="live ${state.live ? "" : "off"}">${state.live ? "live" : "no connection"}</span>
        ${network && !network.orders ? html`<span class="badge" title="Started without --orders: pages look and change nothing">read-only</span>` : nothing}
        <button class="theme" @click=${nextTheme} title="Colours: ${theme || "as the system"}" aria-label="Colours: ${theme || "as the system"}">${THEMES[theme]}</button>
      </div>
      <nav>${PAGES.map(([to, name]) => html`
        <a href=${to} @click=${(event) => follow(event, to)} aria-current=${to === path ? "page" : nothing}>${name}${
          name === "Health" && wrong.length ? html`<i class="count">${wrong.length}</i>` : nothing}</a>`)}</nav>
    </header>
    <main>${network && state.figures ? page() : html`<p class="fine wait">Waiting for the first figures …</p>`}</main>`, app);
}

function open(path) {
  history.pushState(null, "", path);
  draw();
  scrollTo(0, 0);
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const theme = names[(names.indexOf(document.documentElement.dataset.theme ?? "") + 1) % names.length];
  setTheme(theme);
  try { localStorage.setItem("theme", theme); } catch { /* a private window */ }
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  dispatchEvent(new Event("theme"));
  draw();
}

function listen() {
  const stream = new EventSource("/stream");
  const on = (kind, take) => stream.addEventListener(kind, (event) => { state.live = true; take(JSON.parse(event.data)); draw(); });
  on("network", (network) => { takeNetwork(network); layOut(); });
  on("figures", takeFigures);
  on("happened", (event) => { takeHappened(event); if (event.target) showMove(event); });
  stream.addEventListener("error", () => { state.live = false; draw(); });
}

state.draw = draw;
state.open = open;
addEventListener("popstate", draw);
let kept = "";
try { kept = localStorage.getItem("theme") ?? ""; } catch { /* a private window */ }
setTheme(new URLSearchParams(location.search).get("theme") ?? kept);
listen();

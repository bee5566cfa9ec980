// A line over time. uPlot draws it; this file has its colours, and when it is made again.
import { html, noChange } from "lit-html";
import { AsyncDirective } from "lit-html/async-directive.js";
import { directive } from "lit-html/directive.js";
import uPlot from "uplot";
import { clock, figure } from "./state.js";

const HEIGHT = 150;

class Line extends AsyncDirective {
  render() { return noChange; }

  update(part, [data, options]) {
    if (this.box !== part.element) this.begin(part.element, data, options);
    const found = data();
    if (!this.box.clientWidth) {
      requestAnimationFrame(() => { if (this.box) this.update(part, [data, options]); });
      return noChange;
    }
    const last = found[0].at(-1);
    if (!this.plot) this.plot = this.make(found, options);
    else if (last !== this.last || found[0].length !== this.length) this.plot.setData(found);
    this.last = last;
    this.length = found[0].length;
    return noChange;
  }

  begin(box, data, options) {
    this.box = box;
    this.again = () => { this.plot?.destroy(); this.plot = this.box ? this.make(data(), options) : null; };
    this.watch = new ResizeObserver(() => { if (this.plot && this.box?.clientWidth) this.plot.setSize({ width: this.box.clientWidth, height: HEIGHT }); });
    this.watch.observe(box);
    addEventListener("theme", this.again);
  }

  disconnected() {
    this.watch?.disconnect();
    removeEventListener("theme", this.again);
    this.plot?.destroy();
    this.plot = this.box = null;
  }

  make(data, { unit }) {
    const colours = getComputedStyle(this.box);
    const [soft, line, blue] = [colours.color, colours.borderColor, colours.accentColor];
    const axis = { stroke: soft, font: "12px system-ui, sans-serif", grid: { stroke: line, width: 1 }, ticks: { show: false }, gap: 6 };
    return new uPlot({
      width: this.box.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      padding: [10, 26, 0, 0],
      cursor: { y: false, points: { size: 7 } },
      scales: { x: { time: false }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.15 : 1] } },
      axes: [
        { ...axis, grid: { show: false }, size: 28, space: 96, values: (_, all) => all.map((second) => clock(second).slice(0, all[1] - all[0] < 60 ? 8 : 5)) },
        { ...axis, size: 56, space: 36, values: (_, all) => all.map(figure) },
      ],
      series: [{}, { stroke: blue, width: 2, spanGaps: true, fill: `color-mix(in srgb, ${blue} 10%, transparent)` }],
      hooks: {
        setCursor: [(plot) => {
          const place = plot.cursor.idx, reading = this.box?.parentElement.querySelector(".reading");
          if (reading) reading.textContent = place == null ? "" : `${clock(plot.data[0][place])}  ${figure(plot.data[1][place])}${unit}`;
        }],
      },
    }, data, this.box);
  }
}

const line = directive(Line);
export const chart = (name, data, options) => html`<div class="chart" data-name=${name}><output class="reading"></output><div class="plot" ${line(data, options)}></div></div>`;

"use strict";
for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => {
    for (const other of document.querySelectorAll("[role=tab]")) {
      other.setAttribute("aria-selected", String(other === tab));
      document.getElementById(other.dataset.panel).hidden = other !== tab;
    }
  });
}

const readings = JSON.parse(document.getElementById("readings").textContent);
for (const drawing of document.querySelectorAll("svg[data-chart]")) {
  const chart = readings[drawing.dataset.chart];
  const cursor = drawing.querySelector(".cursor");
  const output = drawing.closest("figure").querySelector("output");
  drawing.addEventListener("pointermove", (event) => {
    const box = drawing.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    const time = ((share - chart.left) / (chart.right - chart.left)) * chart.end;
    const within = time >= 0 && time <= chart.end;
    cursor.setAttribute("visibility", within ? "visible" : "hidden");
    output.replaceChildren();
    if (!within) return;
    cursor.setAttribute("x1", share * chart.width);
    cursor.setAttribute("x2", share * chart.width);
    output.append(`${time.toFixed(1)} ${chart.timeUnit}`);
    for (const line of chart.series) {
      let index = line.x.findIndex((x) => x > time);
      index = (index < 0 ? line.x.length : index) - 1;
      const part = document.createElement("span");
      part.style.color = line.colour;
      part.textContent = `${line.name} ${line.y[index] ?? "–"}`;
      output.append(part);
    }
  });
  drawing.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    output.replaceChildren();
  });
}

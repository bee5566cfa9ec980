// On a phone a table's cells stand one below the other (page.css), and each says its heading itself.
const FEW_COLUMNS = 3;
for (const table of document.querySelectorAll(".comparison, .movers, .settings, .replays, .plain")) {
  const headings = [];
  for (const row of table.querySelectorAll("thead tr")) {
    let place = 0;
    for (const cell of row.cells) {
      const text = (cell.querySelector(".run") ?? cell).textContent.trim();
      for (const end = place + cell.colSpan; place < end; place++)
        headings[place] = headings[place] ? `${headings[place]}, ${text}` : text;
    }
  }
  if (table.matches(".plain") && headings.length <= FEW_COLUMNS) continue;
  for (const cell of table.querySelectorAll("tbody td"))
    cell.dataset.heading = headings[cell.cellIndex] ?? "";
  table.classList.add("stack");
}

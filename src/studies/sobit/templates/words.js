"use strict";
// Search, filters and sorting of the tables of words; without this script they are plain tables.
for (const box of document.querySelectorAll(".words")) {
  const body = box.querySelector("tbody");
  const heads = [...box.querySelectorAll("thead th")];
  const rows = [...body.rows].map((row) => ({ row, cells: [...row.cells].map((cell) => cell.textContent.trim()) }));
  const columnIndex = (name) => heads.findIndex((head) => head.dataset.column === name);
  const form = box.querySelector("form");
  const status = box.querySelector("output");
  const number = (text) => parseFloat(text.replace("\u2212", "-"));

  const filter = () => {
    const fields = form.elements;
    const text = fields.text.value.trim().toLowerCase();
    const maxQ = parseFloat(fields.q.value);
    const [category, axis, q] = ["category", "axis", "q"].map(columnIndex);
    let visible = 0;
    for (const { row, cells } of rows) {
      const matches = (!text || cells[0].toLowerCase().includes(text))
        && (!fields.category.value || cells[category] === fields.category.value)
        && (!fields.axis.value || cells[axis] === fields.axis.value)
        // The text of a cell is rounded.
        && (isNaN(maxQ) || parseFloat(row.cells[q].dataset.value) <= maxQ);
      row.hidden = !matches;
      visible += matches;
    }
    status.textContent = `${visible} of ${rows.length} rows`;
  };

  const sort = (head, column) => {
    // The first click sorts numbers from the largest, names from A; the next one reverses the order.
    const names = head.classList.contains("name");
    const before = head.getAttribute("aria-sort");
    const ascending = before ? before === "descending" : names;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const sign = ascending ? 1 : -1;
    const compare = names
      ? (first, second) => sign * first.cells[column].localeCompare(second.cells[column])
      : (first, second) => {
        const [a, b] = [number(first.cells[column]), number(second.cells[column])];
        return isNaN(a) || isNaN(b) ? isNaN(a) - isNaN(b) : sign * (a - b);
      };
    body.append(...rows.sort(compare).map((entry) => entry.row));
  };

  for (const name of ["category", "axis"]) {
    const column = columnIndex(name);
    for (const value of new Set(rows.map((entry) => entry.cells[column]))) form.elements[name].add(new Option(value));
  }
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(head, column));
    head.append(button);
  });
  let frame = 0;
  form.addEventListener("input", () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(filter);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  form.hidden = false;
  filter();
}

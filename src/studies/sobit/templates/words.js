"use strict";
// Search, filters and sorting of tables of words; without this they are plain tables.
for (const box of document.querySelectorAll(".words")) {
  const body = box.querySelector("tbody");
  const heads = [...box.querySelectorAll("thead th")];
  const rows = [...body.rows].map((row) => ({ row, cells: [...row.cells].map((cell) => cell.textContent.trim()) }));
  const place = (name) => heads.findIndex((head) => head.dataset.column === name);
  const form = box.querySelector("form");
  const said = box.querySelector("output");
  const number = (text) => parseFloat(text.replace("\u2212", "-"));

  const filter = () => {
    const wanted = form.elements;
    const text = wanted.text.value.trim().toLowerCase();
    const most = parseFloat(wanted.q.value);
    const [category, axis, q] = ["category", "axis", "q"].map(place);
    let shown = 0;
    for (const { row, cells } of rows) {
      const there = (!text || cells[0].toLowerCase().includes(text))
        && (!wanted.category.value || cells[category] === wanted.category.value)
        && (!wanted.axis.value || cells[axis] === wanted.axis.value)
        && (isNaN(most) || number(cells[q]) <= most);
      row.hidden = !there;
      shown += there;
    }
    said.textContent = `${shown} of ${rows.length} rows`;
  };

  const sort = (head, at) => {
    // Numbers first from the largest, names from A.
    const names = head.classList.contains("name");
    const before = head.getAttribute("aria-sort");
    const up = before ? before === "descending" : names;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const way = up ? 1 : -1;
    const by = names
      ? (one, other) => way * one.cells[at].localeCompare(other.cells[at])
      : (one, other) => {
        const [a, b] = [number(one.cells[at]), number(other.cells[at])];
        return isNaN(a) || isNaN(b) ? isNaN(a) - isNaN(b) : way * (a - b);
      };
    body.append(...rows.sort(by).map((one) => one.row));
  };

  for (const name of ["category", "axis"]) {
    const at = place(name);
    for (const value of new Set(rows.map((one) => one.cells[at]))) form.elements[name].add(new Option(value));
  }
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(head, at));
    head.append(button);
  });
  let waiting = 0;
  form.addEventListener("input", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(filter);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  form.hidden = false;
  filter();
}

"use strict";
// Filters, table, forest plot and scatter plot of all analyses; without this script the page has a table.
const box = document.getElementById("explorer");
const data = JSON.parse(document.getElementById("explorer-data").textContent);
const form = box.querySelector("form");
const body = box.querySelector("tbody");
const heads = [...box.querySelectorAll("thead th")];
// Maximum number of plotted analyses, of analyses that are listed at first, and of colours; height of a row in pixels.
const [MAX_PLOTTED, LISTED, COLOURS, ROW_HEIGHT] = [40, 100, 8, 17];
const text = (name, row) => data.texts[name].values[data.texts[name].codes[row]];
const value = (name, row) => data.numbers[name].values[row];
const number = (name, row) => (value(name, row) === null ? "–"
  : value(name, row).toFixed(data.numbers[name].digits).replace("-", "\u2212"));
const measures = {
  level: ["level", "level_low", "level_high", "", "", "level_q", (row) => text("measure", row)],
  rho: ["rho", "ci_low", "ci_high", "placebo_mean", "placebo_q95", "q", () => "Spearman's ρ"],
};
let order = [...Array(data.count).keys()];
let listed = LISTED;
let unitsOf = null;

function chosen() {
  const models = new Set([...form.querySelectorAll("input[name=model]:checked")].map((input) => input.value));
  const selects = [...form.querySelectorAll("select[data-filter]")].filter((select) => select.value);
  return order.filter((row) => (!models.size || models.has(text("model", row)))
    && selects.every((select) => text(select.dataset.filter, row) === select.value));
}

function cell(tag, content, name) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(content);
  return element;
}

function list(rows) {
  body.replaceChildren(...rows.slice(0, listed).map((row) => {
    const line = document.createElement("tr");
    for (const { dataset: { column } } of heads) {
      if (column === "model") {
        const button = cell("button", text(column, row));
        button.type = "button";
        button.title = "Plot the units of this analysis";
        button.addEventListener("click", () => scatter(row));
        line.append(cell("th", button, "name"));
        line.lastChild.scope = "row";
      } else if (column in data.texts) {
        const reason = column === "status" && text("reason", row);
        line.append(cell("td", reason ? `${text(column, row)}: ${reason}` : text(column, row), "name"));
      } else line.append(cell("td", number(column, row)));
    }
    return line;
  }));
  box.querySelector("output").textContent = `${rows.length} of ${data.count} analyses`;
  const more = box.querySelector("button.more");
  more.hidden = rows.length <= listed;
  more.textContent = `Show more (${listed} of ${rows.length} are listed)`;
}

function options() {
  const style = getComputedStyle(document.body);
  const line = style.getPropertyValue("--line");
  const axis = { labelColor: style.color, titleColor: style.color, gridColor: line, domainColor: line, tickColor: line };
  const config = { background: null, font: style.fontFamily, axis, view: { stroke: line }, text: { color: style.color } };
  Object.assign(config, { legend: { labelColor: style.color, titleColor: style.color }, title: { color: style.color } });
  return { ast: true, config, renderer: "svg", actions: { export: true, source: false, compiled: false, editor: false } };
}

async function draw(name, spec, description) {
  const result = await vegaEmbed(box.querySelector(`.${name}`), { ...spec, description }, options());
  return result.view;
}

// Texts that all analyses share are left out of a plot's labels.
function differing(rows, names) {
  return names.filter((name) => new Set(rows.map((row) => data.texts[name].codes[row])).size > 1);
}

async function forest(rows) {
  const [effect, low, high, bandLow, bandHigh, q, title] = measures[form.elements.plotted.value];
  const plotted = rows.filter((row) => value(effect, row) !== null).slice(0, MAX_PLOTTED);
  box.querySelector(".plotted").textContent = plotted.length
    ? `${plotted.length} of ${rows.length} analyses, in the order of the table, with 95% intervals. Hollow: q > .05.${bandLow && " Grey: placebo, from its mean to its 95th percentile."}`
    : "None of the chosen analyses has this measure.";
  const names = differing(plotted, ["model", "exp", "group", "specification"]);
  const series = ["model", "exp", "group"].find((name) => differing(plotted, [name]).length
    && new Set(plotted.map((row) => text(name, row))).size <= COLOURS);
  const points = plotted.map((row) => ({
    number: row,
    label: (names.length ? names : ["group"]).map((name) => text(name, row)).join(" · "),
    series: series ? text(series, row) : "all",
    value: value(effect, row),
    ...(low && { low: value(low, row), high: value(high, row) }),
    ...(bandLow && { band_low: value(bandLow, row), band_high: value(bandHigh, row) }),
    filled: !(value(q, row) > 0.05),
    tooltip: {
      title: ["model", "exp", "group"].map((name) => text(name, row)).join(" · "),
      [text("measure", row)]: `${number("level", row)} [${number("level_low", row)}, ${number("level_high", row)}], q ${number("level_q", row)}`,
      ...(value("rho", row) !== null && {
        "ρ": `${number("rho", row)} [${number("ci_low", row)}, ${number("ci_high", row)}]`,
        "placebo": `mean ${number("placebo_mean", row)}, 95th percentile ${number("placebo_q95", row)}`,
      }),
      "n": number("n", row),
      "status": text("status", row),
    },
  }));
  const labels = [...new Set(plotted.map(title))].join("; ");
  const spec = structuredClone(data.plots.forest_plot);
  const width = box.querySelector(".forest").clientWidth;
  [spec.params[0].value, spec.params[1].value] = [labels, Math.min(260, 0.45 * width)];
  spec.height = ROW_HEIGHT * Math.max(1, new Set(points.map(({ label }) => label)).size);
  if (!bandLow) spec.layer.shift();
  const view = await draw("forest", { ...spec, datasets: { rows: points } }, `Forest plot of ${points.length} analyses: ${labels}`);
  view.addSignalListener("chosen", (_, picked) => { if (picked.number) scatter(picked.number[0]); });
}

async function scatter(row) {
  unitsOf = row;
  const units = data.units[row];
  const caption = box.querySelector(".units");
  caption.textContent = `${["model", "exp", "group"].map((name) => text(name, row)).join(" · ")}: `;
  if (!units) {
    caption.append("no sample of its units is stored on this page.");
    box.querySelector(".scatter").replaceChildren();
    return;
  }
  const bytes = Uint8Array.from(atob(units.points), (letter) => letter.charCodeAt(0));
  const at = (ends, step) => ends[0] + (step / 255) * (ends[1] - ends[0]);
  const points = [...Array(bytes.length / 2).keys()].map((unit) => ({ x: at(units.x, bytes[2 * unit]), y: at(units.y, bytes[2 * unit + 1]) }));
  const sample = points.length < units.n ? `a random sample of ${points.length} of its ${units.n} units` : `its ${units.n} units`;
  const named = units.far.length ? `; named: the ${units.far.length} units furthest from the line` : "";
  caption.append(`${sample}, ρ = ${number("rho", row)} over all; line: least squares${named}. All units are in its run's targets.parquet.`);
  const datasets = {
    points,
    line: units.x.map((x, end) => ({ x, y: units.line[end] })),
    far: units.far.map(([name, x, y]) => ({ name, x, y })),
  };
  await draw("scatter", { ...data.plots.scatter, datasets }, caption.textContent);
}

function sort(head) {
  const { column } = head.dataset;
  const isText = column in data.texts;
  const before = head.getAttribute("aria-sort");
  // The first click sorts numbers from the largest, names from A; the next one reverses the order.
  const sign = (before ? before === "descending" : isText) ? 1 : -1;
  for (const other of heads) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
  order.sort((first, second) => {
    if (isText) return sign * text(column, first).localeCompare(text(column, second));
    const [a, b] = [value(column, first), value(column, second)];
    return a === null || b === null ? (a === null) - (b === null) : sign * (a - b);
  });
  update();
}

function update() {
  const rows = chosen();
  list(rows);
  forest(rows);
}

for (const head of heads) {
  const button = cell("button", "");
  button.type = "button";
  button.append(...head.childNodes);
  button.addEventListener("click", () => sort(head));
  head.append(button);
}
form.addEventListener("input", () => { listed = LISTED; update(); });
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(update));
box.querySelector("button.more").addEventListener("click", () => { listed += 2 * LISTED; list(chosen()); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { update(); scatter(unitsOf); });
for (const element of box.querySelectorAll("[hidden]:not(.more)")) element.hidden = false;
update();
scatter(chosen()[0] ?? 0);

// Charts as inline SVG, with their numbers in tables. Lengths are in percent, so they fit any window and no text is
// stretched; colours are classes.
import { drawing, element, table } from "../elements.js";
import { count } from "../format.js";

const HEIGHT = 132;
const LABELS = 18; // below it

/**
 * Columns over time, in layers. `points`: `[{label, title, values}]`, `series`: `[{key, title}]`, of which each has a
 * class `s-KEY`. `first(point)` is what the first column of the table shows.
 */
export function columns({ title, points, series, first, every, empty }) {
  if (!points.length) return figure(title, element("p", { class: "empty" }, empty));
  const sum = (point) => series.reduce((all, { key }) => all + (point.values[key] ?? 0), 0);
  const most = Math.max(1, ...points.map(sum));
  const total = points.reduce((all, point) => all + sum(point), 0);
  const width = 100 / points.length;
  const bars = points.flatMap((point, index) => {
    let top = HEIGHT;
    return series.map(({ key }) => {
      const many = point.values[key] ?? 0;
      if (!many) return null;
      const high = Math.max(1, (many / most) * (HEIGHT - 4));
      top -= high;
      const props = { class: `s-${key}`, x: `${index * width + width * 0.1}%`, width: `${width * 0.8}%`, y: top, height: high };
      return drawing("rect", props, drawing("title", {}, `${point.title}: ${many} ${key}`));
    });
  });
  const label = `${title}: ${total} in ${points.length} columns, at most ${most} in one. The numbers are in the table below.`;
  const svg = drawing("svg", { role: "img", "aria-label": label, width: "100%", height: HEIGHT + LABELS, class: "columns" },
    grid(), bars, labels(points, every));
  const top = element("div", { class: "dim top" }, `${count(most)} at most`);
  const numbers = table(
    [{ title: "Hour", cell: first }, ...series.map(({ key, title: said }) =>
      ({ title: said, class: "number", cell: (point) => count(point.values[key] ?? 0) }))],
    [...points].reverse().filter(sum),
  );
  const told = element("details", {}, element("summary", {}, "As a table"), element("div", { class: "scroll", tabindex: "0",
    role: "region", "aria-label": `${title}, as a table` }, numbers));
  return figure(title, legend(series), top, svg, told);
}

function grid() {
  return [0, 0.5].map((at) => drawing("line", { class: "gridline", x1: "0", x2: "100%", y1: 4 + at * (HEIGHT - 4), y2: 4 + at * (HEIGHT - 4) }))
    .concat(drawing("line", { class: "base", x1: "0", x2: "100%", y1: HEIGHT - 0.5, y2: HEIGHT - 0.5 }));
}

function labels(points, every) {
  return points.filter((_, index) => index % every === 0).map((point, place) =>
    drawing("text", { class: "axis", x: `${(place * every * 100) / points.length}%`, y: HEIGHT + 14 }, point.label));
}

function legend(series) {
  const entry = ({ key, title }) => element("li", {}, drawing("svg", { width: 10, height: 10, "aria-hidden": "true" },
    drawing("rect", { class: `s-${key}`, width: 10, height: 10, rx: 2 })), " ", title);
  return element("ul", { class: "legend" }, series.map(entry));
}

/**
 * A table whose rows have a bar. `rows` of anything, `cells` as columns of a table, `bar(row)` gives `{to, mark}` in the
 * unit of `most`.
 */
export function bars({ title, cells, rows, bar, tone = "s-read", empty, note = null }) {
  const most = Math.max(0.001, ...rows.map((row) => bar(row).to ?? 0));
  const drawn = {
    title: "",
    class: "drawn",
    cell: (row) => {
      const { to, mark } = bar(row);
      const share = (value) => `${Math.max(0.5, (value / most) * 100)}%`;
      const body = drawing("rect", { class: tone, x: 0, y: 3, height: 8, rx: 2, width: share(to ?? 0) });
      const at = mark === undefined || mark === null ? null
        : drawing("rect", { class: "tick", x: `${Math.min(99, (mark / most) * 100)}%`, y: 0, height: 14, width: 2 });
      return drawing("svg", { "aria-hidden": "true", width: "100%", height: 14 }, body, at);
    },
  };
  const [first, ...others] = cells;
  return figure(title, table([first, drawn, ...others], rows, empty), note ? element("p", { class: "dim" }, note) : null);
}

function figure(title, ...inside) {
  return element("figure", { class: "chart" }, element("figcaption", {}, title), inside);
}

// Elements by function calls. Text is only ever text: nothing here reads HTML.

const CLICKED = new Set(["a", "button", "summary"]); // nothing else can be clicked inside of these
const CUT_MORE = 20_000; // characters that one click on "more" shows

/** `element("button", {class: "quiet", onclick, "aria-label": "…"}, "Text", other, null)`; a list of children is fine. */
export function element(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  set(made, props ?? {});
  made.append(...flat(children));
  if (CLICKED.has(tag)) for (const more of made.querySelectorAll("button.more")) more.replaceWith("…");
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** The same, for what is inside of an `<svg>`. */
export function drawing(tag, props = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  set(made, props ?? {});
  made.append(...flat(children));
  return made;
}

function set(made, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on") && typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

// Control characters (but for line breaks and tabs), formats such as bidirectional marks and zero-width spaces, private
// and unassigned ones, halves of pairs, and what looks like nothing at all.
const UNSEEN =
  /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0\u034f\u17b4\u17b5\u180b-\u180f\u2800\ufe00-\ufe0d]|[\u{e0100}-\u{e01ef}]|(?<=\p{M}{4})\p{M}/gu;

function escaped(found) {
  const point = found.codePointAt(0);
  return point > 0xffff ? `\\u{${point.toString(16)}}` : `\\u${point.toString(16).padStart(4, "0")}`;
}

function* readable(text) {
  let from = 0;
  for (const found of text.matchAll(UNSEEN)) {
    if (found[0] === "\n" || found[0] === "\t") continue;
    if (found.index > from) yield text.slice(from, found.index);
    yield element("span", { class: "escape" }, escaped(found[0]));
    from = found.index + found[0].length;
  }
  if (from < text.length) yield text.slice(from);
}

/** The same with plain escapes, for an `aria-label`, a `title` or an `<option>`. */
export function untrustedText(text, most = 200) {
  const said = String(text ?? "");
  const shown = cut(said, most).replace(UNSEEN, (found) => (found === "\n" || found === "\t" ? " " : escaped(found)));
  return shown.length < said.length && said.length > most ? `${shown}…` : shown;
}

function cut(text, most) {
  if (text.length <= most) return text;
  const half = text.charCodeAt(most - 1);
  return text.slice(0, half >= 0xd800 && half <= 0xdbff ? most - 1 : most);
}

/** What an agent or a server wrote: a direction of its own, nothing invisible, and no longer than `most` at first. */
export function untrusted(text, most = 2000) {
  const whole = String(text ?? "");
  const shown = element("bdi", { class: "untrusted" });
  const more = element("button", { type: "button", class: "more" });
  let upTo = 0;
  const show = (count) => {
    const part = cut(whole.slice(upTo), count);
    more.before(...readable(part));
    upTo += part.length;
    const left = whole.length - upTo;
    if (left) more.textContent = `… ${left.toLocaleString()} more characters`;
    else more.remove();
  };
  shown.append(more);
  more.addEventListener("click", (event) => {
    event.stopPropagation();
    show(CUT_MORE);
  });
  show(most);
  return shown;
}

/**
 * `columns`: `[{title, cell(row) -> node|text, class}]`. On a narrow screen each row becomes a card, which takes the
 * table's roles away from its elements, so they are named.
 */
export function table(columns, rows, empty = "There is nothing here.") {
  if (!rows.length) return element("p", { class: "empty" }, empty);
  const head = columns.map(({ title, class: of }) => element("th", { scope: "col", role: "columnheader", class: of }, title));
  return element(
    "table",
    { role: "table", class: "cards" },
    element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, head)),
    element("tbody", { role: "rowgroup" }, rows.map((row) => tableRow(columns, row))),
  );
}

/** One row of such a table, for a list that grows. */
export function tableRow(columns, row) {
  const cells = columns.map(({ title, cell, class: of }) =>
    element("td", { role: "cell", class: of, "data-title": title }, cell(row)),
  );
  return element("tr", { role: "row" }, cells);
}

/** What went wrong and the next step, to be read out at once. */
export function problem(error) {
  const said = untrusted(error?.message || "Something went wrong", 500);
  const remedy = error?.remedy ? element("p", {}, untrusted(error.remedy, 500)) : null;
  return element("div", { class: "problem", role: "alert" }, element("p", {}, said), remedy);
}

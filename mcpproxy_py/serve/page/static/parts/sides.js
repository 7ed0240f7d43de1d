// Two texts side by side, line by line: what was approved, and what is there now.
import { element, untrusted } from "../elements.js";

const MOST_LINES = 400; // beyond it the lines are not compared, only shown
const MOST_SHOWN = 4_000;

/** Any value of a listing as text that people can compare. */
function textOf(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

export function sides(before, after, names = ["Approved", "Listed now"]) {
  const [was, now] = [textOf(before), textOf(after)];
  const [gone, added] = different(was.split("\n"), now.split("\n"));
  return element(
    "div",
    { class: "sides" },
    side(names[0], was, gone, "−", "removed", before),
    side(names[1], now, added, "+", "added", after),
  );
}

function side(name, text, marked, sign, word, value) {
  const missing = value === null || value === undefined;
  const lines = missing ? [element("p", { class: "dim" }, "Nothing.")] : text.slice(0, MOST_SHOWN * 5).split("\n").map((each, at) => line(each, marked.has(at), sign, word));
  return element("div", { class: "side" }, element("h4", {}, name), element("div", { class: "lines mono", tabindex: "0", role: "region", "aria-label": name }, lines));
}

function line(text, isMarked, sign, word) {
  const mark = isMarked ? [element("span", { class: "unseen" }, `${word}: `), element("span", { "aria-hidden": "true" }, `${sign} `)] : null;
  return element("div", { class: isMarked ? `line ${word}` : "line" }, mark, untrusted(text, MOST_SHOWN));
}

/** The numbers of the lines that only one of them has, by the longest common sequence. */
function different(was, now) {
  if (was.length > MOST_LINES || now.length > MOST_LINES) return [new Set(), new Set()];
  const width = now.length + 1;
  const longest = new Uint16Array((was.length + 1) * width);
  for (let i = was.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = was[i] === now[j] ? longest[(i + 1) * width + j + 1] + 1
        : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const [gone, added] = [new Set(), new Set()];
  let [i, j] = [0, 0];
  while (i < was.length || j < now.length) {
    if (i < was.length && j < now.length && was[i] === now[j]) [i, j] = [i + 1, j + 1];
    else if (j === now.length || (i < was.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) gone.add(i++);
    else added.add(j++);
  }
  return [gone, added];
}

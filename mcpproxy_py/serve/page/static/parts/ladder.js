// The picture of a decision: the rungs in order, how far the ask came, and where it was refused. Each rung is a list item
// with its piece of the ladder, so that the picture keeps its shape however the words beside it wrap.
import { drawing, element, untrusted } from "../elements.js";

const OUTCOMES = {
  passed: { sign: "✓", tone: "good", said: "passed" },
  failed: { sign: "✕", tone: "bad", said: "refused here" },
  "not reached": { sign: "", tone: "plain", said: "not reached" },
  "would wait": { sign: "…", tone: "care", said: "would wait" },
};
const LEFT = 6;
const RIGHT = 42;
const MIDDLE = 24;

/** `rungs`: `[{number, rule, looks_at, outcome, message}]`, of a record or of a dry run. */
export function ladder(rungs) {
  if (!rungs.length) return element("p", { class: "empty" }, "This was not decided on a ladder.");
  const steps = rungs.map((rung, index) => step(rung, index === 0, index === rungs.length - 1));
  return element("figure", { class: "ladder" }, element("figcaption", {}, summed(rungs)), element("ol", {}, steps));
}

function summed(rungs) {
  const passed = rungs.filter((rung) => rung.outcome === "passed").length;
  const failed = rungs.find((rung) => rung.outcome === "failed");
  const left = rungs.filter((rung) => rung.outcome === "not reached").length;
  if (!failed) return `All ${passed} rungs passed.`;
  const after = failed.number === null ? "Stopped after the ladder by " : "Refused by ";
  const before = passed ? `${passed} passed before it` : "the first rung";
  return [after, element("strong", {}, untrusted(failed.rule, 60)), `: ${before}${left ? `, ${left} not reached.` : "."}`];
}

function step(rung, first, last) {
  const { sign, tone, said } = OUTCOMES[rung.outcome] ?? { sign: "?", tone: "plain", said: rung.outcome };
  const number = rung.number === null ? "after" : String(rung.number);
  return element(
    "li",
    { class: `rung ${tone}` },
    piece(sign, said, first, last),
    element("span", { class: "which" }, element("span", { class: "dim number" }, number), " ",
      element("strong", {}, untrusted(rung.rule, 60))),
    element("span", { class: "looks" }, untrusted(rung.looks_at ?? "", 200),
      rung.message ? element("span", { class: "told" }, untrusted(rung.message, 400)) : null),
  );
}

/** Lengths in percent follow the height of the row. */
function piece(sign, said, first, last) {
  const rail = (x) => drawing("line", { class: "rail", x1: x, x2: x, y1: first ? "30%" : "-1", y2: last ? "70%" : "101%" });
  return drawing(
    "svg",
    { role: "img", "aria-label": said, width: RIGHT + LEFT, height: "100%" },
    rail(LEFT), rail(RIGHT),
    drawing("line", { class: "tread", x1: LEFT, x2: RIGHT, y1: "50%", y2: "50%" }),
    drawing("circle", { class: "mark", cx: MIDDLE, cy: "50%", r: 8.5 }),
    drawing("text", { x: MIDDLE, y: "50%", dy: "0.36em", "text-anchor": "middle" }, sign),
  );
}

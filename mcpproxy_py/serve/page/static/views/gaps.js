// What was missing: asked for, hinted at, searched and not found, refused, failing. Ranked by the gateway.
import { element, untrusted } from "../elements.js";
import { get } from "../rest.js";
import { ago, count } from "../format.js";
import { labelled, select } from "../parts/act.js";
import { address, go } from "../router.js";

export const title = "Gaps";

const KINDS = {
  formal_request: "asked for, formally",
  request: "asked for",
  explicit: "asked for",
  passive: "hinted at",
  unmet_search: "searched and not found",
  refused: "refused",
  failing: "failing",
};
const SPANS = [
  { value: "1", text: "the last day" },
  { value: "7", text: "the last week" },
  { value: "30", text: "the last 30 days" },
  { value: "365", text: "the last year" },
];

export async function show(main, query, signal) {
  const days = SPANS.some(({ value }) => value === query.get("days")) ? query.get("days") : "30";
  const since = new Date(Date.now() - Number(days) * 86_400_000).toISOString();
  const found = await get("/gaps", { since, limit: 100 }, signal);
  const span = select(SPANS, days, { onchange: () => go("gaps", { days: span.value }) });
  main.append(
    element("div", { class: "filters" }, labelled("Seen in", span)),
    element("p", { class: "dim" }, found.gaps.length
      ? `${count(found.total)} ${found.total === 1 ? "thing was" : "things were"} missing. What agents asked for comes first.`
      : "Nothing was missing."),
    element("div", {}, found.gaps.map((gap) => card(gap, found.approximate))),
  );
  if (found.cut?.length) main.append(element("p", { class: "dim" }, `Of some kinds only the newest records were read: ${found.cut.map(named).join(", ")}.`));
}

function named(kind) {
  return KINDS[kind] ?? String(kind).replaceAll("_", " ");
}

function card(gap, approximate) {
  const kinds = Object.entries(gap.kinds).map(([kind, times]) =>
    element("span", { class: "badge plain" }, `${named(kind)} ${count(times)}×`, approximate.includes(kind) ? " (a guess)" : null),
  );
  return element(
    "article",
    { class: "card" },
    element("h2", {}, untrusted(gap.capability, 200)),
    element("p", { class: "row" }, kinds, element("span", { class: "dim" }, "last ", ago(gap.last_seen), ", first ", ago(gap.first_seen))),
    gap.examples.length ? element("ul", {}, gap.examples.map(example)) : null,
    element("a", { href: address("servers", { add: "catalog", query: gap.capability.slice(0, 60) }) }, "Look for a server"),
  );
}

function example({ text, kind, id }) {
  return element("li", {}, untrusted(text, 300), " ", element("a", { href: address("record", { name: id }), "aria-label": `Record of this example, ${named(kind)}` }, "record"));
}

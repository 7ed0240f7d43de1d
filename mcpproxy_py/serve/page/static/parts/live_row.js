// One ask as a row that changes while it runs. Only what changed is drawn anew, so that focus and selection stay.
import { element, untrusted, untrustedText } from "../elements.js";
import { duration } from "../format.js";
import { classBadge, statusBadge } from "./badge.js";
import { operation, reason, subject, verdict } from "./record_facts.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dated = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

const CELLS = [
  ["When", (record) => when(record.timestamp), "nowrap"],
  ["Status", (record) => statusBadge(record.status)],
  ["What", opener, "what"],
  ["Declared", (record) => declared(record)],
  ["Who", (record) => untrusted(record.client?.name || record.principal || "", 60)],
  ["Decision", (record) => verdict(record)],
  ["Took", (record) => (record.duration_ms === null ? "" : duration(record.duration_ms)), "number nowrap"],
];
/** Nothing else of a row changes while an ask runs. */
const CHANGING = ["Status", "Decision", "Took"];

/** `{node, update(record)}`. */
export function liveRow(record) {
  const cells = CELLS.map(([title, cell, of]) => element("td", { role: "cell", "data-title": title, class: of }, cell(record)));
  const node = element("tr", { role: "row", "data-id": record.id, class: `opens ${tone(record)}` }, cells);
  let { status } = record;
  const update = (next) => {
    if (next.status === status) return;
    status = next.status;
    node.className = `opens ${tone(next)}`;
    CELLS.forEach(([title, cell], index) => CHANGING.includes(title) && cells[index].replaceChildren(cell(next)));
  };
  return { node, update };
}

/** Each of them opens everything about its record: by a click on the row, or with the button in it. */
export function opener(record) {
  const said = subject(record);
  return element("button", { type: "button", class: "link", "aria-label": `Open ${untrustedText(said, 80)}` },
    said ? untrusted(said, 80) : "(nothing named)");
}

export function when(time) {
  const at = new Date(time);
  const today = at.toDateString() === new Date().toDateString();
  return element("time", { datetime: time, title: at.toLocaleString() }, (today ? clock : dated).format(at));
}

export function declared(record) {
  const said = operation(record);
  const why = reason(record);
  return [said ? classBadge(said) : null, why ? element("div", { class: "reason" }, untrusted(why, 140)) : null];
}

function tone(record) {
  return record.status === "blocked" ? "refused" : record.status === "pending" ? "running" : "";
}

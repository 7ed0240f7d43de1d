// The record: search, filters, pages, charts and files to keep. What is shown stands in the address.
import { element, problem, table, untrusted } from "../elements.js";
import { duration } from "../format.js";
import { get, wholeNumbers } from "../rest.js";
import { address, go } from "../router.js";
import { activityCharts } from "../parts/activity_charts.js";
import { statusBadge } from "../parts/badge.js";
import { exportButtons } from "../parts/export.js";
import { asked, field, restQuery } from "../parts/filters.js";
import { declared, opener, when } from "../parts/live_row.js";
import { openRecord, recordDetail } from "../parts/record_detail.js";
import { subject, verdict } from "../parts/record_facts.js";

export const title = "Record";

const OFTEN = ["q", "status", "intent_type", "server", "since"];
const SELDOM = ["tool", "client", "principal", "type", "session_id", "request_id", "start_time", "end_time"];
const PAGE = 50;
const before = new Map(); // the page before each, by cursor, for as long as this tab lives

const COLUMNS = [
  { title: "When", cell: (record) => when(record.timestamp), class: "nowrap" },
  { title: "Status", cell: (record) => statusBadge(record.status) },
  { title: "What", cell: opener, class: "what" },
  { title: "Declared", cell: declared },
  { title: "Who", cell: (record) => untrusted(record.client?.name || record.principal || "", 60) },
  { title: "Decision", cell: verdict },
  { title: "Took", cell: (record) => (record.duration_ms === null ? "" : duration(record.duration_ms)), class: "number nowrap" },
];

export async function show(main, query, signal) {
  if (query.get("name")) return showOne(main, query.get("name"), signal);
  const wanted = restQuery(query);
  const charts = element("details", { class: "charts", open: innerWidth > 640 || null }, element("summary", {}, "Charts"));
  const place = element("div", { class: "found" });
  const exporting = exportButtons(wanted);
  main.append(searchForm(query), charts, exporting.node, place);
  const cursor = query.get("cursor");
  const page = await get("/activity", { ...wanted, limit: PAGE, cursor }, signal);
  place.append(found(page, cursor, signal), pager(query, cursor, page.next_cursor));
  drawCharts(charts, wanted, exporting, signal);
}

function found(page, cursor, signal) {
  const list = table(COLUMNS, page.activities, cursor ? "There is nothing older." : "Nothing on record fits.");
  const bodies = list.tBodies?.[0]?.rows ?? [];
  page.activities.forEach((record, index) => {
    bodies[index].classList.add("opens");
    bodies[index].dataset.id = record.id;
  });
  list.addEventListener("click", (event) => {
    const row = event.target.closest("tr[data-id]");
    if (!row || event.target.closest("a, .more") || String(getSelection())) return;
    openRecord(row.dataset.id, signal);
  });
  return list;
}

function pager(query, cursor, next) {
  const link = (to, text, rel) => element("a", { class: "button", href: to, rel }, text);
  const to = (at) => {
    const other = new URLSearchParams(query);
    other.delete("cursor");
    if (at) other.set("cursor", at);
    return address("record", other);
  };
  if (next) before.set(next, cursor ?? "");
  const newer = !cursor ? null : before.has(cursor) ? link(to(before.get(cursor)), "← Newer", "prev") : link(to(""), "← Newest", "prev");
  const older = next ? link(to(next), "Older →", "next") : null;
  return newer || older ? element("nav", { class: "pager", "aria-label": "Pages" }, newer, older) : "";
}

function searchForm(query) {
  const more = SELDOM.filter((name) => query.get(name));
  const own = element("input", { type: "checkbox", name: "all", value: "1", checked: query.get("all") === "1" });
  const form = element("form", { role: "search", "aria-label": "What to look for" },
    element("div", { class: "filters" }, OFTEN.map((name) => field(name, query)),
      element("button", { class: "main" }, "Search"),
      element("a", { class: "button quiet", href: address("record") }, "Clear")),
    element("details", { open: more.length > 0 || query.get("all") === "1" },
      element("summary", {}, more.length ? `More filters (${more.length} set)` : "More filters"),
      element("div", { class: "filters" }, SELDOM.map((name) => field(name, query)),
        element("label", { class: "check" }, own, " what servers do of their own accord, too"))));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go("record", asked(form));
  });
  return form;
}

async function drawCharts(place, wanted, exporting, signal) {
  const draw = async () => {
    place.removeEventListener("toggle", draw);
    if (!place.open) return place.addEventListener("toggle", draw);
    try {
      const said = await get("/activity/summary", wanted, signal);
      exporting.know(said.total);
      place.append(activityCharts(said));
    } catch (error) {
      if (!signal.aborted) place.append(problem(error));
    }
  };
  await draw();
}

async function showOne(main, id, signal) {
  const record = await wholeNumbers(`/activity/${encodeURIComponent(id)}`, signal);
  const place = element("div", {});
  const draw = (shown) => place.replaceChildren(recordDetail(shown, draw));
  draw(record);
  main.append(element("p", {}, element("a", { href: address("record") }, "← The record")),
    element("h2", {}, untrusted(subject(record), 200)), place);
}

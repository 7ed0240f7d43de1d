// Asks as they happen. Events are gathered and drawn together, a few times a second, so a burst costs no more than a trickle.
import { element, problem, untrusted } from "../elements.js";
import { count, duration } from "../format.js";
import { follow, get } from "../rest.js";
import { remember } from "../router.js";
import { asked, field } from "../parts/filters.js";
import { liveRow } from "../parts/live_row.js";
import { openRecord } from "../parts/record_detail.js";
import { SERVERS_OWN, operation, reason, subject } from "../parts/record_facts.js";

export const title = "Now";

const MOST_ROWS = 100;
const AT_ONCE = 40; // new rows in one drawing; of a larger burst the newest are drawn
const EVERY = 200; // milliseconds between two drawings
const TELL_EVERY = 30_000; // for who cannot see: not more often than that
const SUM_EVERY = 60_000;
const ASKED = ["status", "intent_type", "server", "client", "q"];
const EVENTS = ["asked", "finished", "erased"];

export async function show(main, query, signal) {
  const rows = new Map(); // by id, in the order in which they arrived
  const body = element("tbody", { role: "rowgroup" });
  const heads = ["When", "Status", "What", "Declared", "Who", "Decision", "Took"].map((each) =>
    element("th", { scope: "col", role: "columnheader" }, each));
  const list = element("table", { role: "table", class: "cards live", "aria-label": "Asks, newest first" },
    element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, heads)), body);
  const empty = element("p", { class: "empty" }, "Nothing yet. What agents ask appears here as it happens.");
  const told = element("p", { class: "unseen", role: "status" });
  const heard = element("span", { class: "heard" });
  const pause = element("button", { type: "button", "aria-pressed": "false" }, "Pause");
  const form = filterForm(query);
  const sums = element("div", { class: "sums" });
  main.append(sums, element("div", { class: "live-bar" }, form, element("div", { class: "row" }, pause, heard)), told, list, empty);

  let waiting = new Map();
  let timer = null;
  let paused = false;
  let missed = 0;
  let wanted = matcher(query);
  let untold = { asks: 0, refused: 0 };

  const draw = () => {
    timer = null;
    if (signal.aborted || paused) return;
    const news = waiting;
    waiting = new Map();
    const fresh = [];
    for (const [id, record] of news) {
      if (rows.has(id)) rows.get(id).update(record);
      else if (record && wanted(record)) fresh.push(record);
    }
    missed += Math.max(0, fresh.length - AT_ONCE);
    const top = fresh.slice(-AT_ONCE).map((record) => {
      const row = liveRow(record);
      rows.set(record.id, row);
      return row.node;
    });
    body.prepend(...top.reverse());
    for (const [id, row] of rows) {
      if (rows.size <= MOST_ROWS) break;
      if (row.node.contains(document.activeElement)) body.rows[0]?.querySelector("button")?.focus({ preventScroll: true });
      row.node.remove();
      rows.delete(id);
    }
    state();
  };

  const soon = () => {
    timer ??= setTimeout(() => requestAnimationFrame(draw), EVERY);
  };

  const state = () => {
    list.hidden = rows.size === 0;
    empty.hidden = rows.size > 0;
    pause.textContent = paused ? `Go on (${count(waiting.size)}${waiting.size >= MOST_ROWS ? " or more" : ""} new)` : "Pause";
    heard.textContent = missed ? `${count(missed)} more went by too fast to show; they are on record.` : "";
  };

  const take = (record) => {
    if (record.type === SERVERS_OWN) return;
    const known = waiting.has(record.id);
    waiting.set(record.id, record);
    if (paused) {
      for (const id of waiting.keys()) {
        if (waiting.size <= MOST_ROWS) break;
        waiting.delete(id);
      }
      if (!known) state();
      return;
    }
    soon();
  };

  const refresh = async () => {
    const page = await get("/activity", { limit: 50, exclude_type: SERVERS_OWN, ...serverSide(form) }, signal);
    for (const record of [...page.activities].reverse()) waiting.set(record.id, record);
    if (!paused) draw();
  };

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    told.textContent = paused ? "Paused." : "Going on.";
    state();
    if (!paused) draw();
  });
  body.addEventListener("click", (event) => {
    const node = event.target.closest("tr");
    if (!node || event.target.closest("a, .more") || String(getSelection())) return;
    openRecord(node.dataset.id, signal, (record) => rows.get(record.id)?.update(record));
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  let asking = null;
  form.addEventListener("input", () => {
    clearTimeout(asking);
    asking = setTimeout(() => {
      remember("now", asked(form));
      wanted = matcher(new URLSearchParams(asked(form)));
      rows.clear();
      body.replaceChildren();
      refresh().catch((error) => signal.aborted || main.append(problem(error)));
    }, 300);
  });
  form.addEventListener("reset", () => setTimeout(() => form.dispatchEvent(new Event("input"))));

  const tell = setInterval(() => {
    if (paused || document.hidden || !untold.asks) return;
    told.textContent = `${untold.asks} new asks, ${untold.refused} refused.`;
    untold = { asks: 0, refused: 0 };
  }, TELL_EVERY);
  const sum = setInterval(() => document.hidden || summed(sums, signal), SUM_EVERY);
  signal.addEventListener("abort", () => (clearInterval(tell), clearInterval(sum), clearTimeout(timer), clearTimeout(asking)));

  await refresh();
  state();
  summed(sums, signal);
  let begun = false;
  follow("/events", { brief: "true" }, ({ event, data }) => {
    if (event === "hello") {
      if (begun) refresh().catch(() => {});
      begun = true;
    }
    if (!data || !EVENTS.includes(event)) return;
    if (event === "asked") untold.asks += 1;
    if (data.status === "blocked" && event === "finished") untold.refused += 1;
    take(data);
  }, signal, (there) => {
    main.classList.toggle("cut-off", !there);
    heard.textContent = there ? "" : "The gateway cannot be heard; trying again.";
  }).catch(() => {});
}

function filterForm(query) {
  const reset = element("button", { type: "reset", class: "quiet" }, "Clear");
  const form = element("form", { class: "filters", role: "search", "aria-label": "Which asks are shown" },
    ASKED.map((name) => field(name, query)), reset);
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    for (const each of form.elements) if (each.name) each.value = "";
  });
  return form;
}

function serverSide(form) {
  return asked(form);
}

/** The same filters, for what comes with the events. Words are looked for in what a row shows. */
function matcher(query) {
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean).map((word) => word.replace(/\*$/, ""));
  const same = (name, of) => !query.get(name) || query.get(name) === of;
  return (record) =>
    same("status", record.status) && same("server", record.server) && same("client", record.client?.name) &&
    same("intent_type", operation(record)) && (!words.length || holds(record, words));
}

function holds(record, words) {
  const text = [subject(record), String(reason(record)), record.error?.message ?? ""].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

/** The last hour in a few numbers. */
async function summed(place, signal) {
  const start = new Date(Math.floor((Date.now() - 3_600_000) / 60_000) * 60_000).toISOString();
  try {
    const said = await get("/activity/summary", { start_time: start, exclude_type: SERVERS_OWN }, signal);
    const { blocked = 0, error = 0, timeout = 0 } = said.by_status ?? {};
    const one = (value, what, tone = "") => element("div", { class: `sum ${tone}` }, element("strong", {}, value), " ", element("span", {}, what));
    place.replaceChildren(
      one(count(said.total), "asks, last hour"), one(count(blocked), "refused", blocked ? "care" : ""),
      one(count(error + timeout), "failed", error + timeout ? "bad" : ""),
      one(duration(said.duration_ms?.p50), "p50"), one(duration(said.duration_ms?.p95), "p95"));
  } catch (error) {
    if (!signal.aborted) place.replaceChildren(element("p", { class: "dim" }, untrusted(error.message, 200)));
  }
}

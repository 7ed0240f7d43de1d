// The filters of the record as fields, and as a query. The same query stands in the address and goes to REST.
import { element } from "../elements.js";

const STATUSES = ["success", "error", "blocked", "timeout", "cancelled", "interrupted", "pending"];
const OPERATIONS = ["read", "write", "destructive"];
const TYPES = ["tool_call", "tool_search", "resource_read", "prompt_get", "completion", "request", "server_request",
  "config_change", "approval"];
const SINCE = { "1h": "the last hour", "24h": "the last 24 hours", "7d": "the last 7 days", "30d": "the last 30 days" };
const HOURS = { h: 1, d: 24 };

const choice = (options) => (name, value) => element("select", { name, value: "" },
  element("option", { value: "" }, "any"),
  options.map((each) => element("option", { value: each, selected: each === value }, each.replaceAll("_", " "))));
const text = (name, value) => element("input", { name, type: name === "q" ? "search" : "text", maxlength: 1000,
  autocomplete: "off", spellcheck: "false", value: value ?? "" });
const time = (name, value) => element("input", { name, type: "datetime-local", step: "1", value: localTime(value) });
const since = (name, value) => element("select", { name }, element("option", { value: "" }, "any time"),
  Object.entries(SINCE).map(([each, said]) => element("option", { value: each, selected: each === value }, said)));

/** What each is called, and how it is asked for. */
export const FIELDS = {
  q: ["Words", text],
  status: ["Status", choice(STATUSES)],
  intent_type: ["Declared", choice(OPERATIONS)],
  server: ["Server", text],
  since: ["Since", since],
  type: ["Kind", choice(TYPES)],
  tool: ["Tool", text],
  client: ["Client", text],
  principal: ["Principal", text],
  session_id: ["Session", text],
  request_id: ["Request", text],
  start_time: ["From", time],
  end_time: ["Until", time],
};

/** A labelled field, with what the query says of it. */
export function field(name, query) {
  const [title, make] = FIELDS[name];
  return element("label", {}, element("span", {}, title), make(name, query.get(name)));
}

/** What the fields of a form say, without what is empty. */
export function asked(form) {
  const found = {};
  for (const [name, value] of new FormData(form)) {
    const said = String(value).trim();
    if (said) found[name] = name.endsWith("_time") ? new Date(said).toISOString() : said;
  }
  return found;
}

/** The query for REST: `since` becomes a time, and what servers do of their own accord is left out unless it is asked for. */
export function restQuery(query) {
  const found = {};
  for (const name of Object.keys(FIELDS)) {
    if (query.get(name)) found[name] = query.get(name);
  }
  const { since: age } = found;
  delete found.since;
  if (age && Object.hasOwn(SINCE, age)) {
    const ms = Number(age.slice(0, -1)) * HOURS[age.at(-1)] * 3_600_000;
    found.start_time ??= new Date(Math.floor((Date.now() - ms) / 60_000) * 60_000).toISOString();
  }
  if (!found.type && !query.get("all")) found.exclude_type = "server_request";
  return found;
}

function localTime(iso) {
  const at = iso ? new Date(iso) : null;
  if (!at || Number.isNaN(at.getTime())) return "";
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

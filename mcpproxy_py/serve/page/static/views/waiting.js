// What waits for a person: calls, requests for servers, changes of what servers list, logins. Below, what was decided.
import { element, table, untrusted } from "../elements.js";
import { follow, get } from "../rest.js";
import { ago } from "../format.js";
import { reconcile, repeat, section, soon } from "../parts/act.js";
import { statusBadge } from "../parts/badge.js";
import { callCard } from "../parts/waiting_call.js";
import { requestCard } from "../parts/waiting_request.js";
import { pinCard } from "../parts/waiting_pin.js";
import { loginButton } from "../parts/login.js";
import { address } from "../router.js";

export const title = "Waiting for you";

const CHANGES = ["config_change", "approval"];

export async function show(main, query, signal) {
  const said = element("p", { role: "status", "aria-live": "polite" });
  const parts = {
    calls: section("Calls that want a yes"),
    requests: section("Requests for servers"),
    pins: section("Changes of what servers list"),
    logins: section("Logins"),
    decided: section("Decided"),
  };
  main.append(said, ...Object.values(parts));
  const look = () => shown(parts, said, signal, look);
  await look();
  const lookSoon = soon(() => look().catch(() => {}));
  follow("/events", {}, (told) => {
    if (["confirmation", "approval", "hello"].includes(told.event) || CHANGES.includes(told.data?.type)) lookSoon();
  }, signal).catch(() => {});
  repeat(look, 5_000, signal); // what servers list, and their logins, are no events
}

async function shown(parts, said, signal, look) {
  const [waiting, decided, requests, reviewed, pins, servers] = await Promise.all([
    confirmations({ status: "waiting", limit: 100 }, signal),
    confirmations({ limit: 50 }, signal),
    get("/approvals", { status: "pending", limit: 100 }, signal),
    get("/approvals", { limit: 50 }, signal),
    pinsThatWait(signal),
    get("/servers", {}, signal),
  ]);
  if (signal.aborted) return;
  const calls = [...waiting.confirmations].reverse(); // whoever waits longest comes first
  const logins = servers.servers.filter((each) => each.state === "needs_login" || each.wanted_scope).map(({ name, error, wanted_scope }) => ({ name, error, scope: wanted_scope }));
  reconcile(parts.calls.place, calls, (each) => each.id, (each) => callCard(each, look), "No call waits.");
  reconcile(parts.requests.place, requests.approvals, (each) => each.approval_id, (each) => requestCard(each, look), "No agent asks for a server.");
  reconcile(parts.pins.place, pins, (each) => each.server, (each) => pinCard(each, look), "Every server lists what was approved.");
  reconcile(parts.logins.place, logins, (each) => each.name, (each) => loginCard(each, signal, look), "No server wants a login.");
  reconcile(parts.decided.place, [past(decided.confirmations, reviewed.approvals)], () => "all", decisions);
  const many = calls.length + requests.approvals.length + pins.length + logins.length;
  const text = many ? `${many} ${many === 1 ? "thing waits" : "things wait"} for you.` : "Nothing waits for you.";
  if (said.textContent !== text) said.textContent = text;
}

function confirmations(query, signal) {
  return get("/confirmations", query, signal).catch((error) => {
    if (error.status === 404) return { confirmations: [] };
    throw error;
  });
}

async function pinsThatWait(signal) {
  const { pins } = await get("/pins", {}, signal);
  const some = pins.filter((each) => each.waiting || each.unusable);
  return Promise.all(some.map((each) => get(`/pins/${encodeURIComponent(each.server)}`, {}, signal)));
}

function loginCard({ name, error, scope }, signal, look) {
  const steps = element("div", {});
  return element("article", { class: "card" },
    element("h3", {}, untrusted(name, 60)),
    scope
      ? element("p", {}, "It turned a call away for one permission more: ", untrusted(scope, 200), ". The next login asks for it beside what there is. Other calls go on.")
      : element("p", {}, "It wants somebody to log in. Until then its calls are refused."),
    error ? element("p", { class: "dim" }, untrusted(error, 300)) : null,
    loginButton(name, steps, signal, look), steps);
}

function past(confirmations, approvals) {
  const calls = confirmations.filter((each) => each.status !== "waiting").map((each) => ({
    what: each.tool, status: each.status, lost: each.status === "approved" && each.delivered === false, notes: each.notes, record: each.activity_id,
    at: each.decided_at ?? each.expires_at, by: who(each.decided_by),
  }));
  const requests = approvals.filter((each) => each.status !== "pending").map((each) => ({
    what: `server ${each.context?.mcp_name ?? "?"}`, status: each.status, notes: each.review_notes, record: null,
    at: new Date(each.reviewed_at_ms ?? each.expires_at_ms).toISOString(), by: [each.reviewed_by, each.reviewed_from].filter(Boolean).join(", "),
  }));
  return [...calls, ...requests].sort((one, other) => Date.parse(other.at) - Date.parse(one.at)).slice(0, 50);
}

function who(decided) {
  if (!decided) return "";
  const from = { ui: "on this page", cli: "on the command line", api: "over REST" }[decided.source] ?? decided.source;
  return [decided.name ?? decided.principal, from].join(", ");
}

function decisions(rows) {
  return table(
    [
      { title: "What", cell: (each) => (each.record ? element("a", { href: address("record", { name: each.record }) }, untrusted(each.what, 120)) : untrusted(each.what, 120)) },
      { title: "Was", cell: (each) => element("span", {}, statusBadge(each.status), each.lost ? ", not taken up by its gateway" : "") },
      { title: "By", cell: (each) => (each.by ? untrusted(each.by, 120) : "nobody") },
      { title: "When", cell: (each) => ago(each.at) },
      { title: "Note", cell: (each) => (each.notes ? untrusted(each.notes, 300) : "") },
    ],
    rows,
    "Nothing was decided yet.",
  );
}

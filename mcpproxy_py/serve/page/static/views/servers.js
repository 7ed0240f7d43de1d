// The servers behind the gateway: how each is, and adding one. `#servers/NAME` is one in full.
import { element, table, untrusted } from "../elements.js";
import { get } from "../rest.js";
import { duration } from "../format.js";
import { reconcile, repeat } from "../parts/act.js";
import { addServer } from "../parts/add_server.js";
import { stateBadge } from "../parts/badge.js";
import { classCounts } from "../parts/classes.js";
import { address } from "../router.js";
import { showServer } from "./server.js";

export const title = "Servers";

const DAY = 86_400_000;

export async function show(main, query, signal) {
  if (query.get("name")) return showServer(main, query.get("name"), signal);
  if (query.has("add")) return addServer(main, query, signal);
  const place = element("div", {});
  main.append(
    element("p", { class: "row" }, ...[["catalog", "Add from the catalog"], ["command", "Add a command"], ["url", "Add an address"]].map(([way, text]) =>
      element("a", { class: "button", href: address("servers", { add: way }) }, text))),
    place,
    element("p", { class: "dim" }, "Latency is of the last 24 hours: half of the calls were faster than p50, and 95 of 100 faster than p95."),
  );
  const latency = await latencies(signal);
  const look = async () => {
    const { servers } = await get("/servers", {}, signal);
    reconcile(place, [servers.map((each) => stable(each))], () => "all", () => listed(servers, latency));
  };
  await look();
  repeat(look, 5_000, signal);
  return undefined;
}

/** Only what the table shows, so that it is made anew when that changes. */
function stable({ name, state, error, wanted_scope, tools_by_class, session_mode, pins }) {
  return { name, state, error, wanted_scope, tools_by_class, session_mode, waiting: pins?.waiting };
}

async function latencies(signal) {
  try {
    const since = new Date(Date.now() - DAY).toISOString();
    return (await get("/activity/summary", { type: "tool_call", start_time: since }, signal)).duration_ms_by_server;
  } catch {
    return {}; // a record that cannot be read hides no server
  }
}

function listed(servers, latency) {
  return table(
    [
      { title: "Server", cell: ({ name }) => element("a", { href: address("servers", { name }) }, untrusted(name, 60)) },
      { title: "State", cell: state },
      { title: "Tools", cell: ({ tools_by_class }) => classCounts(tools_by_class) },
      { title: "Sessions", cell: ({ session_mode }) => String(session_mode ?? "").replaceAll("_", " ") },
      { title: "p50", cell: ({ name }) => duration(latency[name]?.p50), class: "number" },
      { title: "p95", cell: ({ name }) => duration(latency[name]?.p95), class: "number" },
    ],
    servers,
    "There is no server yet.",
  );
}

function state(row) {
  const waiting = row.pins?.waiting ? element("div", {}, element("a", { href: address("waiting") }, `${row.pins.waiting} of its changes wait for you`)) : null;
  const wants = row.state === "needs_login" ? "Log in" : row.wanted_scope ? "Log in for one permission more" : null;
  const login = wants ? element("div", {}, element("a", { href: address("servers", { name: row.name }) }, wants)) : null;
  return element("div", {}, stateBadge(row.state), row.error ? element("div", { class: "dim" }, untrusted(row.error, 160)) : null, login, waiting);
}

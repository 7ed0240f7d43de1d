// One server: how it is and why, its tools, its log, its entry, and what can be done to it.
import { element, untrusted, untrustedText } from "../elements.js";
import { confirmed, toast } from "../dialog.js";
import { del, get, post } from "../rest.js";
import { ago, duration } from "../format.js";
import { actionButton, facts, repeat, section } from "../parts/act.js";
import { stateBadge } from "../parts/badge.js";
import { classCounts } from "../parts/classes.js";
import { effect } from "../parts/effect.js";
import { entryForm } from "../parts/entry.js";
import { logOut, loginButton } from "../parts/login.js";
import { address, go } from "../router.js";

const LOG_LINES = 100;

export async function showServer(main, name, signal) {
  const where = `/servers/${encodeURIComponent(name)}`;
  const [{ server, config }, summary] = await Promise.all([
    get(where, {}, signal),
    get("/activity/summary", { server: name, type: "tool_call" }, signal).catch(() => ({ duration_ms: {} })),
  ]);
  const again = async () => {
    if (signal.aborted) return;
    removed.abort(); // the view that this one replaces must not go on polling
    main.replaceChildren();
    await showServer(main, name, signal);
  };
  const removed = new AbortController();
  const watched = AbortSignal.any([signal, removed.signal]);
  const steps = element("div", {});
  const state = element("div", { role: "status" });
  const showState = (row) => state.replaceChildren(stateBadge(row.state), " ", row.error ? untrusted(row.error, 400) : "");
  showState(server);
  main.append(
    element("p", {}, element("a", { href: address("servers") }, "All servers")),
    element("h2", {}, untrusted(name, 60)),
    state,
    buttons(server, config, steps, signal, again),
    steps,
    described(server, summary),
    await logSection(where, watched),
  );
  if (config) main.append(entrySection(name, config, again));
  if (config) main.append(removal(name, removed));
  repeat(async () => {
    const fresh = (await get(where, {}, watched)).server;
    if (fresh.state === server.state && fresh.error === server.error) return;
    Object.assign(server, fresh);
    showState(fresh);
  }, 3_000, watched);
}

function described(server, summary) {
  const info = server.server_info;
  return facts(
    ["Tools", element("span", {}, classCounts(server.tools_by_class), " ", element("a", { href: address("tools", { server: server.name }) }, "all of them"))],
    ["Without hints", server.unannotated_tools?.length ? `${server.unannotated_tools.length}, which count as ${server.unannotated_as === "allow" ? "any class" : server.unannotated_as}` : null],
    ["One permission more", server.wanted_scope ? ["It turned a call away for ", untrusted(server.wanted_scope, 200), ", which the next login asks for."] : null],
    ["Left out", leftOut(server.left_out)],
    ["Waits for you", server.pins?.waiting ? element("a", { href: address("waiting") }, `${server.pins.waiting} of what it lists`) : null],
    ["It says it is", info ? untrusted([info.title ?? info.name, info.version].filter(Boolean).join(" "), 200) : null],
    ["Since", server.since ? ago(server.since * 1000) : null],
    ["Reached by", [server.transport, server.protocol_version].filter(Boolean).join(", MCP ")],
    ["Sessions", [String(server.session_mode ?? "").replaceAll("_", " "), server.session_mode_reason].filter(Boolean).join(": ")],
    ["Under way", server.in_flight ? `${server.in_flight} calls` : null],
    ["Restarts", server.restarts ? String(server.restarts) : null],
    ["Latency", summary.duration_ms?.p50 == null ? null : `p50 ${duration(summary.duration_ms.p50)}, p95 ${duration(summary.duration_ms.p95)}`],
    ["Its calls", element("a", { href: address("record", { server: server.name }) }, "on record")],
  );
}

function leftOut(tools) {
  const told = Object.entries(tools ?? {});
  return told.length ? element("ul", {}, told.slice(0, 20).map(([tool, why]) => element("li", {}, untrusted(`${tool}: ${why}`, 300)))) : null;
}

function buttons(server, config, steps, signal, again) {
  const { name } = server;
  const made = [actionButton("Restart", () => acted(name, "restart", again))];
  if (config) made.push(server.enabled
    ? actionButton("Disable", () => acted(name, "disable", again))
    : actionButton("Enable", () => acted(name, "enable", again), { class: "main" }));
  if (server.state === "needs_login" || server.wanted_scope) made.unshift(loginButton(name, steps, signal, again));
  if (server.state !== "needs_login" && config?.url) made.push(actionButton("Log out", async () => (await logOut(name)) && again(), { class: "quiet" }));
  return element("p", { class: "row" }, made);
}

const DONE = { restart: "is being restarted", disable: "is disabled", enable: "is enabled" };

async function acted(name, action, again) {
  const found = await post("/preview/server", { action, name });
  const word = action[0].toUpperCase() + action.slice(1);
  const said = await confirmed({ title: `${word} ${untrustedText(name, 60)}?`, says: effect(found), action: word, danger: action === "disable" });
  if (!said) return;
  await post(`/servers/${encodeURIComponent(name)}/${action}`);
  toast(`${name} ${DONE[action]}`);
  await again();
}

async function logSection(where, signal) {
  const pre = element("pre", { tabindex: "0", role: "log", "aria-live": "off", "aria-label": "The end of its log" });
  const look = async () => {
    const { lines } = await get(`${where}/logs`, { lines: LOG_LINES }, signal);
    const text = lines.join("\n");
    if (pre.said === text) return;
    const atEnd = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
    pre.said = text;
    pre.replaceChildren(text ? untrusted(text, 50_000) : "It has written nothing.");
    if (atEnd) pre.scrollTop = pre.scrollHeight;
  };
  const made = section("The end of its log", pre);
  await look();
  repeat(look, 3_000, signal);
  return made;
}

function entrySection(name, config, again) {
  const form = entryForm(name, config, { action: "replace", word: "Save…", done: again });
  return element("details", { class: "card" }, element("summary", {}, element("h2", {}, "Its entry")),
    element("p", { class: "dim" }, "As under ", element("code", {}, "mcpServers"), " in the configuration. ", element("code", {}, "***"), " stands for a secret that stays as it is."), form);
}

/** Whoever looks at it again and again stops before it goes. */
function removal(name, removed) {
  const remove = actionButton("Remove this server…", async () => {
    const found = await post("/preview/server", { action: "remove", name });
    const said = await confirmed({ title: `Remove ${untrustedText(name, 60)}?`, says: effect(found), action: "Remove", danger: true });
    if (!said) return;
    removed.abort();
    await del(`/servers/${encodeURIComponent(name)}`);
    toast(`${name} is removed`);
    go("servers");
  }, { class: "danger" });
  return element("p", {}, remove);
}

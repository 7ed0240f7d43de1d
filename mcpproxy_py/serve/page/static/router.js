// Which view is shown, by the fragment of the address: `#record?status=blocked`, `#servers/NAME`.
import { element, problem } from "./elements.js";
import { RestError, given } from "./rest.js";

const VIEWS = {
  now: "Now",
  record: "Record",
  waiting: "Waiting",
  servers: "Servers",
  tools: "Tools",
  gaps: "Gaps",
  agents: "Agents",
  settings: "Settings",
  health: "Health",
};
const FIRST = "now";

let leaving = new AbortController();
let current = null;
let running = false;

/** The address of a view, for an `href`. A `name` in the query becomes a part of the path. */
export function address(view, query = {}) {
  const asked = new URLSearchParams();
  let name = "";
  for (const [key, value] of given(query)) {
    if (key === "name") name = `/${encodeURIComponent(value)}`;
    else asked.append(key, value);
  }
  const said = asked.toString();
  return `#${view}${name}${said ? `?${said}` : ""}`;
}

/** To another view, or to the same with another query: it is shown anew. */
export function go(view, query = {}) {
  const to = address(view, query);
  if (to === location.hash) show();
  else location.hash = to;
}

/** Changes the address of what is shown, so that it can be linked to, and shows nothing anew. */
export function remember(view, query = {}) {
  history.replaceState(null, "", address(view, query));
}

function asked() {
  const found = /^#([a-z]*)(?:\/([^?]*))?(?:\?(.*))?$/s.exec(location.hash) ?? [];
  const query = new URLSearchParams(found[3] ?? "");
  if (found[2]) query.set("name", decoded(found[2]));
  return [Object.hasOwn(VIEWS, found[1] ?? "") ? found[1] : FIRST, query];
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Each showing gets an element of its own, so one that comes late writes into nothing. A view gives `title` and
 * `show(main, query, signal)`, which is through when there is something to see: it does not wait for `follow`. The
 * heading is made here, and what `show` throws is shown.
 */
async function show() {
  const [view, query] = asked();
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const heading = element("h1", { tabindex: "-1" }, VIEWS[view]);
  const place = element("div", { class: `view ${view}`, "aria-busy": "true" });
  document.getElementById("main").replaceChildren(heading, place);
  mark(view);
  const moved = current !== null && current !== view;
  current = view;
  if (moved) {
    scrollTo(0, 0);
    heading.focus();
  }
  try {
    await shownIn(place, heading, view, query, signal);
  } catch (error) {
    if (signal.aborted || (error instanceof RestError && error.status === 401)) return;
    place.append(problem(error));
    if (!(error instanceof RestError)) console.error(error);
  } finally {
    place.removeAttribute("aria-busy");
  }
}

async function shownIn(place, heading, view, query, signal) {
  let module;
  try {
    module = await import(`./views/${view}.js`);
  } catch (error) {
    if (error instanceof SyntaxError) throw error;
    place.append(element("p", { class: "empty" }, "This view is not there yet."));
    return;
  }
  if (signal.aborted) return;
  heading.textContent = module.title;
  document.title = `${module.title} · mcpproxy`;
  await module.show(place, query, signal);
}

function mark(view) {
  for (const link of document.querySelectorAll("#views a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${VIEWS[view]} · mcpproxy`;
}

export function start() {
  document.getElementById("logout").hidden = false;
  const entries = Object.entries(VIEWS).map(([view, title]) =>
    element("li", {}, element("a", { href: `#${view}`, "data-view": view }, title)),
  );
  document.getElementById("views").replaceChildren(...entries);
  if (!running) addEventListener("hashchange", shownAgain);
  running = true;
  show();
}

function shownAgain() {
  if (running && !location.hash.startsWith("#open=")) show();
}

/** Nothing of the gateway stays on the screen when a session ends. */
export function showEnded(why = "") {
  running = false;
  removeEventListener("hashchange", shownAgain);
  leaving.abort();
  current = null;
  document.getElementById("logout").hidden = true;
  document.getElementById("views").replaceChildren();
  for (const open of document.querySelectorAll("dialog")) open.remove();
  document.title = "mcpproxy";
  document.getElementById("main").replaceChildren(
    element("h1", {}, "mcpproxy"),
    element("div", { role: "alert" }, element("p", {}, why || "Nobody is logged in here."),
      element("p", {}, "On the machine where the gateway runs: run ", element("code", {}, "mcpproxy ui"), ".")),
    element("p", {}, "This is a gateway for agents that speak MCP. Their address is ",
      element("code", {}, `${location.origin}/mcp`), "; ", element("code", {}, "mcpproxy connect"), " connects a client."),
  );
}

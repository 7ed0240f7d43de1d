// Every tool, and what an agent gets when it searches. One tool in full, and its class with what a change would do.
import { element, problem, table, untrusted, untrustedText } from "../elements.js";
import { get } from "../rest.js";
import { labelled, select } from "../parts/act.js";
import { classBadge } from "../parts/badge.js";
import { toolCard } from "../parts/tool.js";
import { address, go } from "../router.js";

export const title = "Tools";

const ORIGINS = {
  override: "your override",
  server: "its server",
  unannotated: "nobody: it has no hints",
  untrusted: "nobody: its hints are not trusted",
  undecided: "cannot be told",
};
const REASONS = { excluded_by_operator: "left out by your lists" };

export function who(tool) {
  return ORIGINS[tool.class_origin] ?? tool.class_origin;
}

export function why(tool) {
  return REASONS[tool.unavailable_reason] ?? String(tool.unavailable_reason ?? "").replaceAll("_", " ");
}

export async function show(main, query, signal) {
  if (query.get("name")) return toolCard(main, query.get("name"), signal, { who, why });
  const { servers } = await get("/servers", {}, signal);
  main.append(searchForm(servers, query));
  if (query.get("q")) await searched(main, query, signal);
  else await listed(main, query, signal);
  return undefined;
}

function searchForm(servers, query) {
  const words = element("input", { type: "search", value: query.get("q") ?? "", placeholder: "what an agent would ask for", size: 30 });
  const names = [{ value: "", text: "all servers" }, ...servers.map((each) => ({ value: each.name, text: untrustedText(each.name, 60) }))];
  const server = select(names, query.get("server") ?? "");
  const form = element("form", { class: "filters", role: "search" }, labelled("Search", words), labelled("Server", server),
    element("button", { type: "submit", class: "main" }, "Search"), query.get("q") ? element("a", { href: address("tools", { server: server.value }) }, "All tools") : null);
  const asked = () => go("tools", { q: words.value.trim(), server: server.value });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    asked();
  });
  server.addEventListener("change", asked);
  return form;
}

async function listed(main, query, signal) {
  const place = element("div", {});
  const more = element("button", { type: "button" }, "More tools");
  main.append(place, more);
  const rows = [];
  let cursor;
  const next = async () => {
    const page = await get("/tools", { server: query.get("server"), limit: 100, cursor }, signal);
    cursor = page.next_cursor;
    rows.push(...page.tools);
    more.hidden = !cursor;
    place.replaceChildren(table(columns(), rows, "There is no tool here."));
  };
  more.addEventListener("click", () => next().catch((error) => place.append(problem(error))));
  await next();
}

function columns() {
  return [
    { title: "Tool", cell: (tool) => element("a", { href: address("tools", { name: tool.name }) }, untrusted(tool.name, 120)) },
    { title: "Class", cell: (tool) => classBadge(tool.class) },
    { title: "Says who", cell: who },
    { title: "Description", cell: (tool) => untrusted(tool.description, 160) },
    { title: "Can be called", cell: (tool) => (tool.callable ? "yes" : why(tool)) },
  ];
}

/** The same search that agents have. It is on record as one of the admin's. */
async function searched(main, query, signal) {
  const [found, { tools }] = await Promise.all([
    get("/tools/search", { query: query.get("q"), server: query.get("server"), limit: 20 }, signal),
    get("/tools", { server: query.get("server"), limit: 500 }, signal),
  ]);
  const known = new Map(tools.map((each) => [each.name, each]));
  const words = query.get("q").toLowerCase().split(/\s+/);
  const missed = tools.filter((each) => !found.tools.some(({ name }) => name === each.name) && words.some((word) => word.length > 2 && each.name.toLowerCase().includes(word)));
  const seen = element("section", {}, element("h2", {}, "What an agent finds"),
    table([
      { title: "Tool", cell: (tool) => element("a", { href: address("tools", { name: tool.name }) }, untrusted(tool.name, 120)) },
      { title: "Score", cell: (tool) => tool.score?.toFixed(2) ?? "–", class: "number" },
      { title: "Class", cell: (tool) => classBadge(known.get(tool.name)?.class ?? "unknown") },
      { title: "Call with", cell: (tool) => element("code", {}, String(tool.call_with).replace("call_tool_", "")) },
    ], found.tools, "An agent finds nothing for this."),
    unavailable(found.unavailable),
    element("p", {}, element("a", { href: address("record", { name: found.id }) }, "This search is on record")));
  const given = element("section", {}, element("h2", {}, "What ", element("code", {}, "retrieve_tools"), " gives it"),
    element("pre", { tabindex: "0", role: "region", "aria-label": "The answer of retrieve_tools" }, untrusted(JSON.stringify({ tools: found.tools, usage_instructions: found.usage_instructions, total: found.total, unavailable: found.unavailable }, null, 2), 8000)));
  main.append(element("div", { class: "beside" }, seen, given));
  if (missed.length) {
    main.append(element("details", {}, element("summary", {}, `${missed.length} more have one of these words in their names`), table(columns(), missed)));
  }
}

function unavailable(counts) {
  const told = Object.entries(counts ?? {});
  if (!told.length) return null;
  return element("p", { class: "dim" }, "Left out, because they cannot be called now: ", untrusted(told.map(([reason, times]) => `${times} ${reason.replaceAll("_", " ")}`).join(", "), 300), ".");
}

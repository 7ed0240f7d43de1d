// Adding a server: from the catalog, by a command, or by an address.
import { element, problem, untrusted, untrustedText } from "../elements.js";
import { get, post } from "../rest.js";
import { acting, labelled } from "./act.js";
import { put } from "./entry.js";
import { address, go } from "../router.js";

const WAYS = { catalog: "From the catalog", command: "A command", url: "An address" };

export async function addServer(main, query, signal) {
  const way = Object.hasOwn(WAYS, query.get("add")) ? query.get("add") : "catalog";
  main.append(
    element("p", {}, element("a", { href: address("servers") }, "All servers")),
    element("h2", {}, "Add a server"),
    element("p", { class: "row", role: "group", "aria-label": "How" }, Object.entries(WAYS).map(([each, text]) =>
      element("a", { class: "button", href: address("servers", { add: each }), "aria-current": each === way ? "true" : null }, text))),
  );
  if (way === "catalog" && query.get("slug")) main.append(await fromCatalog(query.get("slug"), signal));
  else if (way === "catalog") await chosen(main, query, signal);
  else main.append(way === "command" ? byCommand() : byAddress());
}

async function chosen(main, query, signal) {
  const words = element("input", { type: "search", value: query.get("query") ?? "", placeholder: "what it is for, or its name" });
  const form = element("form", { class: "filters", role: "search" }, labelled("Search", words), element("button", { type: "submit", class: "main" }, "Search"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go("servers", { add: "catalog", query: words.value.trim() });
  });
  const said = element("p", { class: "dim", role: "status" });
  const notes = element("div", {});
  const grid = element("div", { class: "grid" });
  const show = ({ servers, total, registries }) => {
    said.replaceChildren(total ? `${total} ${total === 1 ? "server" : "servers"}` : "There is no such server. Add it by its command or its address.");
    notes.replaceChildren(...registries.flatMap(heard));
    grid.replaceChildren(...servers.map(card));
  };
  show(await get("/catalog", { query: query.get("query"), limit: 60 }, signal));
  main.append(form, said, notes, grid);
  if (!query.get("query")?.trim() || !notes.childElementCount) return;
  const ask = element("button", { type: "button" }, "Ask the registries now");
  ask.addEventListener("click", () => acting(ask, async () => {
    try {
      show(await post("/catalog", { query: query.get("query").trim(), limit: 60 }));
    } catch (error) {
      notes.replaceChildren(problem(error));
    }
  }));
  said.after(ask);
}

function card(each) {
  return element("article", { class: "card" },
    element("h3", {}, each.refused ? untrusted(each.title, 80) : element("a", { href: address("servers", { add: "catalog", slug: each.slug }) }, untrusted(each.title, 80))),
    each.source === "shipped" ? null : element("p", { class: "mono dim" }, untrusted(each.source === "own" ? "of your own catalog" : `${each.slug}, of ${each.source.slice("registry:".length)}`, 300)),
    element("p", {}, untrusted(each.description, 200)),
    each.warnings.map((warning) => element("p", { class: "notice" }, untrusted(warning, 400))),
    element("p", { class: "dim" }, each.refused ? untrusted(`Cannot be added: ${each.refused}`, 300) : each.needs.length ? untrusted(`Needs ${each.needs.join(", ")}`, 200) : "Needs nothing"));
}

/** What one registry came to: how old it is, and why it was of no use. */
function heard({ registry, found, away, read_at }) {
  const age = read_at === null ? "" : `, as read ${new Date(read_at * 1000).toLocaleString()}`;
  return [element("p", { class: away ? "notice" : "dim" }, untrusted(away ? `${registry} was not of use: ${away}${age}` : `${registry}: ${found}${age}`, 400))];
}

async function fromCatalog(slug, signal) {
  const found = await get(`/catalog/${slug.split("/").map(encodeURIComponent).join("/")}`, {}, signal);
  if (!found.config) {
    return problem({ message: `The catalog knows no package or address of it that can be used${found.refused ? `: ${found.refused}` : ""}`, remedy: found.website ? `See ${found.website}, and add its command` : "Add it by its command or its address" });
  }
  const name = nameField(found.slug.split("/").pop().toLowerCase().replace(/[^a-z0-9]+/g, "-").slice(0, 32));
  const fields = found.questions.map((each) => [each, questionField(each)]);
  const form = addForm([
    element("h3", {}, untrusted(found.title, 100)),
    element("p", {}, untrusted(found.description, 400)),
    found.source === "shipped" ? null : element("p", { class: "mono dim" }, untrusted(`${found.slug} ${found.version ?? ""}, of ${found.source}: nobody vouches for it`, 400)),
    element("p", { class: "mono" }, untrusted(found.config.url ?? [found.config.command, ...(found.config.args ?? [])].join(" "), 2000)),
    found.notes.map((each) => element("p", { class: "notice" }, untrusted(each, 400))),
    labelled("Name here", name),
    fields.map(([each, field]) => labelled(untrustedText(each.name, 100) + (each.required ? "" : " (optional)"), field, hint(each))),
  ], () => [name.value.trim(), answered(found.config, fields)]);
  return form;
}

function questionField(question) {
  if (question.choices.length) {
    const options = question.required ? question.choices : ["", ...question.choices];
    return element("select", { required: question.required }, options.map((each) =>
      element("option", { value: each, selected: each === (question.default ?? "") ? true : null }, untrustedText(each, 100) || "none")));
  }
  const name = question.kind === "env" && !question.fills.length ? question.name : question.name.toUpperCase().replace(/[^A-Z0-9]+/g, "_");
  const whole = question.kind === "header" && !question.fills.length && question.name.toLowerCase() === "authorization";
  const value = !question.secret ? question.default ?? "" : whole ? "Bearer ${env:TOKEN}" : `\${env:${name}}`;
  return element("input", { required: question.required, value, autocomplete: "off", spellcheck: "false" });
}

function hint(question) {
  const secret = question.secret ? "A secret: better a reference such as ${env:NAME} or ${file:PATH}, which the gateway reads." : "";
  return [untrustedText(question.about, 200), secret].filter(Boolean).join(" ") || null;
}

/** The entry with the answers in their places. What has none is left out, with the option before it. */
function answered(config, fields) {
  const made = structuredClone(config);
  const known = new Map(fields.map(([{ name }, field]) => [name, field.value.trim()]));
  const filled = (text) => text.replace(/\{([A-Za-z0-9_.-]{1,64})\}/g, (whole, name) => (fields.some(([each]) => each.name === name && each.fills.length) ? known.get(name) : whole));
  const places = new Map();
  for (const [{ name, fills }] of fields) {
    for (const place of fills) {
      const id = JSON.stringify(place);
      places.set(id, { ...place, empty: (places.get(id)?.empty ?? false) || !known.get(name) });
    }
  }
  const dropped = new Set();
  for (const { key, at, drops, empty } of places.values()) {
    if (key === "url") made.url = filled(made.url);
    else if (!empty) made[key][at] = filled(made[key][at]);
    else if (key === "args") for (let index = at - drops + 1; index <= at; index += 1) dropped.add(index);
    else delete made[key][at];
  }
  if (dropped.size) made.args = made.args.filter((_, index) => !dropped.has(index));
  for (const [{ kind, name, fills }] of fields) {
    const value = known.get(name);
    if (fills.length || !value) continue;
    if (kind === "arg") made.args = [...(made.args ?? []), value];
    else if (kind === "env") made.env = { ...made.env, [name]: value };
    else made.headers = { ...made.headers, [name]: value };
  }
  return made;
}

function byCommand() {
  const name = nameField("");
  const line = element("input", { required: true, placeholder: "uvx mcp-server-time", autocomplete: "off", spellcheck: "false", class: "mono" });
  const env = element("textarea", { rows: 3, placeholder: "TOKEN=${env:TOKEN}", class: "mono", spellcheck: "false" });
  const lazy = element("input", { type: "checkbox" });
  return addForm([
    labelled("Name here", name),
    labelled("Command", line, "As in a terminal, but no shell reads it: quotes keep words together, and nothing else is special."),
    labelled("Variables for it", env, "One NAME=value a line. Without them it gets only harmless ones, such as PATH."),
    element("label", { class: "check" }, lazy, element("span", {}, "Start it on first use")),
  ], () => {
    const [command, ...args] = words(line.value);
    const config = { command, args };
    const variables = pairs(env.value, "=");
    if (Object.keys(variables).length) config.env = variables;
    if (lazy.checked) config.lazy = true;
    return [name.value.trim(), config];
  });
}

function byAddress() {
  const name = nameField("");
  const url = element("input", { type: "url", required: true, placeholder: "https://example.com/mcp", autocomplete: "off", spellcheck: "false" });
  const headers = element("textarea", { rows: 3, placeholder: "Authorization: Bearer ${env:TOKEN}", class: "mono", spellcheck: "false" });
  return addForm([
    labelled("Name here", name),
    labelled("Address", url),
    labelled("Headers for it", headers, "One Name: value a line. If it has a login of its own, none is needed: you are asked to log in."),
  ], () => {
    const said = pairs(headers.value, ":");
    return [name.value.trim(), Object.keys(said).length ? { url: url.value.trim(), headers: said } : { url: url.value.trim() }];
  });
}

function nameField(value) {
  return element("input", { required: true, maxlength: 32, value, autocomplete: "off", spellcheck: "false", placeholder: "a-z 0-9 _ -" });
}

function addForm(children, read) {
  const said = element("div", {});
  const add = element("button", { type: "submit", class: "main" }, "See what it changes…");
  const form = element("form", { class: "card" }, children, said, element("div", { class: "buttons" }, add));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    said.replaceChildren();
    acting(add, async () => {
      try {
        const [name, config] = read();
        if (await put(name, config, "add")) go("servers", { name });
      } catch (error) {
        said.replaceChildren(problem(error));
      }
    });
  });
  return form;
}

/** A line as a person types it, in words; quotes keep a word together. */
function words(line) {
  const found = line.match(/(?:[^\s"']|"(?:[^"\\]|\\.)*"|'[^']*')+/g) ?? [];
  return found.map((word) => word.replace(/"((?:[^"\\]|\\.)*)"|'([^']*)'/g, (_, double, single) => double?.replace(/\\(.)/g, "$1") ?? single));
}

function pairs(text, sign) {
  const found = {};
  for (const line of text.split("\n").map((each) => each.trim()).filter(Boolean)) {
    const at = line.indexOf(sign);
    if (at < 1) throw new Error(`Write each line as NAME${sign === ":" ? ": " : sign}value; line ${Object.keys(found).length + 1} is not`);
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}

// One tool in full: what its server says of it, what the gate makes of that, and another class with its consequences.
import { element, problem, untrusted, untrustedText } from "../elements.js";
import { confirmed, toast } from "../dialog.js";
import { get, post } from "../rest.js";
import { acting, facts, section } from "./act.js";
import { classBadge } from "./badge.js";
import { effect } from "./effect.js";
import { address } from "../router.js";

const CHOICES = [
  ["read", "Read", "It changes nothing. Every door lets it through."],
  ["write", "Write", "It changes something that can be mended. The read door refuses it."],
  ["destructive", "Destructive", "It can destroy. Only the destructive door lets it through."],
  [null, "As its server says", "Your override goes, and its hints count again."],
];
const HINTS = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

export async function toolCard(main, name, signal, { who, why }) {
  const tool = await get(`/tools/${encodeURIComponent(name).replaceAll("%2F", "/")}`, {}, signal);
  const again = async () => {
    main.replaceChildren();
    await toolCard(main, name, signal, { who, why });
  };
  const hints = HINTS.filter((each) => each in tool.annotations).map((each) => `${each}: ${tool.annotations[each]}`);
  main.append(
    element("p", {}, element("a", { href: address("tools") }, "All tools")),
    element("h2", {}, untrusted(tool.name, 200)),
    element("p", {}, untrusted(tool.description, 2000)),
    facts(
      ["Class", element("span", {}, classBadge(tool.class), " says ", who(tool))],
      ["Agents call it with", element("code", {}, tool.call_with)],
      ["Hints of its server", hints.length ? untrusted(hints.join(", "), 300) : "none"],
      ["Can be called", tool.callable ? "yes" : why(tool)],
      ["Server", element("a", { href: address("servers", { name: tool.server }) }, untrusted(tool.server, 60))],
      ["Its calls", element("a", { href: address("record", { server: tool.server, tool: own(tool) }) }, "on record")],
    ),
    classForm(tool, again),
    section("What it takes", element("pre", { tabindex: "0", role: "region", "aria-label": "Its input schema" }, untrusted(JSON.stringify(tool.inputSchema, null, 2), 8000))),
  );
}

function own(tool) {
  return tool.name.slice(tool.server.length + 1);
}

function classForm(tool, again) {
  const now = tool.class_origin === "override" ? tool.class : null;
  const said = element("div", { role: "status", "aria-live": "polite" });
  const set = element("button", { type: "submit", class: "main" }, "Set the class…");
  const radios = CHOICES.map(([value, word, about]) => {
    const radio = element("input", { type: "radio", name: "class", value: value ?? "" });
    radio.checked = value === now;
    radio.addEventListener("change", () => preview(value));
    return element("label", { class: "check" }, radio, element("span", {}, word), element("small", { class: "dim" }, about));
  });
  let latest = null;
  const preview = async (value) => {
    const asked = (latest = {});
    try {
      const found = await previewed(tool, value);
      if (latest === asked) said.replaceChildren(effect({ says: [found.says], ...lowered(found) }), examples(found));
    } catch (error) {
      if (latest === asked) said.replaceChildren(problem(error));
    }
  };
  const form = element("form", { class: "card" }, element("fieldset", {}, element("legend", {}, element("h2", {}, "Change its class")), radios), said, element("div", { class: "buttons" }, set));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    acting(set, () => change(tool, form, again));
  });
  return form;
}

async function previewed(tool, value) {
  return (await post("/preview/tools", { server: tool.server, tools: { [own(tool)]: value } })).tools[0];
}

function lowered(found) {
  return found.lowers ? { looser: ["this class is lower than now, so more is let through"] } : {};
}

function examples(found) {
  if (!found.calls?.examples.length) return null;
  const links = found.calls.examples.map((each, at) => [at ? ", " : "", element("a", { href: address("record", { name: each.id }) }, each.would === "asked" ? "one that would ask" : each.would === "refused" ? "one that would be refused" : "one that would go through")]);
  return element("p", {}, "For example: ", links, ".");
}

async function change(tool, form, again) {
  const picked = form.querySelector("input[name=class]:checked");
  if (!picked) return toast("Choose a class first", "error");
  const value = picked.value || null;
  const found = await previewed(tool, value);
  const said = await confirmed({
    title: `Set the class of ${untrustedText(tool.name, 100)}?`,
    says: element("div", {}, effect({ says: [found.says], ...lowered(found) }), examples(found)),
    action: value ? `Set it to ${value}` : "Take the override out",
    danger: found.lowers,
  });
  if (!said) return undefined;
  await post(`/servers/${encodeURIComponent(tool.server)}/tools`, { tools: { [own(tool)]: value } });
  toast(`${tool.name} is ${value ?? "as its server says"}`);
  return again();
}

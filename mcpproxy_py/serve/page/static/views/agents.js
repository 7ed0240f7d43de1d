// Agents: the tokens that let them in, and the profiles that narrow what they find.
import { element, table, untrusted, untrustedText } from "../elements.js";
import { confirmed, toast } from "../dialog.js";
import { get, post } from "../rest.js";
import { ago } from "../format.js";
import { acting, actionButton, facts, labelled, section, select } from "../parts/act.js";
import { classCounts } from "../parts/classes.js";
import { secretShown } from "../parts/secret.js";
import { address } from "../router.js";

export const title = "Agents";

const SIGNS = { active: ["✓", "good"], expired: ["–", "care"], revoked: ["⊘", "bad"], "not believed": ["!", "bad"] };

export async function show(main, query, signal) {
  const [{ tokens }, { profiles }, { servers }] = await Promise.all([
    get("/tokens", {}, signal), get("/profiles", {}, signal), get("/servers", {}, signal),
  ]);
  const again = async () => {
    main.replaceChildren();
    await show(main, query, signal);
  };
  main.append(
    element("p", { class: "dim" }, "A token lets one agent in, and says what it may find and do. Its principal is its name in the record."),
    section("Tokens", tokenTable(tokens, again)),
    creation(profiles, servers, again),
    section("Profiles", profiles.length
      ? element("div", { class: "grid" }, profiles.map(profileCard))
      : element("p", { class: "empty" }, "No profile is configured. A profile narrows what an agent finds, for one project say; see docs/howto/one-profile-per-project.md.")),
  );
}

function stateOf(token) {
  const [sign, tone] = SIGNS[token.state] ?? ["?", "plain"];
  return element("span", { class: `badge ${tone}` }, element("span", { "aria-hidden": "true" }, sign), ` ${token.state}`);
}

function tokenTable(tokens, again) {
  return table(
    [
      { title: "Name", cell: (each) => [untrusted(each.name, 80), each.note ? element("div", { class: "dim" }, untrusted(each.note, 200)) : null] },
      { title: "State", cell: stateOf },
      { title: "May", cell: scope },
      { title: "Expires", cell: (each) => (each.expires_at ? ago(each.expires_at) : "never") },
      { title: "Last used", cell: (each) => (each.last_used_at ? element("a", { href: address("record", { principal: each.principal }) }, ago(each.last_used_at)) : "never") },
      { title: "", cell: (each) => tokenButtons(each, again), class: "actions" },
    ],
    tokens,
    "No agent has a token. On this machine agents come in without one, unless `require_mcp_auth` is on.".replaceAll("`", ""),
  );
}

function scope(token) {
  const parts = [
    token.operations?.length ? token.operations.join(", ") : null,
    token.servers?.length ? `servers ${token.servers.join(", ")}` : "all servers",
    token.tools?.length ? `tools ${token.tools.join(", ")}` : null,
    token.profile ? `profile ${token.profile}` : null,
    token.rate ? `at most ${token.rate}` : null,
  ];
  return untrusted(parts.filter(Boolean).join("; "), 300);
}

function tokenButtons(token, again) {
  if (token.state !== "active") return null;
  const where = `/tokens/${encodeURIComponent(token.name)}`;
  const rotate = actionButton("Rotate", async () => {
    const said = await confirmed({
      title: `A new secret for ${untrustedText(token.name, 80)}?`,
      says: "Its name, scope and sessions stay. The old secret is good for one more hour, so that you can put the new one where the agent reads it.",
      action: "Rotate",
    });
    if (!said) return;
    await secretShown(await post(`${where}/rotate`, { grace: "1h" }));
    await again();
  }, { "aria-label": `Rotate ${untrustedText(token.name, 80)}` });
  const revoke = actionButton("Revoke", async () => {
    const said = await confirmed({
      title: `Revoke ${untrustedText(token.name, 80)}?`,
      says: "Whoever has it is shut out at once, and all that goes on with it ends. This cannot be undone.",
      action: "Revoke",
      danger: true,
    });
    if (!said) return;
    await post(`${where}/revoke`);
    toast(`${token.name} is revoked`);
    await again();
  }, { class: "danger", "aria-label": `Revoke ${untrustedText(token.name, 80)}` });
  return element("div", { class: "row tight" }, rotate, revoke);
}

function creation(profiles, servers, again) {
  const name = element("input", { required: true, maxlength: 64, autocomplete: "off", spellcheck: "false" });
  const upTo = select([{ value: "read", text: "read only" }, { value: "write", text: "read and write" }, { value: "destructive", text: "everything" }], "write");
  const chosen = element("select", { multiple: true, size: Math.min(6, Math.max(2, servers.length)) }, servers.map((each) => element("option", { value: each.name }, untrustedText(each.name, 60))));
  const tools = element("input", { placeholder: "all; or globs such as github:get_*", autocomplete: "off", spellcheck: "false" });
  const profile = select([{ value: "", text: "none" }, ...profiles.map((each) => ({ value: each.name, text: each.name }))], "");
  const expires = element("input", { value: "30d", placeholder: "never", autocomplete: "off" });
  const rate = element("input", { placeholder: "no limit; or 60/m", autocomplete: "off" });
  const note = element("input", { maxlength: 200, autocomplete: "off" });
  const create = element("button", { type: "submit", class: "main" }, "Create the token");
  const form = element("form", {}, element("div", { class: "settings-grid" },
    labelled("Name", name, "Which agent it is, such as claude-laptop."),
    labelled("It may", upTo),
    labelled("Servers", chosen, "None chosen: all."),
    labelled("Tools", tools),
    labelled("Profile", profile),
    labelled("Expires", expires, "A span such as 30d or 12h, or a date. Empty: never."),
    labelled("Rate", rate),
    labelled("Note", note),
  ), element("div", { class: "buttons" }, create));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    acting(create, async () => {
      const operations = ["read", "write", "destructive"];
      const body = { name: name.value.trim(), operations: operations.slice(0, operations.indexOf(upTo.value) + 1) };
      const some = [...chosen.selectedOptions].map((each) => each.value);
      if (some.length) body.servers = some;
      if (tools.value.trim()) body.tools = tools.value.trim().split(/[\s,]+/);
      if (profile.value) body.profile = profile.value;
      for (const [key, field] of [["expires", expires], ["rate", rate], ["note", note]]) if (field.value.trim()) body[key] = field.value.trim();
      await secretShown(await post("/tokens", body));
      await again();
    });
  });
  return element("details", { class: "card" }, element("summary", {}, element("h2", {}, "Create a token")), form);
}

function profileCard(profile) {
  return element("article", { class: "card" },
    element("h3", {}, untrusted(profile.name, 80)),
    profile.description ? element("p", {}, untrusted(profile.description, 300)) : null,
    facts(
      ["Servers", untrusted(profile.servers.join(", ") || "none", 300)],
      ["Tools", profile.tools ? untrusted(profile.tools.join(", "), 300) : null],
      ["May", profile.operations.join(", ")],
      ["Has", classCounts(profile.tools_by_class)],
      ["Tightens", profile.tightens.length ? untrusted(profile.tightens.join("; "), 300) : null],
      ["Without effect", profile.without_effect.length ? untrusted(profile.without_effect.join("; "), 300) : null],
    ),
    element("p", { class: "dim" }, "Agents reach it at ", element("code", {}, untrusted(`/mcp/p/${profile.name}`, 100)), "."),
  );
}

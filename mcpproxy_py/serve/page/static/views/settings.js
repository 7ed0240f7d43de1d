// What may be changed while the gateway runs, and the freeze. Everything else is shown with the reason why not.
import { element, untrusted } from "../elements.js";
import { confirmed, toast } from "../dialog.js";
import { get, post } from "../rest.js";
import { acting, actionButton, labelled, section, select } from "../parts/act.js";
import { effect } from "../parts/effect.js";

export const title = "Settings";

const GROUPS = [
  ["What agents may do", "intent_declaration.", "surfaces", "confirm", "notify_desktop", "capture_missing_capabilities", "request_capability_description"],
  ["The record", "activity."],
  ["Log", "log."],
  ["Bounds", "limits.", "shutdown_timeout"],
];
const PLAIN = {
  "intent_declaration.strict_server_validation": "Refuse calls that contradict what the server says (strict)",
  "intent_declaration.unannotated": "Tools without hints count as",
  "intent_declaration.missing": "A call without an intent is",
  "intent_declaration.host_confirm": "Hosts are told to ask before calls that are",
  "intent_declaration.schema": "How the intent is advertised",
  "surfaces": "Surfaces that agents reach",
  "capture_missing_capabilities": "Agents may say what they miss",
  "request_capability_description": "What they are told of that",
  "notify_desktop": "Notify on this desktop when a call waits",
  "activity.on_failure": "When the record cannot be written, calls above read are",
  "activity.max_payload_bytes": "Record arguments and answers up to this many bytes",
  "activity.ack": "An answer waits for the record that is",
  "activity.max_journal_mb": "Journal at most this many megabytes",
  "log.level": "Log from this level",
  "log.format": "Log as",
  "activity.retention_days": "Keep records for this many days",
  "activity.max_size_mb": "Keep at most this many megabytes of records",
};

export async function show(main, query, signal) {
  const [found, status] = await Promise.all([get("/settings", {}, signal), get("/status", {}, signal)]);
  const again = async () => {
    main.replaceChildren();
    await show(main, query, signal);
  };
  main.append(freezeCard(status.frozen, again));
  if (found.awaits_restart.length) {
    main.append(element("p", { class: "notice" }, "Changed, and in force after ", element("code", {}, "mcpproxy restart"), `: ${found.awaits_restart.join(", ")}.`));
  }
  const shown = new Set();
  for (const [name, ...prefixes] of GROUPS) {
    const rows = found.settings.filter((each) => each.changeable && prefixes.some((prefix) => each.key.startsWith(prefix)));
    rows.forEach((each) => shown.add(each.key));
    if (rows.length) main.append(group(name, rows, again, name === "Bounds"));
  }
  const rest = found.settings.filter((each) => each.changeable && !shown.has(each.key));
  if (rest.length) main.append(group("More", rest, again, true));
  main.append(fixed(found));
}

function freezeCard(frozen, again) {
  const act = async () => {
    const said = await confirmed(frozen
      ? { title: "Lift the freeze?", says: "Calls that write or destroy are decided as usual again.", action: "Lift the freeze", danger: true }
      : { title: "Freeze the gateway?", says: "At once, everything above read is refused, for every agent, until you lift it. Reads go on. Calls that are under way are not ended.", action: "Freeze" });
    if (!said) return;
    await post(frozen ? "/unfreeze" : "/freeze");
    toast(frozen ? "The freeze is lifted" : "Frozen: only reads run");
    await again();
    document.querySelector(".freeze button")?.focus();
  };
  return element(
    "section",
    { class: frozen ? "card freeze on" : "card freeze", "aria-label": "Freeze" },
    element("p", {}, element("strong", {}, frozen ? "The gateway is frozen. " : "The gateway is not frozen. "),
      frozen ? "Only reads run; everything above is refused." : "One click refuses everything above read, at once and until it is lifted, also after a restart."),
    actionButton(frozen ? "Lift the freeze" : "Freeze: refuse everything above read", act, { class: frozen ? "large" : "large danger" }),
  );
}

function group(name, rows, again, folded) {
  const inputs = new Map();
  const save = element("button", { type: "button", class: "main" }, "Save…");
  const fields = rows.map((row) => {
    const made = input(row);
    inputs.set(row.key, made);
    const about = element("small", { class: "dim" }, plainText(row.description), origin(row));
    const word = PLAIN[row.key] ?? row.key;
    return made.type === "checkbox"
      ? element("label", { class: "check" }, made, element("span", {}, word, PLAIN[row.key] ? element("code", { class: "key" }, row.key) : null), about)
      : element("label", {}, element("span", {}, word, PLAIN[row.key] ? element("code", { class: "key" }, row.key) : null), made, about);
  });
  save.addEventListener("click", () => acting(save, () => saved(rows, inputs, again)));
  const body = [element("div", { class: "settings-grid" }, fields), element("div", { class: "buttons" }, save)];
  if (!folded) return section(name, ...body);
  return element("details", { class: "card" }, element("summary", {}, element("h2", {}, name)), body);
}

function plainText(text) {
  return String(text ?? "").replaceAll("`", "");
}

function origin(row) {
  if (row.overridden) return ` Set by ${row.source}, which is stronger than what you save here.`;
  return row.applies === "restart" ? " Takes effect at the next start." : null;
}

function input(row) {
  if (row.kind === "flag") {
    const made = element("input", { type: "checkbox" });
    made.checked = row.value === true;
    made.read = () => made.checked;
    return made;
  }
  if (row.kind === "choice") return Object.assign(select(row.choices, String(row.value)), { read() { return this.value; } });
  const text = row.kind === "choices" ? (row.value ?? []).join(", ") : row.value ?? "";
  const props = row.kind === "number" ? { type: "number", step: "any", min: 0, placeholder: row.default ?? "no limit" } : { type: "text", autocomplete: "off" };
  const made = element("input", { ...props, value: String(text) });
  made.read = () => read(row, made.value.trim());
  return made;
}

function read(row, text) {
  if (text === "") return null;
  if (row.kind === "number") return Number(text);
  return row.kind === "choices" ? text.split(/[\s,]+/) : text;
}

async function saved(rows, inputs, again) {
  const changes = {};
  for (const row of rows) {
    const value = inputs.get(row.key).read();
    if (JSON.stringify(value) !== JSON.stringify(row.value ?? null)) changes[row.key] = value;
  }
  const keys = Object.keys(changes);
  if (!keys.length) return toast("Nothing was changed");
  const found = await post("/preview/settings", { settings: changes });
  const list = keys.map((key) => element("li", {}, element("code", {}, key), ": ", untrusted(changes[key] === null ? "its default" : String(changes[key]), 200)));
  const says = element("div", {}, element("ul", {}, list), effect(found));
  const said = await confirmed({ title: "Save these settings?", says, action: "Save", danger: found.looser.length > 0 });
  if (!said) return undefined;
  await post("/settings", { settings: changes });
  toast("Saved");
  return again();
}

function fixed(found) {
  const rows = found.settings.filter((each) => !each.changeable);
  return element("details", { class: "card" },
    element("summary", {}, element("h2", {}, "Not from here")),
    element("p", { class: "dim" }, "These are changed where the file is: ", element("code", {}, untrusted(found.file, 300)), ". A session that was taken over must not open another door."),
    element("ul", {}, rows.map((row) => element("li", {}, element("code", {}, row.key), ": ", untrusted(shown(row.value), 200), element("span", { class: "dim" }, ` (${row.why_not})`)))),
  );
}

function shown(value) {
  if (value === null || value === undefined) return "not set";
  return typeof value === "string" ? value : JSON.stringify(value);
}

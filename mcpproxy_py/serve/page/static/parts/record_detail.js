// Everything about one record: who asked for what, what was declared, how it was decided, what went there and back.
import { element, untrusted, problem } from "../elements.js";
import { bytes, duration, moment } from "../format.js";
import { confirmed, toast } from "../dialog.js";
import { del, wholeNumbers } from "../rest.js";
import { address } from "../router.js";
import { classBadge, statusBadge } from "./badge.js";
import { ladder } from "./ladder.js";
import { subject, verdict } from "./record_facts.js";

const PAYLOAD = 4_000; // characters of arguments or answer that are shown at first
const SOURCES = {
  declared: "declared by the agent",
  inferred: "not declared; inferred from the variant",
  implied: "not declared; implied by the class of the tool",
  passive: "declared beside the call",
};

/** `changed(record)` hears of the record after its payload was erased. */
export function recordDetail(record, changed = () => {}) {
  const { metadata = {} } = record;
  const parts = [
    element("p", { class: "headline" }, statusBadge(record.status), " ", verdict(record), " ",
      element("span", { class: "dim" }, "· ", moment(record.timestamp), ` · took ${duration(record.duration_ms)}`)),
    record.error?.message ? element("p", { class: record.status === "blocked" ? "note care" : "note bad" },
      record.error.code ? element("code", {}, untrusted(record.error.code, 60), " ") : null, untrusted(record.error.message, 600)) : null,
    metadata.decision?.warning ? element("p", { class: "note care" }, untrusted(metadata.decision.warning, 600)) : null,
    element("h3", {}, "Declared"),
    facts(declared(record)),
    element("h3", {}, "Decided"),
    facts(decision(record)),
    ladder(record.rungs ?? []),
    element("h3", {}, "Who and where"),
    facts(who(record)),
    payload("Arguments", record.arguments, record.arguments_size, metadata.erased),
    payload("Answer", record.response, record.response_size, metadata.erased),
    actions(record, changed),
  ];
  return element("div", { class: "record-detail" }, parts);
}

/** In a drawer over the view, which ends with it. Focus goes back to where it was. */
export async function openRecord(id, signal, changed = () => {}) {
  const returnTo = document.activeElement;
  const place = element("div", { "aria-busy": "true" });
  const title = element("h2", { id: "drawer-title", tabindex: "-1" }, "One record");
  const close = element("button", { type: "button", class: "quiet", "aria-label": "Close" }, "×");
  const drawer = element("dialog", { class: "drawer", "aria-labelledby": "drawer-title" },
    element("div", { class: "drawer-head" }, title, close), place);
  document.body.append(drawer);
  const end = () => drawer.close();
  close.addEventListener("click", end);
  drawer.addEventListener("click", (event) => {
    if (event.target === drawer) end(); // beside it
    else if (event.target.closest?.("a[href^='#']")) end();
  });
  drawer.addEventListener("close", () => {
    drawer.remove();
    signal.removeEventListener("abort", end);
    if (returnTo?.isConnected) returnTo.focus();
  });
  signal.addEventListener("abort", end);
  drawer.showModal();
  title.focus();
  try {
    const record = await wholeNumbers(`/activity/${encodeURIComponent(id)}`, signal);
    title.replaceChildren(untrusted(subject(record), 120));
    const show = (shown) => place.replaceChildren(recordDetail(shown, (next) => (show(next), changed(next))));
    show(record);
  } catch (error) {
    if (!signal.aborted) place.replaceChildren(problem(error));
  } finally {
    place.removeAttribute("aria-busy");
  }
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  if (!shown.length) return element("p", { class: "empty" }, "Nothing.");
  return element("dl", { class: "facts" }, shown.map(([term, value]) =>
    element("div", {}, element("dt", {}, term), element("dd", {}, value))));
}

function declared({ metadata = {} }) {
  const { intent, tool_variant: variant } = metadata;
  if (!intent || typeof intent !== "object") return [["Called with", variant && element("code", {}, untrusted(variant, 60))]];
  return [
    ["Operation", [classBadge(intent.operation_type ?? "unknown"), " ", SOURCES[intent.source] ?? "declared by the agent"]],
    ["Reason", intent.reason && untrusted(intent.reason, 1000)],
    ["Data", intent.data_sensitivity && untrusted(intent.data_sensitivity, 60)],
    ["Called with", variant && element("code", {}, untrusted(variant, 60))],
  ];
}

function who(record) {
  const { client = {}, server, tool, session_id: session, request_id: request } = record;
  const filtered = (query, text) => element("a", { href: address("record", query) }, text);
  const way = [record.source, record.surface].filter(Boolean).join(" / ");
  return [
    ["Client", client.name && [filtered({ client: client.name }, untrusted(client.name, 120)), " ",
      untrusted(client.version ?? "", 40), element("span", { class: "dim" }, " (as it says)")]],
    ["Principal", record.principal && filtered({ principal: record.principal }, untrusted(record.principal, 120))],
    ["Over", way && untrusted(way, 80)],
    ["Server", server && element("a", { href: address("servers", { name: server }) }, untrusted(server, 120))],
    ["Tool", tool && [untrusted(tool, 200), " · ", filtered({ server, tool }, "its calls"), server
      ? [" · ", element("a", { href: address("tools", { name: `${server}:${tool}` }) }, "the tool")] : null]],
    ["Session", session && filtered({ session_id: session }, element("code", {}, untrusted(session, 80)))],
    ["Request", request && filtered({ request_id: request }, element("code", {}, untrusted(request, 80)))],
    ["Record", [element("a", { href: address("record", { name: record.id }) }, element("code", {}, record.id)),
      element("span", { class: "dim" }, " (a link to this)")]],
  ];
}

function decision(record) {
  const { decision: made = {} } = record.metadata ?? {};
  const hints = made.annotations && Object.keys(made.annotations).length
    ? element("code", {}, untrusted(JSON.stringify(made.annotations), 300)) : null;
  return [
    ["Mode", made.mode && untrusted(made.mode, 40)],
    ["Class", made.class && [classBadge(made.class), made.class_origin ? [" by ", untrusted(made.class_origin, 60)] : null]],
    ["Risk", made.risk && classBadge(made.risk)],
    ["Hints", hints],
  ];
}

function payload(title, value, size, erased) {
  const told = size ? element("span", { class: "dim" }, ` ${bytes(size)}; secrets masked, long values cut`) : null;
  const heading = element("h3", {}, title, told);
  if (value === null || value === undefined) {
    return [heading, element("p", { class: "empty" }, erased ? "Erased." : "None on record.")];
  }
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const region = { tabindex: "0", role: "region", "aria-label": `${title}, as JSON` };
  return [heading, element("pre", region, untrusted(text, PAYLOAD))];
}

function actions(record, changed) {
  const { erased } = record.metadata ?? {};
  if (erased) {
    const by = erased.principal ? [" by ", untrusted(erased.principal, 80)] : null;
    return element("p", { class: "dim" }, "Arguments and answer were erased", by, ". That the call was made stays on record.");
  }
  if (record.arguments === null && record.response === null) return null;
  const button = element("button", { type: "button", class: "danger" }, "Delete arguments and answer…");
  button.addEventListener("click", async () => {
    const says = ["The arguments and the answer of ", untrusted(subject(record), 120),
      " go for good. That the call was made, by whom and how it was decided stays on record, and so does who deleted this."];
    const said = await confirmed({ title: "Delete arguments and answer?", says: element("p", {}, says), action: "Delete", danger: true });
    if (!said) return;
    button.disabled = true;
    try {
      changed(await del(`/activity/${encodeURIComponent(record.id)}/payload`));
      toast("Arguments and answer are deleted.");
    } catch (error) {
      button.disabled = false;
      button.after(problem(error));
    }
  });
  return element("div", { class: "buttons" }, button);
}

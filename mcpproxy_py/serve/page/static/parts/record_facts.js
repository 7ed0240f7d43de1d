// What a record says, in the words that every view of it uses.
import { element, untrusted } from "../elements.js";

const CHANGES = ["config_change", "approval"];
/** The type of what servers want of their own accord, which nobody asked for. */
export const SERVERS_OWN = "server_request";

/** `server:tool`, or what a person changed. */
export function subject({ server, tool, type }) {
  if (CHANGES.includes(type)) return [tool, server].filter(Boolean).join(" ");
  return server && tool && !tool.startsWith(`${server}:`) ? `${server}:${tool}` : tool || server || "";
}

/** What was declared; "" where nothing was. */
export function operation({ metadata }) {
  return typeof metadata?.intent?.operation_type === "string" ? metadata.intent.operation_type : "";
}

/** Why the agent says it asked; of a search, what it looked for. */
export function reason(record) {
  return record.metadata?.intent?.reason || (record.type === "tool_search" && record.arguments?.query) || "";
}

/** The rule that refused, "" for what was not refused. */
export function refusedBy({ status, metadata, error }) {
  if (status !== "blocked") return "";
  return String(metadata?.refused_by ?? metadata?.decision?.rule ?? error?.code ?? "the gateway");
}

/** What was decided, in a few words. */
export function verdict(record) {
  const refused = refusedBy(record);
  if (refused) return element("span", {}, "refused by ", element("strong", {}, untrusted(refused, 60)));
  const { decision } = record.metadata ?? {};
  if (decision?.verdict === "warn") return "allowed, with a warning";
  if (decision?.verdict === "allow") return "allowed";
  return decision?.verdict === "local" ? "answered here" : "";
}

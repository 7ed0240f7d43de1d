// Badges: a sign, a word and a colour, and never the colour alone.
import { element, untrusted } from "../elements.js";

const CLASSES = { read: ["○", "calm"], write: ["◐", "care"], destructive: ["●", "bad"], unknown: ["?", "plain"] };
const STATUSES = {
  success: ["✓", "good"],
  pending: ["…", "plain"],
  waiting: ["…", "care"],
  blocked: ["⊘", "bad"],
  error: ["!", "bad"],
  timeout: ["⧖", "care"],
  cancelled: ["–", "plain"],
  interrupted: ["⚡", "care"],
  approved: ["✓", "good"],
  denied: ["⊘", "bad"],
  expired: ["–", "plain"],
};
const STATES = {
  connected: ["✓", "good"],
  connecting: ["…", "plain"],
  sleeping: ["☾", "plain"],
  failed: ["!", "bad"],
  disabled: ["–", "plain"],
  needs_login: ["→", "care"],
};

function badge(known, said) {
  const [sign, tone] = Object.hasOwn(known, said) ? known[said] : ["?", "plain"];
  return signed(sign, tone, untrusted(String(said ?? "unknown").replaceAll("_", " "), 40));
}

/** A word in its tone, with a sign: never by colour alone. */
export function signed(sign, tone, word) {
  return element("span", { class: `badge ${tone}` }, element("span", { "aria-hidden": "true" }, sign), " ", word);
}

/** The class of a tool, or what was declared: read, write, destructive, unknown. */
export function classBadge(cls) {
  return badge(CLASSES, cls);
}

/** What became of an ask, or of what waits for a person. */
export function statusBadge(status) {
  return badge(STATUSES, status);
}

/** The state of a server. */
export function stateBadge(state) {
  return badge(STATES, state);
}

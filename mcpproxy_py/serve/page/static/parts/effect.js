// What a change would do, in the gateway's own words, to be read before it is made.
import { element, untrusted } from "../elements.js";

/** `found` is the answer of a preview: `says`, `looser`, `tighter`, `after_restart`. */
export function effect(found) {
  const lines = [
    ...(found.says ?? []).map((said) => line("", said)),
    ...(found.looser ?? []).map((said) => line("Looser: ", said, "warned")),
    ...(found.tighter ?? []).map((said) => line("Tighter: ", said)),
  ];
  if (found.after_restart?.length) {
    lines.push(element("li", {}, "Takes effect at the next start: ", element("code", {}, "mcpproxy restart"), "."));
  }
  if (!lines.length) return element("p", {}, "It changes nothing that is permitted or refused.");
  return element("ul", { class: "effect" }, lines);
}

function line(mark, said, tone = "") {
  return element("li", { class: tone }, mark ? element("strong", {}, mark) : null, untrusted(said, 500));
}

// One call that waits for a yes: who wants what, in plain words, with the exact arguments that the yes is for.
import { element, untrusted, untrustedText } from "../elements.js";
import { confirmed, toast } from "../dialog.js";
import { post } from "../rest.js";
import { ago } from "../format.js";
import { actionButton, facts } from "./act.js";
import { classBadge } from "./badge.js";

const WOULD = {
  read: "It would only read.",
  write: "It would change something.",
  destructive: "It can destroy something, and that may not be undone.",
};

export function callCard(call, look) {
  return element(
    "article",
    { class: "card", "aria-label": `Call of ${untrustedText(call.tool, 80)}` },
    element("h3", {}, untrusted(call.tool, 160), " ", classBadge(call.operation)),
    element("p", {}, WOULD[call.operation] ?? "", " Until you say yes, nothing is sent to ", untrusted(call.server, 60), "."),
    call.warning ? element("p", { class: "notice" }, untrusted(call.warning, 400)) : null,
    facts(
      ["The agent says why", call.reason ? untrusted(call.reason, 600) : "nothing"],
      ["Asked by", untrusted([call.principal, [call.client?.name, call.client?.version].filter(Boolean).join(" ")].filter(Boolean).join(", with "), 200)],
      ["Asked", ago(call.asked_at)],
      ["Ends", ago(call.expires_at)],
    ),
    element("h4", {}, "Arguments"),
    element("pre", { tabindex: "0", role: "region", "aria-label": "Its arguments" }, untrusted(JSON.stringify(call.arguments, null, 2), 4000)),
    element("details", {}, element("summary", {}, "As a client would have asked you"), element("pre", { tabindex: "0" }, untrusted(call.question, 8000))),
    element("div", { class: "buttons" }, answer(call, "deny", look), answer(call, "approve", look)),
  );
}

function answer(call, step, look) {
  const yes = step === "approve";
  const word = yes ? "Approve" : "Deny";
  return actionButton(`${word}…`, async () => {
    const name = untrustedText(call.tool, 100);
    const said = await confirmed({
      title: yes ? `Let ${name} run?` : `Refuse ${name}?`,
      says: element("div", {},
        element("p", {}, yes ? "It runs once, with exactly these arguments; a change of them would need another yes." : "The agent is told that a person said no."),
        element("pre", { tabindex: "0" }, untrusted(JSON.stringify(call.arguments, null, 2), 1000))),
      action: word,
      danger: yes && call.operation === "destructive",
      note: "Note for the record",
    });
    if (!said) return;
    const body = { arguments_sha256: call.arguments_sha256 };
    if (said.note) body.notes = said.note;
    try {
      tell(await post(`/confirmations/${encodeURIComponent(call.id)}/${step}`, body), yes);
    } finally {
      await look(); // also where somebody else was faster
    }
  }, { class: yes ? "main" : "danger", "aria-label": `${word} ${untrustedText(call.tool, 100)}` });
}

/** What came of it, which where its gateway has died is nothing. */
function tell({ tool, status, delivered }, yes) {
  if (!yes) toast(`${tool} is refused`);
  else if (delivered === false) toast(`${tool} is approved, and the gateway where it waits has not taken that up. It may have died, and then nothing runs.`, "error");
  else if (status === "approved") toast(`${tool} may run`);
  else toast(`${tool} is ${status}: nobody waits for it any more`, "error");
}

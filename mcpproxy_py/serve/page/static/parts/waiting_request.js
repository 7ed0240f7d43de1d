// One request of an agent for a server. A yes connects nothing: it says that somebody will, and how.
import { element, untrusted, untrustedText } from "../elements.js";
import { confirmed, toast } from "../dialog.js";
import { post } from "../rest.js";
import { ago } from "../format.js";
import { actionButton, facts } from "./act.js";
import { address } from "../router.js";

export function requestCard(request, look) {
  const name = request.context?.mcp_name ?? "a server";
  const { requested_tools: tools, catalog_slug: slug } = request.context ?? {};
  const add = slug ? address("servers", { add: "catalog", slug }) : address("servers", { add: "catalog", query: name });
  return element(
    "article",
    { class: "card", "aria-label": `Request for ${untrustedText(name, 80)}` },
    element("h3", {}, "An agent asks for ", untrusted(name, 100)),
    element("p", {}, "A yes connects nothing by itself: it tells the agent that a person agrees, and you add the server."),
    request.sealed ? null : element("p", { class: "notice" }, "It is not as a gateway wrote it, so it counts as pending at most."),
    facts(
      ["It says why", untrusted(request.rationale, 600)],
      ["Asked by", untrusted([request.target_resource?.id, request.principal].filter(Boolean).join(", as "), 200)],
      ["Tools", Array.isArray(tools) && tools.length ? untrusted(tools.join(", "), 300) : null],
      ["Asked", ago(request.created_at_ms)],
      ["Ends", ago(request.expires_at_ms)],
      ["To connect it", request.connect_command ? element("code", {}, untrusted(request.connect_command, 400)) : null],
    ),
    element("div", { class: "buttons" }, answer(request, name, "deny", look), answer(request, name, "approve", look, add)),
  );
}

function answer(request, name, step, look, add = null) {
  const yes = step === "approve";
  const word = yes ? "Approve" : "Deny";
  return actionButton(`${word}…`, async () => {
    const said = await confirmed({
      title: yes ? `Approve ${untrustedText(name, 80)}?` : `Deny ${untrustedText(name, 80)}?`,
      says: yes ? "Nothing is connected yet. You are led to the place where it can be added." : "The agent is told that a person said no.",
      action: word,
      note: "Note, which the agent can read",
    });
    if (!said) return;
    try {
      await post(`/approvals/${encodeURIComponent(request.approval_id)}/${step}`, said.note ? { notes: said.note } : {});
      toast(yes ? `${name} is approved` : `${name} is denied`);
    } finally {
      await look();
    }
    if (add) location.hash = add;
  }, { class: yes ? "main" : "danger", "aria-label": `${word} the request for ${untrustedText(name, 80)}` });
}

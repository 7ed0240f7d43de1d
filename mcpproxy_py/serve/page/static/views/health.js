// What is wrong, and how to mend it: what `mcpproxy doctor` finds.
import { element, table, untrusted } from "../elements.js";
import { get } from "../rest.js";
import { actionButton } from "../parts/act.js";
import { signed } from "../parts/badge.js";
import { address } from "../router.js";

export const title = "Health";

const ORDER = { problem: 0, warning: 1, ok: 2 };
const SIGNS = { problem: ["!", "bad", "Problem"], warning: ["△", "care", "Warning"], ok: ["✓", "good", "Fine"] };

export async function show(main, query, signal) {
  const said = element("p", { role: "status" });
  const place = element("div", {});
  const look = async () => {
    const { healthy, findings } = await get("/health", {}, signal);
    const problems = findings.filter((each) => each.state === "problem").length;
    const warnings = findings.filter((each) => each.state === "warning").length;
    said.textContent = healthy
      ? warnings ? `Nothing is broken. ${warnings} ${warnings === 1 ? "thing" : "things"} to look at.` : "Nothing is wrong."
      : `${problems} to mend.`;
    place.replaceChildren(listed(findings));
  };
  main.append(
    element("div", { class: "row" }, actionButton("Check again", look), element("span", { class: "dim" }, "The same as ", element("code", {}, "mcpproxy doctor"))),
    said,
    place,
  );
  await look();
}

function listed(findings) {
  const rows = [...findings].sort((one, other) => ORDER[one.state] - ORDER[other.state]);
  return table(
    [
      { title: "State", cell: ({ state }) => signed(...(SIGNS[state] ?? ["?", "plain", state])) },
      { title: "What", cell: ({ subject }) => linked(subject) },
      { title: "Found", cell: ({ says }) => untrusted(says, 1000) },
    ],
    rows,
    "Nothing was checked.",
  );
}

function linked(subject) {
  const server = /^server (.+)$/.exec(subject)?.[1];
  return server ? element("a", { href: address("servers", { name: server }) }, untrusted(subject, 100)) : untrusted(subject, 100);
}

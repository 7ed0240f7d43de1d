// What one server lists otherwise than was approved: both texts side by side, and a decision about each.
import { element, untrusted, untrustedText } from "../elements.js";
import { confirmed, toast } from "../dialog.js";
import { post } from "../rest.js";
import { actionButton } from "./act.js";
import { sides } from "./sides.js";

const MEANS = {
  raises_risk: "it raises the risk, and applies already",
  lowers_risk: "it lowers the risk: blocked until you decide",
  breaks_callers: "it breaks who calls it: blocked until you decide",
  renames: "it may be an approved one under another name: blocked until you decide",
  widens_input: "it takes more: the approved one goes on meanwhile",
  rewords: "it is only worded otherwise: the approved text goes on meanwhile",
  adds: "new",
  removes: "gone",
};
const MOST = 20; // subjects that are shown at once; a first listing may have thousands

export function pinCard(pin, look) {
  const subjects = new Map();
  for (const each of pin.differences) subjects.set(each.subject, [...(subjects.get(each.subject) ?? []), each]);
  const names = [...subjects.keys()];
  const shown = element("div", {}, names.slice(0, MOST).map((each) => subjectCard(pin, each, subjects.get(each), look)));
  const more = names.length > MOST
    ? element("button", { type: "button", class: "more" }, `${names.length - MOST} more`)
    : null;
  more?.addEventListener("click", () => {
    shown.append(...names.slice(MOST).map((each) => subjectCard(pin, each, subjects.get(each), look)));
    more.remove();
  });
  const first = !pin.tools && !pin.prompts;
  return element(
    "article",
    { class: "card", "aria-label": `Changes of ${untrustedText(pin.server, 60)}` },
    element("h3", {}, untrusted(pin.server, 60)),
    pin.unusable ? element("p", { class: "notice" }, untrusted(pin.unusable, 400)) : null,
    element("p", {}, first ? "It is listed for the first time, and you said that you approve what it lists. " : "",
      `${pin.waiting} ${pin.waiting === 1 ? "thing waits" : "things wait"}; ${pin.blocked} of its tools cannot be called until then.`),
    shown,
    more,
    pin.cut ? element("p", { class: "dim" }, `${pin.cut} more differences are not shown here: mcpproxy pins diff ${pin.server}`) : null,
    element("div", { class: "buttons" }, answer(pin, "reject", null, look), answer(pin, "approve", null, look)),
  );
}

function subjectCard(pin, subject, differences, look) {
  const findings = pin.finding_rows?.[subject] ?? [];
  const isNew = differences.length === 1 && differences[0].before === null;
  return element(
    "details",
    { class: "subject", open: !isNew && pin.differences.length < 10 },
    element("summary", {}, untrusted(named(subject), 160), findings.length ? element("span", { class: "badge care" }, `△ ${findings.length} found`) : null),
    findings.length ? element("ul", {}, findings.map((each) => element("li", { class: "warned" }, untrusted(each.text, 300), each.excerpt ? [": ", untrusted(each.excerpt, 300)] : null))) : null,
    differences.map((each) => element("div", {},
      element("p", {}, untrusted(each.text, 400), " ", element("span", { class: "dim" }, `(${MEANS[each.judgement] ?? each.judgement})`)),
      sides(each.before, each.after))),
    element("div", { class: "row" }, answer(pin, "reject", subject, look), answer(pin, "approve", subject, look)),
  );
}

function named(subject) {
  return subject.replace(/^(tool|prompt):/, "$1 ");
}

function answer(pin, step, subject, look) {
  const yes = step === "approve";
  const word = yes ? "Approve" : "Refuse";
  const what = subject ? untrustedText(named(subject), 120) : `all of ${untrustedText(pin.server, 60)}`;
  return actionButton(subject ? `${word}…` : `${word} all…`, async () => {
    const said = await confirmed({
      title: `${word} ${what}?`,
      says: yes
        ? "What is listed now becomes what is approved, and agents read it and can call it."
        : "What was approved before stays in force as far as it can; what is new or blocked cannot be called.",
      action: word,
      danger: yes && pin.findings > 0,
      note: "Note for the record",
    });
    if (!said) return;
    const body = { seen: pin.seen };
    if (subject) body.subjects = [subject];
    if (said.note) body.notes = said.note;
    try {
      await post(`/pins/${encodeURIComponent(pin.server)}/${step}`, body);
      toast(`${word === "Refuse" ? "Refused" : "Approved"}: ${what}`);
    } finally {
      await look();
    }
  }, { class: yes ? "main" : "danger", "aria-label": `${word} ${what}` });
}

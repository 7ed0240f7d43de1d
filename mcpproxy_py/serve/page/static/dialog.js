// Questions before something changes, and short news about what was done.
import { element, untrusted } from "./elements.js";

const SETTLING = 300; // a second click of a double click that began on another page must not decide anything
const STAYS = 8_000;

/**
 * Resolves to `{yes: true, note}` or null. `says`: what it will change, as a node or text. `note`: the label of a field
 * to write a note in. The focus begins at Cancel where it is `danger`.
 */
export async function confirmed({ title, says = "", action = "Yes", danger = false, note = null }) {
  const field = note ? element("textarea", { rows: 2, maxlength: 1000 }) : null;
  const yes = element("button", { type: "button", class: danger ? "danger" : "main" }, action);
  const no = element("button", { type: "button", class: "quiet" }, "Cancel");
  const heading = element("h2", { id: "dialog-title" }, title);
  const said = element("div", { class: "says" }, typeof says === "string" ? element("p", {}, says) : says);
  const labelled = field ? element("label", {}, element("span", {}, note === true ? "Note" : note), field) : null;
  const buttons = element("div", { class: "buttons" }, no, yes);
  const dialog = element("dialog", { "aria-labelledby": "dialog-title" }, heading, said, labelled, buttons);
  const returnTo = document.activeElement;
  document.body.append(dialog);
  const settle = settled(yes);
  dialog.showModal();
  (danger ? no : (field ?? yes)).focus();
  try {
    return await new Promise((resolve) => {
      yes.addEventListener("click", () => resolve({ yes: true, note: field?.value.trim() ?? "" }));
      no.addEventListener("click", () => resolve(null));
      dialog.addEventListener("close", () => resolve(null)); // with Escape
    });
  } finally {
    settle.stop();
    dialog.close();
    dialog.remove();
    if (returnTo?.isConnected) returnTo.focus();
  }
}

/** The button does nothing just after it appeared, or this window came to the front. */
function settled(button) {
  let ready = Date.now() + SETTLING;
  const again = () => (ready = Date.now() + SETTLING);
  const hold = (event) => {
    if (Date.now() < ready) event.stopImmediatePropagation();
  };
  button.addEventListener("click", hold, { capture: true });
  addEventListener("focus", again);
  return { stop: () => removeEventListener("focus", again) };
}

/** `kind`: "done" (or nothing) or "error". It is read out, and stays for some seconds. */
export function toast(text, kind = "done") {
  const role = kind === "error" ? "alert" : null;
  const shown = element("div", { class: `toast ${kind}`, role }, untrusted(text, 300));
  const close = element("button", { type: "button", class: "quiet", "aria-label": "Dismiss" }, "×");
  close.addEventListener("click", () => shown.remove());
  shown.append(close);
  document.getElementById("toasts").append(shown);
  if (kind !== "error") setTimeout(() => shown.remove(), STAYS);
}

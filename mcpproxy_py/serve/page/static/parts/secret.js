// A secret that is shown this once: to be copied, and then it is gone from the page.
import { element, untrusted } from "../elements.js";

export function secretShown(made) {
  const field = element("input", { class: "mono", readonly: true, value: made.token, "aria-label": "The token", id: "secret" });
  const copy = element("button", { type: "button", class: "main" }, "Copy");
  const said = element("span", { role: "status", class: "dim" });
  copy.addEventListener("click", async () => {
    field.select();
    try {
      await navigator.clipboard.writeText(made.token);
      said.textContent = "Copied.";
    } catch {
      said.textContent = "It is selected: copy it with the keyboard.";
    }
  });
  const close = element("button", { type: "button" }, "I have it");
  const warnings = (made.warnings ?? []).map((each) => element("p", { class: "notice" }, untrusted(each, 300)));
  const dialog = element("dialog", { "aria-labelledby": "secret-title" },
    element("h2", { id: "secret-title" }, "The token of ", untrusted(made.name, 80)),
    element("p", {}, "It is shown this once. The agent sends it as ", element("code", {}, "Authorization: Bearer …"), "."),
    field, warnings, element("div", { class: "buttons" }, said, copy, close));
  document.body.append(dialog);
  dialog.showModal();
  field.select();
  return new Promise((resolve) => {
    close.addEventListener("click", () => dialog.close());
    dialog.addEventListener("close", () => {
      field.value = "";
      dialog.remove();
      resolve();
    });
  });
}

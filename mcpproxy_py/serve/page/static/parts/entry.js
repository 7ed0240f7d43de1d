// A server's entry as JSON, checked and explained by the gateway before it is written.
import { element, problem, untrustedText } from "../elements.js";
import { confirmed, toast } from "../dialog.js";
import { post } from "../rest.js";
import { acting, labelled } from "./act.js";
import { effect } from "./effect.js";

export function entryForm(name, config, { action, word, done }) {
  const field = element("textarea", { class: "mono", rows: 12, spellcheck: "false", value: JSON.stringify(config, null, 2) });
  const said = element("div", {});
  const save = element("button", { type: "submit", class: "main" }, word);
  const form = element("form", {}, labelled("The entry", field), said, element("div", { class: "buttons" }, save));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    said.replaceChildren();
    acting(save, async () => {
      let wanted;
      try {
        wanted = JSON.parse(field.value);
      } catch (error) {
        said.replaceChildren(problem({ message: `This is not JSON: ${error.message}` }));
        return;
      }
      try {
        if (await put(name, wanted, action)) await done();
      } catch (error) {
        said.replaceChildren(problem(error));
      }
    });
  });
  return form;
}

/** Shows what it will change first, and adds or replaces it after a yes. Whether it was done. */
export async function put(name, config, action) {
  const found = await post("/preview/server", { action, name, config });
  const word = action === "add" ? "Add" : "Save";
  const pre = element("details", {}, element("summary", {}, "The entry"), element("pre", { tabindex: "0" }, JSON.stringify(found.config, null, 2)));
  const said = await confirmed({
    title: action === "add" ? `Add ${untrustedText(name, 60)}?` : `Change ${untrustedText(name, 60)}?`,
    says: element("div", {}, effect(found), pre),
    action: word,
    danger: found.looser.length > 0,
  });
  if (!said) return false;
  await post("/servers", { name, config, replace: action === "replace" });
  toast(action === "add" ? `${name} is added, and connects now` : `${name} is changed`);
  return true;
}

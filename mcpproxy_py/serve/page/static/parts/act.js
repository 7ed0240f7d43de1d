// Buttons that do something at the gateway, and what is common to views that show lists which change.
import { element } from "../elements.js";
import { toast } from "../dialog.js";

/** A button that is out of use while its work goes on. What goes wrong is said. */
export function actionButton(text, work, props = {}) {
  const button = element("button", { type: "button", ...props }, text);
  button.addEventListener("click", () => acting(button, work));
  return button;
}

export async function acting(button, work) {
  if (button.getAttribute("aria-disabled") === "true") return undefined;
  button.setAttribute("aria-disabled", "true"); // `disabled` would drop the focus
  try {
    return await work();
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    toast([error.message, error.remedy].filter(Boolean).join(". "), "error");
    return undefined;
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

/**
 * Shows `rows` in `place` by `make(row)`, and leaves what has not changed as it is, so that nobody loses their place
 * when news comes. `key(row)` is what a row is known by.
 */
export function reconcile(place, rows, key, make, empty = null) {
  const known = place.rows ?? new Map();
  const wanted = new Map();
  for (const row of rows) {
    const said = JSON.stringify(row);
    const before = known.get(key(row));
    wanted.set(key(row), before?.said === said ? before : { said, shown: make(row) });
  }
  const shown = [...wanted.values()].map((each) => each.shown);
  if (!shown.length && empty) shown.push(element("p", { class: "empty" }, empty));
  const now = [...place.children];
  if (now.length !== shown.length || now.some((each, at) => each !== shown[at])) {
    const held = place.contains(document.activeElement) ? document.activeElement : null;
    for (const each of now) if (!shown.includes(each)) each.remove();
    shown.forEach((each, at) => {
      if (place.children[at] !== each) place.insertBefore(each, place.children[at] ?? null);
    });
    if (held?.isConnected && document.activeElement !== held) held.focus();
    else if (held && !held.isConnected) place.closest("section")?.querySelector("h2")?.focus();
  }
  place.rows = wanted;
}

/** A part of a view with a heading; `place` in it is for what changes. */
export function section(title, ...children) {
  const place = element("div", {});
  const made = element("section", {}, element("h2", { tabindex: "-1" }, title), children, place);
  return Object.assign(made, { place });
}

/** Calls `work` soon, once for many calls that come close together. */
export function soon(work, ms = 250) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, ms);
  };
}

/** Calls `work` every so often, while somebody looks, until `signal`. What is off for a moment is tried again. */
export function repeat(work, ms, signal) {
  const timer = setInterval(() => document.hidden || Promise.resolve(work()).catch(() => {}), ms);
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** `<dl>` of pairs; those without a value are left out. */
export function facts(...pairs) {
  const rows = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return element("dl", { class: "pairs" }, rows.map(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

/** A label with its field. */
export function labelled(text, field, hint = null) {
  return element("label", {}, element("span", {}, text), field, hint ? element("small", { class: "dim" }, hint) : null);
}

export function select(options, value, props = {}) {
  const made = element("select", props, options.map((each) => element("option", { value: each.value ?? each }, each.text ?? each)));
  made.value = value;
  return made;
}

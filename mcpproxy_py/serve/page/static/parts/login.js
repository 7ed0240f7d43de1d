// Logging in to a server: a link that a person opens, and a field for browsers that cannot reach the gateway.
import { element, untrusted } from "../elements.js";
import { confirmed, toast } from "../dialog.js";
import { get, post } from "../rest.js";
import { acting, actionButton, labelled, repeat } from "./act.js";

/** Only a web address may be opened; what a server says is nothing to trust. */
function isWeb(address) {
  try {
    return ["https:", "http:"].includes(new URL(address).protocol);
  } catch {
    return false;
  }
}

/** A button that begins the login, and shows the steps in `place`; `done()` when it is through. */
export function loginButton(server, place, signal, done) {
  return actionButton("Log in", async () => {
    const begun = await post(`/servers/${encodeURIComponent(server)}/login`, { device: false });
    place.replaceChildren(steps(server, begun, signal, done));
    place.querySelector("a, input")?.focus();
  }, { class: "main" });
}

function steps(server, begun, signal, done) {
  const field = element("input", { type: "url", autocomplete: "off", spellcheck: "false" });
  const hand = element("button", { type: "button" }, "Hand it over");
  hand.addEventListener("click", () => acting(hand, async () => {
    await post(`/servers/${encodeURIComponent(server)}/login/answer`, { address: field.value.trim() });
    await ended(server, done);
  }));
  const over = new AbortController();
  signal.addEventListener("abort", () => over.abort());
  repeat(async () => {
    const state = await get(`/servers/${encodeURIComponent(server)}/login`, {}, signal);
    if (state.waiting) return;
    over.abort();
    await ended(server, done);
  }, 2_000, over.signal);
  const to = isWeb(begun.authorization_url)
    ? element("a", { href: begun.authorization_url, target: "_blank", rel: "noopener noreferrer" }, "Open the login page of this server")
    : untrusted(begun.authorization_url, 500);
  const host = isWeb(begun.authorization_url) ? new URL(begun.authorization_url).host : "";
  return element(
    "div",
    { class: "steps" },
    element("p", {}, to, host ? [" (it is at ", untrusted(host, 200), ")"] : null),
    element("p", { class: "dim" }, begun.listens ? "The gateway waits for the answer. It lasts for some minutes." : "Then hand over the address that your browser was sent to."),
    element("details", { open: !begun.listens }, element("summary", {}, "Your browser cannot reach the gateway?"), labelled("The whole address that it was sent to", field), hand),
  );
}

async function ended(server, done) {
  const state = await get(`/servers/${encodeURIComponent(server)}/login`);
  if (state.error) toast(`${server}: ${state.error}`, "error");
  else toast(`Logged in to ${server}`);
  done();
}

export async function logOut(server) {
  const said = await confirmed({
    title: `Log out of ${server}?`,
    says: "The gateway forgets its token. Calls of this server are refused until somebody logs in again.",
    action: "Log out",
    danger: true,
  });
  if (said) await post(`/servers/${encodeURIComponent(server)}/logout`, { revoke: false });
  return said;
}

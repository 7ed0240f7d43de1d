// The half of the session that a script may hold. The other half is a cookie that no script can read, and each opens
// nothing without the other.
const KEPT = "mcpproxy.page"; // the storage knows this port, which a cookie does not

export const HEADER = "X-Mcpproxy-Page";

export function token() {
  return localStorage.getItem(KEPT);
}

export function hasToken() {
  return token() !== null;
}

export function forget() {
  localStorage.removeItem(KEPT);
}

/** A session for the code of a link that `mcpproxy ui` made. It can be used once, and for a minute. */
export async function openWith(code) {
  const answer = await fetch("/api/v1/page/open", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
    cache: "no-store",
    redirect: "error",
  });
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error.message);
  localStorage.setItem(KEPT, said.page_token);
}

/** Ends it at the gateway, and forgets it here also where the gateway cannot be reached. */
export async function logout() {
  const headers = { [HEADER]: token() ?? "" };
  forget();
  try {
    await fetch("/api/v1/page/session", { method: "DELETE", headers, cache: "no-store" });
  } catch {
    // The gateway is away. Without the token, the cookie opens nothing.
  }
}

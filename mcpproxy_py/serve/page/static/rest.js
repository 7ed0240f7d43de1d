// REST, as the command line uses it. Paths are without `/api/v1`.
import { HEADER, forget, token } from "./session.js";

const LONGEST_WAIT = 30_000; // between two attempts to follow the events
const AWAY = 60_000; // a page that was hidden longer than this reads anew instead of catching up

/** What the gateway refused, or that it was not there. `remedy` is the next step, where there is one. */
export class RestError extends Error {
  constructor(message, { code = "", remedy = "", status = 0, details = {} } = {}) {
    super(message);
    this.name = "RestError";
    Object.assign(this, { code, remedy, status, details });
  }
}

/** The pairs of a query that say something. */
export function given(query) {
  const pairs = query instanceof URLSearchParams ? [...query] : Object.entries(query);
  return pairs.filter(([, value]) => value !== undefined && value !== null && value !== "");
}

function address(path, query = {}) {
  const said = new URLSearchParams(given(query)).toString();
  return `/api/v1${path}${said ? `?${said}` : ""}`;
}

async function answered(method, where, { body, signal, headers = {} } = {}) {
  const sent = { [HEADER]: token() ?? "", "X-Mcpproxy-Client": "ui", ...headers };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const options = { method, headers: sent, signal, cache: "no-store", redirect: "error" };
  if (body !== undefined) options.body = JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(where, options);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RestError("The gateway does not answer", { code: "NOT_REACHABLE", remedy: "See whether it runs: mcpproxy status" });
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

async function refusal(answer) {
  let said = {};
  try {
    said = (await answer.json()).error ?? {};
  } catch {
    // something in front of the gateway answered
  }
  if (answer.status === 401) {
    forget();
    document.dispatchEvent(new Event("ended"));
  }
  const { code, message, hint, details = {} } = said;
  const remedy = details.remedy ?? hint ?? "";
  return new RestError(message ?? `The answer was ${answer.status}`, { code, remedy, status: answer.status, details });
}

async function value(answer) {
  const answering = await answer;
  return answering.status === 204 ? null : answering.json();
}

export async function get(path, query = {}, signal = undefined) {
  return value(answered("GET", address(path, query), { signal }));
}

export async function post(path, body = {}) {
  return value(answered("POST", address(path), { body }));
}

export async function del(path, query = {}) {
  return value(answered("DELETE", address(path, query)));
}

/** An answer as a file to keep: `blob(path, query)` for an export. */
export async function blob(path, query = {}, signal = undefined) {
  return (await answered("GET", address(path, query), { signal })).blob();
}

/** An answer to be read as it comes: a large one does not have to fit into memory first. */
export async function opened(path, query = {}, signal = undefined) {
  return answered("GET", address(path, query), { signal });
}

/** An answer whose integers keep all their digits, where this browser can: `JSON.stringify` gives them back. */
export async function wholeNumbers(path, signal) {
  const text = await (await opened(path, {}, signal)).text();
  if (!JSON.rawJSON) return JSON.parse(text);
  const exact = (_, value, { source } = {}) =>
    typeof value === "number" && source !== undefined && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? JSON.rawJSON(source) : value;
  return JSON.parse(text, exact);
}

/**
 * The events, for as long as `signal` lasts. `onEvent({event, id, data})` hears of each, and of `hello` whenever the
 * stream begins anew: then what was read before may be old, and is to be read again. `onConnection(true|false)` hears
 * whether the gateway can be heard. A hidden page lets go of its connection, of which a browser has six for all tabs.
 */
export async function follow(path, query, onEvent, signal, onConnection = () => {}) {
  let last = null;
  let failed = 0;
  while (!signal.aborted) {
    const since = await shown(signal);
    if (since > AWAY) last = null;
    if (signal.aborted) return;
    const stop = new AbortController();
    const leave = () => stop.abort();
    const hide = () => document.hidden && leave();
    signal.addEventListener("abort", leave);
    document.addEventListener("visibilitychange", hide);
    try {
      const headers = { Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) };
      const answer = await answered("GET", address(path, query), { headers, signal: stop.signal });
      failed = 0;
      onConnection(true);
      for await (const told of messages(answer.body)) {
        last = told.id ?? last;
        if (!signal.aborted) onEvent(told);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof RestError && error.status === 401) throw error;
      if (error instanceof RestError && error.status === 400) last = null; // of a record that is gone
      if (!stop.signal.aborted) failed += 1;
    } finally {
      signal.removeEventListener("abort", leave);
      document.removeEventListener("visibilitychange", hide);
    }
    if (!document.hidden && !signal.aborted) {
      onConnection(false);
      await pause(Math.min(LONGEST_WAIT, 500 * 2 ** Math.min(failed, 6)), signal);
    }
  }
}

/** Waits until somebody can see the page; how many milliseconds that took. */
function shown(signal) {
  const began = Date.now();
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve(Date.now() - began);
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}

async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value: text } = await reader.read();
      if (done) return;
      const parts = (rest + text).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const told = message(part);
        if (told) yield told;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function message(text) {
  const told = { event: null, id: null, data: null };
  for (const line of text.split("\n")) {
    const at = line.indexOf(": ");
    if (at < 1) continue;
    const name = line.slice(0, at);
    const said = line.slice(at + 2);
    if (name === "data") told.data = said ? JSON.parse(said) : null;
    else if (name in told) told[name] = said;
  }
  return told.event === null ? null : told;
}

// Times, durations and counts, as people read them. A time is in ISO 8601, or in milliseconds since 1970.
import { element } from "./elements.js";

const UNITS = [["year", 31_536_000], ["month", 2_592_000], ["day", 86_400], ["hour", 3_600], ["minute", 60], ["second", 1]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function parsed(time) {
  const found = time === null || time === undefined ? null : new Date(time);
  return found && !Number.isNaN(found.getTime()) ? found : null;
}

function since(at) {
  const seconds = (at.getTime() - Date.now()) / 1000;
  const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? UNITS.at(-1);
  return relative.format(Math.trunc(seconds / size), unit);
}

function timed(time, text) {
  const at = parsed(time);
  if (!at) return element("span", {}, "never");
  return element("time", { datetime: at.toISOString(), title: exact.format(at) }, text(at));
}

/** A `<time>` that says how long ago, or in how long. */
export function ago(time) {
  return timed(time, since);
}

/** A `<time>` with date and time of day, where this browser is. */
export function moment(time) {
  return timed(time, (at) => exact.format(at));
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return "under 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function count(n) {
  if (n === null || n === undefined) return "–";
  return Math.abs(n) < 10_000 ? n.toLocaleString("en") : short.format(n);
}

export function bytes(n) {
  if (n === null || n === undefined) return "–";
  const power = Math.min(4, Math.floor(Math.log2(Math.max(1, n)) / 10));
  return power === 0 ? `${n} B` : `${(n / 1024 ** power).toFixed(1)} ${["", "kB", "MB", "GB", "TB"][power]}`;
}

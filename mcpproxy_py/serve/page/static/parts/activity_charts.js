// What a summary says, drawn: asks by hour and what was declared, refusals by rule, durations by server.
import { element, untrusted } from "../elements.js";
import { count, duration } from "../format.js";
import { address } from "../router.js";
import { bars, columns } from "./chart.js";

const HOUR = 3_600_000;
const MOST_HOURS = 192;
const LEAST_HOURS = 24;
const MOST_BARS = 8;
const LAYERS = [
  { key: "read", title: "read" },
  { key: "write", title: "write" },
  { key: "destructive", title: "destructive" },
  { key: "none", title: "none declared" },
];
const hour = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric" });
const whole = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

export function activityCharts(summary) {
  return element("div", { class: "chart-grid" }, byHour(summary), byRule(summary), byServer(summary));
}

function byHour({ by_hour_and_intent_type: told = {} }) {
  const times = Object.keys(told).map((time) => Date.parse(time)).filter((time) => !Number.isNaN(time));
  const points = [];
  if (times.length) {
    const last = Math.max(...times);
    const first = Math.max(Math.min(Math.min(...times), last - (LEAST_HOURS - 1) * HOUR), last - (MOST_HOURS - 1) * HOUR);
    for (let at = first; at <= last; at += HOUR) {
      const time = new Date(at);
      const values = told[time.toISOString().replace(".000Z", "Z")] ?? {};
      points.push({ label: "", title: whole.format(time), at: time, values });
    }
  }
  const every = Math.max(1, Math.ceil(points.length / 6));
  const long = points.length > 2 * LEAST_HOURS;
  points.forEach((point, index) => {
    if (index % every === 0) point.label = (long ? day : hour).format(point.at);
  });
  const first = ({ at, title }) => element("a", {
    href: address("record", { start_time: at.toISOString(), end_time: new Date(at.getTime() + HOUR).toISOString() }) }, title);
  return columns({ title: "Asks by hour", points, series: LAYERS, first, every,
    empty: "Nothing in the latest eight days on record. For others, give a time in “Until”." });
}

function byRule({ by_rule: told = {}, total = 0, exact }) {
  const rows = Object.entries(told).slice(0, MOST_BARS);
  const cells = [
    { title: "Rule", class: "label", cell: ([rule]) => untrusted(rule, 60) },
    { title: "Refusals", class: "number", cell: ([, many]) => count(many) },
  ];
  const note = exact || !total ? null : "Of the newest refusals.";
  return bars({ title: "Refused by", cells, rows, bar: ([, many]) => ({ to: many }), tone: "s-refused", empty: "Nothing was refused.", note });
}

function byServer({ duration_ms_by_server: told = {}, exact }) {
  const rows = Object.entries(told).filter(([, took]) => took.p95 !== null).slice(0, MOST_BARS);
  const cells = [
    { title: "Server", class: "label", cell: ([server]) => element("a", { href: address("record", { server }) }, untrusted(server, 60)) },
    { title: "p50", class: "number nowrap", cell: ([, took]) => duration(took.p50) },
    { title: "p95", class: "number nowrap", cell: ([, took]) => duration(took.p95) },
  ];
  const note = `The bar ends at p95, the mark is p50.${exact ? "" : " Right to some percent."}`;
  return bars({ title: "How long servers took", cells, rows, bar: ([, took]) => ({ to: took.p95, mark: took.p50 }),
    empty: "No server answered.", note: rows.length ? note : null });
}

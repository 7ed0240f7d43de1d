// What is shown, as a file. The browser has to hold it all before it can be kept, so it is bounded here; the command line
// writes any number of records.
import { element, problem } from "../elements.js";
import { bytes, count } from "../format.js";
import { toast } from "../dialog.js";
import { opened } from "../rest.js";

const MOST_RECORDS = 100_000;
const MOST_BYTES = 64 * 1024 * 1024;
const KINDS = { jsonl: "application/jsonl", csv: "text/csv" };

/** `{node, know(total)}`: buttons, and how many records there are once somebody knows. */
export function exportButtons(query) {
  let total = null;
  const problems = element("div", {});
  const button = (format) => {
    const made = element("button", { type: "button", class: "quiet" }, `Export ${format.toUpperCase()}`);
    made.addEventListener("click", async () => {
      problems.replaceChildren();
      made.disabled = true;
      try {
        if (total !== null && total > MOST_RECORDS) throw new Error(tooMany(total, query, format));
        toast(await saved(query, format));
      } catch (error) {
        problems.replaceChildren(problem(error));
      } finally {
        made.disabled = false;
      }
    });
    return made;
  };
  const said = element("span", { class: "dim" });
  const know = (many) => {
    total = many;
    said.textContent = `${count(many)} ${many === 1 ? "record fits" : "records fit"}`;
  };
  return { node: element("div", {}, element("div", { class: "row export" }, said, button("jsonl"), button("csv")), problems), know };
}

function tooMany(total, query, format) {
  return `${count(total)} records fit, and the page exports at most ${count(MOST_RECORDS)}. Narrow the filters, or run: ${command(query, format)}`;
}

const OPTIONS = { start_time: "since", end_time: "until", exclude_type: null };

function command(query, format) {
  const options = Object.entries(query).map(([name, value]) => {
    const option = name in OPTIONS ? OPTIONS[name] : name.replaceAll("_", "-");
    return option && `--${option} '${String(value).replaceAll("'", "'\\''")}'`;
  });
  return ["mcpproxy activity export", ...options.filter(Boolean), `--format ${format} --out activity.${format}`].join(" ");
}

/** Reads as far as the bound, and keeps whole lines. */
async function saved(query, format) {
  const stop = new AbortController();
  const answer = await opened("/activity/export", { ...query, format }, stop.signal);
  const reader = answer.body.getReader();
  const chunks = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    chunks.push(value);
    size += value.length;
    if (size > MOST_BYTES) {
      stop.abort();
      throw new Error(`This is more than ${bytes(MOST_BYTES)}, and nothing was saved. Narrow the filters, or run: ${command(query, format)}`);
    }
  }
  keep(new Blob(chunks, { type: KINDS[format] }), `activity.${format}`);
  return `Saved activity.${format}, ${bytes(size)}.`;
}

function keep(file, name) {
  const link = element("a", { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

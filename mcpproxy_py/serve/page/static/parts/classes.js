// How many tools are of each class, small enough for a table.
import { element } from "../elements.js";
import { count } from "../format.js";
import { classBadge } from "./badge.js";

const ORDER = ["read", "write", "destructive", "unknown"];

export function classCounts(byClass) {
  const there = ORDER.filter((each) => byClass?.[each]);
  if (!there.length) return element("span", { class: "dim" }, "no tools");
  return element("span", { class: "counts" }, there.map((each) => [element("span", {}, count(byClass[each]), " ", classBadge(each)), " "]));
}

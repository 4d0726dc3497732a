// The filters: values of each field with how many of the answers have them.
import {make, text, distinctNames} from "./dom.js";

const OURS = new Set(["row", "doc_id", "title", "text", "line", "id", "record_id", "anchor"]);
export const VALUES = 8;

// Fields that can be chosen from, as `/facets` gives them: values with counts, chosen ones even where no row has them now.
export function drawFilters(node, found, state, choose) {
  const opened = node.dataset.drawn ? node.querySelector("details")?.open : matchMedia("(min-width: 800px)").matches;
  node.dataset.drawn = "yes";
  const focused = document.activeElement?.closest?.("#filters") ? document.activeElement.dataset.key : null;
  const known = found.columns.filter((one) => !OURS.has(one.name)).sort((a, b) => (a.name === "source") - (b.name === "source"));
  const groups = known.map((column) => drawField(column, state, choose)).filter(Boolean);
  if (!groups.length) return node.replaceChildren();
  const chosen = state.f.length;
  node.replaceChildren(
    make("details", {open: opened}, make("summary", {}, "Filters", chosen ? ` · ${chosen} chosen` : null),
      found.among === "matches" ? make("p", {class: "hint"}, "The numbers count only texts that contain a word of the query.") : null,
      chosen ? make("button", {type: "button", class: "clear", "data-key": "clear", onclick: () => choose(null)}, "clear all") : null, groups),
  );
  if (focused) ([...node.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused) ?? node.querySelector("summary")).focus();
}

function drawField(column, state, choose) {
  const chosen = state.f.filter(([name]) => name === column.name).map(([, value]) => value);
  if (!column.filter && !chosen.length) return null;
  const counts = new Map(column.values.map((one) => [one.value, one.count]));
  const listed = counts.size;
  if (column.missing || chosen.includes(null)) counts.set(null, column.missing ?? 0);
  const names = column.name === "source" ? distinctNames([...counts.keys()].filter((one) => one !== null)) : new Map();
  const items = [...counts].map(([value, count]) => {
    const key = JSON.stringify([column.name, value]);
    const box = make("input", {type: "checkbox", "data-key": key, onchange: () => choose(column.name, value)});
    box.checked = chosen.includes(value);
    const shown = value === null ? "no value" : names.get(value) ?? value;
    return make("li", {}, make("label", {}, box, make("span", {class: value === null ? "value hint" : "value", title: String(value ?? "").slice(0, 300)}, text(shown, 80)), make("span", {class: "count"}, count.toLocaleString("en"))));
  });
  const more = (column.distinct ?? listed) - listed;
  return make("section", {}, make("h2", {}, text(column.name, 60)), make("ul", {}, items),
    more > 0 ? make("p", {class: "hint"}, `and ${more.toLocaleString("en")} more values; to select one, write a condition`) : null);
}

// The filters: values of each field with how many of the chosen rows have them.
import {make, text} from "./dom.js";

const OURS = new Set(["row", "doc_id", "title", "text", "line", "id", "record_id", "anchor"]);
const VALUES = 8;

// Fields that can be chosen from: their values, the chosen ones first even where no row has them now.
export function drawFilters(node, columns, state, choose) {
  const opened = node.dataset.drawn ? node.querySelector("details")?.open : matchMedia("(min-width: 800px)").matches;
  node.dataset.drawn = "yes";
  const focused = document.activeElement?.closest?.("#filters") ? document.activeElement.dataset.key : null;
  const known = columns.filter((one) => !OURS.has(one.name)).sort((a, b) => (a.name === "source") - (b.name === "source"));
  const groups = known.map((column) => drawField(column, state, choose)).filter(Boolean);
  if (!groups.length) return node.replaceChildren();
  const chosen = state.f.length;
  node.replaceChildren(
    make("details", {open: opened}, make("summary", {}, "Filters", chosen ? ` · ${chosen} chosen` : null),
      chosen ? make("button", {type: "button", class: "clear", onclick: () => choose(null)}, "take all back") : null, groups),
  );
  if (focused) [...node.querySelectorAll("[data-key]")].find((one) => one.dataset.key === focused)?.focus();
}

function drawField(column, state, choose) {
  const chosen = state.f.filter(([name]) => name === column.name).map(([, value]) => value);
  const counts = new Map(column.values.slice(0, VALUES).map((one) => [one.value, one.count]));
  for (const value of chosen) if (!counts.has(value)) counts.set(value, column.values.find((one) => one.value === value)?.count ?? 0);
  if (!counts.size) return null;
  const items = [...counts].map(([value, count]) => {
    const key = JSON.stringify([column.name, value]);
    const box = make("input", {type: "checkbox", "data-key": key, onchange: () => choose(column.name, value)});
    box.checked = chosen.includes(value);
    return make("li", {}, make("label", {}, box, make("span", {class: "value", title: String(value).slice(0, 300)}, text(column.name === "source" ? String(value).split("/").pop() : value, 80)), make("span", {class: "count"}, count.toLocaleString("en"))));
  });
  const more = (column.distinct ?? counts.size) - counts.size;
  return make("section", {}, make("h2", {}, text(column.name, 60)), make("ul", {}, items),
    more > 0 ? make("p", {class: "hint"}, `and ${more.toLocaleString("en")} more: use a condition`) : null);
}

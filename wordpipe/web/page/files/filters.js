// The filters: values of each field with how many of the answers have them; of numbers and dates a range.
import {make, text, distinctNames} from "./dom.js";
import {isRange} from "./state.js";

const OURS = new Set(["row", "doc_id", "title", "text", "line", "id", "record_id", "anchor"]);
const WAIT = 150; // milliseconds after the last key
export const VALUES = 8;
export const FOUND = 20; // values that contain a text

// Fields that can be chosen from, as `/facets` gives them: values with counts, chosen ones even where no row has them now.
// `act` has choose(field, value), range(field, from, to) and find(field, text) → promise of the field.
export function drawFilters(node, found, state, act) {
  const opened = node.dataset.drawn ? node.querySelector("details")?.open : matchMedia("(min-width: 800px)").matches;
  node.dataset.drawn = "yes";
  const old = document.activeElement?.closest?.("#filters") ? document.activeElement : null;
  const known = found.columns.filter((one) => !OURS.has(one.name)).sort((a, b) => (a.name === "source") - (b.name === "source"));
  const groups = known.map((column) => drawField(column, state, act)).filter(Boolean);
  if (!groups.length) return node.replaceChildren();
  const chosen = state.f.length;
  node.replaceChildren(
    make("details", {open: opened}, make("summary", {}, "Filters", chosen ? ` · ${chosen} chosen` : null),
      found.among === "matches" ? make("p", {class: "hint"}, "The numbers count only texts that contain a word of the query.") : null,
      chosen ? make("button", {type: "button", class: "clear", "data-key": "clear", onclick: () => act.choose(null)}, "clear all") : null, groups),
  );
  if (!old) return;
  const now = [...node.querySelectorAll("[data-key]")].find((one) => one.dataset.key === old.dataset.key);
  (now ?? node.querySelector("summary")).focus();
  if (!now || now.type === "checkbox" || now.value === old.value) return;
  now.value = old.value; // what was typed meanwhile
  now.dispatchEvent(new Event("input"));
}

function drawField(column, state, act) {
  const chosen = state.f.filter(([name]) => name === column.name).map(([, value]) => value), values = chosen.filter((value) => !isRange(value));
  if (!column.filter && !column.bins && !chosen.length) return null;
  const section = make("section", {}, make("h2", {}, text(column.name, 60)));
  const range = chosen.find(isRange);
  if (column.bins || range) section.append(...drawRange(column, range ?? [null, null], act));
  const shown = {...column, values: column.bins ? column.values.filter((one) => values.includes(one.value)) : column.values};
  const list = make("ul", {}, drawValues(shown, values, act)), more = (column.distinct ?? 0) - column.values.length;
  section.append(...(more > 0 && !column.bins ? [drawFind(column, values, list, act), list, make("p", {class: "hint"}, `and ${more.toLocaleString("en")} more values`)] : [list]));
  return section;
}

function drawValues(column, chosen, act) {
  const counts = new Map(column.values.map((one) => [one.value, one.count]));
  if (column.missing || chosen.includes(null)) counts.set(null, column.missing ?? 0);
  const names = column.name === "source" ? distinctNames([...counts.keys()].filter((one) => one !== null)) : new Map();
  return [...counts].map(([value, count]) => {
    const key = JSON.stringify([column.name, value]);
    const box = make("input", {type: "checkbox", "data-key": key, onchange: () => act.choose(column.name, value)});
    box.checked = chosen.includes(value);
    const shown = value === null ? "no value" : names.get(value) ?? value;
    return make("li", {}, make("label", {}, box, make("span", {class: value === null ? "value hint" : "value", title: String(value ?? "").slice(0, 300)}, text(shown, 80)), make("span", {class: "count"}, count.toLocaleString("en"))));
  });
}

// A field that searches among more values than are listed.
function drawFind(column, chosen, list, act) {
  let timer = 0, number = 0;
  const field = make("input", {type: "search", class: "find", "data-key": `find ${column.name}`, placeholder: "find a value", "aria-label": `find a value of ${column.name}`, autocomplete: "off", spellcheck: "false", dir: "auto"});
  field.addEventListener("input", () => {
    const mine = ++number, asked = field.value.trim();
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const found = asked ? await act.find(column.name, asked).catch(() => null) : column;
      if (mine !== number || !found) return;
      list.replaceChildren(...drawValues(found, chosen, act), ...(found.values.length ? [] : [make("li", {class: "hint"}, "no value contains it")]));
    }, WAIT);
  });
  return field;
}

// From one end to the other, below how many of the answers are where.
function drawRange(column, [low, high], act) {
  const isDate = /^(date|timestamp)/.test(column.type), short = (value) => (isDate ? String(value).slice(0, 10) : typeof value === "number" && !Number.isInteger(value) ? String(Number(value.toPrecision(4))) : String(value));
  const bins = column.bins ?? [], largest = Math.max(1, ...bins.map((one) => one.count));
  const bars = bins.map(({from, to, count}) => {
    const isIn = (low === null || to >= low) && (high === null || from <= high);
    const bar = make("i", {title: `${short(from)} to ${short(to)}: ${count.toLocaleString("en")}`, class: isIn ? null : "out"});
    bar.style.height = `${count ? Math.max(6, (100 * count) / largest) : 0}%`; // the object model, which the policy leaves to scripts
    return bar;
  });
  const most = bins.find((one) => one.count === largest);
  const said = most ? `${column.name}: most texts, ${largest.toLocaleString("en")}, from ${short(most.from)} to ${short(most.to)}` : `${column.name}: no texts`;
  const ends = [["from", low, column.least], ["to", high, column.largest]].map(([end, value, reach]) => {
    const field = make("input", {type: isDate ? "date" : "number", step: isDate ? null : "any", "data-key": `${end} ${column.name}`, "aria-label": `${column.name} ${end}`, placeholder: short(reach), value: value === null ? null : isDate ? short(value) : value});
    field.addEventListener("change", () => act.range(column.name, ...[0, 1].map((at) => read(ends[at]))));
    return field;
  });
  const read = (field) => (field.value === "" ? null : isDate ? field.value : Number(field.value));
  return [
    bars.length ? make("div", {class: "bins", role: "img", "aria-label": said}, bars) : "",
    make("p", {class: "reach", "aria-hidden": "true"}, make("span", {}, text(short(column.least), 20)), make("span", {}, text(short(column.largest), 20))),
    make("div", {class: "range"}, ends[0], make("span", {}, "to"), ends[1]),
  ];
}

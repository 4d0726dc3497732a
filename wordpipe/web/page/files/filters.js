// The filters: values of each field with how many of the answers have them; of numbers and dates a range.
import {distinctNames, make, marks, marksAlike, shown, spaced, text} from "./dom.js";
import {isRange} from "./state.js";

const OURS = new Set(["row", "doc_id", "title", "text", "line", "id", "record_id", "anchor"]);
const WAIT = 150; // milliseconds after the last key
const PAUSE = 800; // the same for the end of a range, which is taken as far as it is typed
export const VALUES = 8;
export const FOUND = 20; // values that contain a text
const ALL = 1000; // values of a field, as many as the server lists

const opened = new Set(); // fields all of whose values are listed
const finding = new Map(); // field → the text that its values are to contain
let typing = null; // the range that is taken while it is typed: its field, and its ends as JSON
let later = null; // draws the ends of a range anew, one of which is being typed, when it is left
let question = "", drawnFor = ""; // what the filters were drawn for
let ticked = "", kept = ""; // the field in which a value was just ticked, and, after that, the one whose list keeps its order
const places = new Map(); // field → value → its place in the list

// Fields that can be chosen from, as `/facets` gives them: values with counts, chosen ones even where no row has them now.
// `act` has choose(field, value), range(field, from, to, whether it replaces the last one) → whether it is another one, and
// find(field, text, most) → promise of the field.
export function drawFilters(node, found, state, act) {
  const isTyped = document.activeElement?.dataset.typed && (!typing || typing.ends === JSON.stringify(rangeOf(typing.name, state)));
  const typed = isTyped ? document.activeElement : null; // it stays: in another field the caret would be lost
  later = null;
  const own = JSON.stringify([state.q, state.similar, state.index, state.mix]), whole = JSON.stringify([own, state.f, state.where]);
  if (own !== question || !(state.f.length || state.where.trim())) finding.clear();
  if (whole !== drawnFor) [question, drawnFor, kept, ticked] = [own, whole, ticked, ""];
  const opened = node.dataset.drawn ? node.querySelector("details")?.open : matchMedia("(min-width: 800px)").matches;
  node.dataset.drawn = "yes";
  const old = document.activeElement?.closest?.("#filters") ? document.activeElement : null;
  const known = found.columns.filter((one) => !OURS.has(one.name)).sort((a, b) => (a.name === "source") - (b.name === "source"));
  const groups = known.map((column) => drawField(column, found.total, state, act)).filter(Boolean);
  if (!groups.length && !typed) return node.replaceChildren();
  const chosen = state.f.length + (state.where.trim() ? 1 : 0);
  const drawn = make("details", {open: opened}, make("summary", {}, "Filters", chosen ? ` · ${chosen} chosen` : null),
    make("p", {class: "hint"}, found.among === "matches" ? "The numbers count only texts that contain a word of the query. " : null, node.dataset.anyOf),
    groups, make("button", {type: "button", class: "show-answers", "data-key": "show", onclick: show}, toShow(found, state)));
  if (typed) {
    const own = typed.closest(".ends"), other = redrawAround(own, typed, drawn);
    later = () => {
      later = null;
      if (!other || own.contains(document.activeElement)) return drawFilters(node, found, state, act);
      own.replaceWith(other); // what is about to be clicked elsewhere stays
    };
    return;
  }
  node.replaceChildren(drawn);
  if (!old) return;
  const now = [...node.querySelectorAll("[data-key]")].find((one) => one.dataset.key === old.dataset.key);
  (now ?? node.querySelector("summary")).focus();
  if (!now?.classList.contains("find") || now.value === old.value) return;
  now.value = old.value; // what was typed meanwhile
  now.dispatchEvent(new Event("input"));
}

// What stands around the ends of a range gives its place to what is drawn anew; they are not moved, as a field that is moved
// loses the focus. Gives the ends that are drawn anew, if there are any.
function redrawAround(ends, field, drawn) {
  const others = [...drawn.querySelectorAll("[data-key]")].find((one) => one.dataset.key === field.dataset.key)?.closest(".ends");
  for (let own = ends, other = others; other && other !== drawn; own = own.parentNode, other = other.parentNode) {
    for (const one of [...own.parentNode.childNodes]) if (one !== own) one.remove();
    const all = [...other.parentNode.childNodes], place = all.indexOf(other);
    own.before(...all.slice(0, place));
    own.after(...all.slice(place + 1));
  }
  return others;
}

const rangeOf = (name, state) => state.f.find(([one, value]) => one === name && isRange(value))?.[1] ?? [null, null];

// How many answers there are to show; by meaning every text is one, and those that have a word are counted.
function toShow({rows, among}, state) {
  const n = rows.toLocaleString("en"), isList = !state.q.trim() || (state.mix === "0" && among === "matches");
  if (state.similar || (!isList && among !== "matches")) return "show answers";
  return isList ? `show ${n} ${rows === 1 ? "answer" : "answers"}` : `show answers · ${n} with words of the question`;
}

// Where the filters stand above the answers: fold them.
function show(event) {
  const whole = event.target.closest("details");
  whole.open = false;
  whole.querySelector("summary").focus({preventScroll: true});
  document.querySelector("#results").scrollIntoView();
}

// What is chosen, each with a button that takes it away; `act` has choose(field, value) and condition(text).
export function drawChips(state, act) {
  const chip = (name, value, away) => make("button", {type: "button", class: "chip", title: `take away ${name}: ${value}`.slice(0, 300), onclick: away}, text(name, 40), ": ", text(value, 60), make("span", {"aria-hidden": "true"}, " ×"), make("span", {class: "unseen"}, ", take away"));
  const all = state.f.map(([name, value]) => chip(name, valueInWords(value), () => act.choose(name, value)));
  if (state.where.trim()) all.push(chip("condition", state.where, () => act.condition("")));
  return all.length > 1 ? [...all, make("button", {type: "button", class: "clear", onclick: () => act.choose(null)}, "clear all")] : all;
}

const valueInWords = (value) => (isRange(value) ? between(value) : value === null ? "no value" : spaced(value));

// What narrows the answers, a text for each field, whose values are alternatives, as filters_view.py says it.
export function inWords(state) {
  const names = [...new Set(state.f.map(([name]) => name))], condition = state.where.trim();
  return [...names.map((name) => `${name}: ${state.f.filter(([one]) => one === name).map(([, value]) => valueInWords(value)).join(" or ")}`), ...(condition ? [`condition: ${condition}`] : [])];
}

function between(ends) {
  const [low, high] = marksAlike(ends);
  return [low === null ? "" : `from ${low}`, high === null ? "" : `to ${high}`].filter(Boolean).join(" ");
}

function drawField(column, total, state, act) {
  const chosen = state.f.filter(([name]) => name === column.name).map(([, value]) => value), values = chosen.filter((value) => !isRange(value));
  const lacksSome = column.missing > 0 && column.missing < total && column.distinct !== 0;
  if (!column.filter && !column.bins && !lacksSome && !chosen.length) return null;
  const section = make("section", {}, make("h2", {}, text(column.name, 60)));
  const range = chosen.find(isRange);
  if (column.bins || range) section.append(...drawRange(column, range ?? [null, null], act));
  const isListed = column.filter && !column.bins;
  const shown = {...column, values: isListed ? column.values : column.values.filter((one) => values.includes(one.value))};
  const list = make("ul", {}, drawValues(shown, values, act)), more = (column.distinct ?? 0) - column.values.length;
  if (!(more > 0) || !isListed) section.append(list);
  else {
    const line = drawMore(column, more, values, list, act);
    section.append(drawFind(column, values, list, line, act), list, line);
  }
  return section;
}

// A line with a button that lists all values of a field, or few again; its list() lists them as it was last chosen.
function drawMore(column, more, chosen, list, act) {
  const button = make("button", {type: "button", "data-key": `more ${column.name}`, "aria-expanded": "false", onclick: () => (opened.has(column.name) ? fewer() : open())});
  const left = make("span", {class: "hint"});
  const fewer = () => {
    opened.delete(column.name);
    list.classList.remove("all");
    list.replaceChildren(...drawValues(column, chosen, act));
    button.textContent = `and ${more.toLocaleString("en")} more ${more === 1 ? "value" : "values"}`;
    button.setAttribute("aria-expanded", "false");
    left.textContent = "";
  };
  const open = async () => {
    const found = await act.find(column.name, "", ALL).catch(() => null);
    if (!found || finding.get(column.name)?.trim()) return; // values are searched for meanwhile
    opened.add(column.name);
    list.classList.add("all");
    list.replaceChildren(...drawValues(found, chosen, act));
    button.textContent = "fewer values";
    button.setAttribute("aria-expanded", "true");
    const out = (found.distinct ?? 0) - found.values.length;
    left.textContent = out > 0 ? ` ${out.toLocaleString("en")} rarer values are not listed; find them above` : "";
  };
  const line = make("p", {}, button, left);
  line.list = () => {
    const isOpened = opened.has(column.name);
    fewer();
    if (isOpened) open();
  };
  line.list();
  return line;
}

// The most frequent first, those without a value last; where a value was just ticked each stays in its place, and values that
// were not listed follow.
function inOrder(name, counts) {
  const known = new Map(places.get(name));
  places.set(name, known);
  if (name !== kept) known.clear();
  for (const value of counts.keys()) if (value !== null && !known.has(value)) known.set(value, known.size);
  const order = (value) => known.get(value) ?? counts.size + known.size;
  return [...counts].sort(([one], [other]) => order(one) - order(other));
}

function drawValues(column, chosen, act) {
  const counts = new Map(column.values.map((one) => [one.value, one.count]));
  if (column.missing || chosen.includes(null)) counts.set(null, column.missing ?? 0);
  const names = column.name === "source" ? distinctNames([...counts.keys()].filter((one) => one !== null)) : new Map();
  return inOrder(column.name, counts).map(([value, count]) => {
    const key = JSON.stringify([column.name, value]);
    const box = make("input", {type: "checkbox", "data-key": key, onchange: () => ((ticked = column.name), act.choose(column.name, value))});
    box.checked = chosen.includes(value);
    const shown = value === null ? "no value" : names.get(value) ?? spaced(value);
    return make("li", {}, make("label", {}, box, make("span", {class: value === null ? "value hint" : "value", title: String(value ?? "").slice(0, 300)}, text(shown, 80)), make("span", {class: "count"}, count.toLocaleString("en"))));
  });
}

// A field that searches among more values than are listed; meanwhile the `line` that lists all of them is not there.
function drawFind(column, chosen, list, line, act) {
  let timer = 0, number = 0;
  const field = make("input", {type: "search", class: "find", "data-key": `find ${column.name}`, placeholder: "find a value", "aria-label": `find a value of ${column.name}`, autocomplete: "off", spellcheck: "false", dir: "auto"});
  field.addEventListener("input", () => {
    const mine = ++number, asked = field.value.trim();
    finding.set(column.name, field.value);
    clearTimeout(timer);
    line.hidden = Boolean(asked);
    if (!asked) return line.list();
    timer = setTimeout(async () => {
      const found = await act.find(column.name, asked, FOUND).catch(() => null);
      if (mine !== number || !found) return;
      const out = (found.distinct ?? 0) - FOUND;
      list.replaceChildren(...drawValues(found, chosen, act),
        ...(!found.distinct ? [make("li", {class: "hint"}, "no value contains it")] : []),
        ...(out > 0 ? [make("li", {class: "hint"}, `and ${out.toLocaleString("en")} more that contain it`)] : []));
    }, WAIT);
  });
  if (finding.get(column.name)) {  // a value was ticked: the text stays, and what contains it
    field.value = finding.get(column.name);
    field.dispatchEvent(new Event("input"));
  }
  return field;
}

// From one end to the other, below how many of the answers are where; a click on a bar takes its range.
function drawRange(column, [low, high], act) {
  const isDate = /^(date|timestamp)/.test(column.type), short = (value) => (isDate ? String(value).slice(0, 10) : marks(Number(Number(value).toPrecision(Number.isInteger(value) ? 15 : 4))));
  const bins = column.bins ?? [], largest = Math.max(1, ...bins.map((one) => one.count)), isStepped = /^(u?int|date)/.test(column.type);
  const bars = bins.map(({from, to, count}, place) => {
    const chosen = [from, to].map((end) => (isDate ? short(end) : end)), held = heldOf(chosen, [low, high].map((end) => (isDate && end !== null ? short(end) : end)), isStepped, place === bins.length - 1);
    const bar = make("i", {title: `${short(from)} to ${short(to)}: ${count.toLocaleString("en")}`, class: held, onclick: () => act.range(column.name, ...chosen)});
    bar.style.height = `${count ? Math.max(6, (100 * count) / largest) : 0}%`; // the object model, which the policy leaves to scripts
    return bar;
  });
  const most = bins.find((one) => one.count === largest);
  const said = most ? `${column.name}: most texts, ${largest.toLocaleString("en")}, from ${short(most.from)} to ${short(most.to)}` : `${column.name}: no texts`;
  const wrong = make("p", {class: "wrong", "aria-live": "polite"}), number = (value) => (isDate ? value : toNumber(value));
  const written = isDate ? [] : marksAlike([low, high]);
  const ends = [["from", low, column.least], ["to", high, column.largest]].map(([end, value, reach], at) => {
    const field = make("input", {class: "range-end", type: isDate ? "date" : "text", inputmode: isDate ? null : "decimal", autocomplete: "off", "data-key": `${end} ${column.name}`, "aria-label": `${column.name} ${end}`, placeholder: short(reach), value: value === null ? null : isDate ? short(value) : written[at]});
    field.addEventListener("input", () => {
      field.dataset.typed = "yes";
      wait(field);
    });
    // that of a date comes with each digit of the year
    field.addEventListener("change", () => (isDate && document.activeElement === field ? wait(field) : take()));
    field.addEventListener("keydown", (event) => {
      if (isDate && /^\d$/.test(event.key)) field.dataset.typed = "yes"; // no other event says that a part of it is typed
      if (isDate && event.key === "Enter") take();
    });
    field.addEventListener("blur", () => (field.dataset.typed ? take() : drawLater()));
    return field;
  });
  let timer = 0;
  function wait(field) {
    clearTimeout(timer);
    timer = setTimeout(() => isWhole(field) && take(true), PAUSE);
  }
  const read = () => ends.map((field) => (field.validity.badInput ? NaN : field.value.trim() === "" ? null : number(field.value)));
  // What is typed may go on, but may be meant as it is: a number that ends in a digit, or a date, among those that there are.
  function isWhole(field) {
    const [low, high] = read(), own = field === ends[0] ? low : high, reach = [column.least, column.largest].map((end) => (isDate ? String(end).slice(0, 10) : end));
    const isRead = own !== null && ![low, high].some(Number.isNaN) && (isDate || /\d\s*$/.test(field.value)) && own >= reach[0] && own <= reach[1];
    return isRead && !(low !== null && high !== null && low > high) && field.dataset.typed && field.isConnected;
  }
  // Take the range; while it is typed, one entry of the history is enough for all that it was.
  function take(isTyped = false) {
    clearTimeout(timer);
    const [low, high] = read(), none = [low, high].findIndex(Number.isNaN), isTurned = low !== null && high !== null && low > high;
    ends.forEach((field, at) => field.setAttribute("aria-invalid", String(at === none || (none < 0 && isTurned))));
    wrong.textContent = none >= 0 ? (isDate ? "the date is not complete" : `${shown(ends[none].value, 30)} is no number`) : isTurned ? `the range begins at ${shown(ends[0].value, 30)} and ends before it, at ${shown(ends[1].value, 30)}` : "";
    if (wrong.textContent) return;
    const isOther = act.range(column.name, low, high, typing?.name === column.name);
    typing = isTyped ? {name: column.name, ends: JSON.stringify([low, high])} : null;
    if (isTyped) return;
    for (const field of ends) delete field.dataset.typed;
    if (!isOther) drawLater();
  }
  // When what comes next has the focus.
  function drawLater() {
    setTimeout(() => later?.());
  }
  return [
    bars.length ? make("div", {class: "bins", role: "img", "aria-label": said}, bars) : "",
    make("p", {class: "reach", "aria-hidden": "true"}, make("span", {}, text(short(column.least), 20)), make("span", {}, text(short(column.largest), 20))),
    steps(bins) ? make("p", {class: "hint"}, steps(bins)) : "",
    make("div", {class: "ends"}, make("div", {class: "range"}, make("span", {}, "from"), ends[0], make("span", {}, "to"), ends[1]), wrong),
  ];
}

// The class of a bar: `out` of a range, `part` of it in the range; null: all of it is. Bars of whole numbers
// and days, and the last bar, reach up to `to`, others stay below it.
function heldOf([from, to], [low, high], isStepped, isLast) {
  if ((low === null || low <= from) && (high === null || to <= high)) return null;
  const isBelow = high !== null && (high < from || (high === from && !isStepped)), isAbove = low !== null && (to < low || (to === low && !isStepped && !isLast));
  return isBelow || isAbove ? "out" : "part";
}

// What is to be known of bars that are not of equal width.
function steps(bins) {
  const wide = bins.map(({from, to}) => (typeof from === "number" ? to - from : Date.parse(to) - Date.parse(from))), inner = wide.slice(1, -1);
  if (inner.length < 2) return "";
  if (Math.max(...inner) > 2 * Math.min(...inner) + 2) return "The bars are wider to the right: 1, 2, 5, 10 …";
  return Math.max(wide[0], wide.at(-1)) > 2 * Math.max(...inner) ? "The outermost bars have all that is further out." : "";
}

// A number as people write it, with marks of thousands or without; NaN of another text.
function toNumber(written) {
  const plain = written.trim().replace(/\u2212/g, "-"), grouped = /^[-+]?\d{1,3}([,'\u2019\s]\d{3})+(\.\d+)?$/.test(plain);
  return grouped ? Number(plain.replace(/[,'\u2019\s]/g, "")) : /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
}

// The answers: titles and passages with their marked words, near duplicates folded, keys that walk through them.
import {copy, make, marks, shown, text} from "./dom.js";
import {drawWhy} from "./why.js";

const ALIKE = 0.7; // share of runs of three words that two texts have in common, from which one is folded below the other
const TITLE = 200;
const PLACES = 3; // where else a text stands
const FIELDS = 3; // in the line of an answer
const SHORT = 60; // characters of a value in that line
const DATE = /^\d{4}-\d\d-\d\d/;
const TWICE = 300; // milliseconds within which a second click selects a word
const LACKED = 3; // words that a text lacks
const STEPS = 4; // of the strength of an answer
const EMPTY_LINES = /\n(?:[^\S\n]*\n){2,}/g; // of which one is shown

// Hits with those that say nearly the same, or whose passages do, below the first of them; in a list that is not by relevance each stands alone.
export function folded(hits, passages, folds) {
  const groups = [];
  hits.forEach((hit, place) => {
    const runs = [hit.text ?? "", passages[place].pieces.map(([piece]) => piece).join("")].map(runsOf);
    const first = folds ? groups.find((one) => runs.some((own, at) => alike(one.runs[at], own))) : null;
    if (first) first.others.push({hit, passage: passages[place]});
    else groups.push({hit, passage: passages[place], runs, others: []});
  });
  return groups;
}

// The place of the first group after all that fulfil the query, 0 where none does; -1 where no such group comes.
export function lessRelatedFrom(groups) {
  const place = groups.findLastIndex(({hit, others}) => [hit, ...others.map((one) => one.hit)].some((one) => one.related !== false)) + 1;
  return place < groups.length ? place : -1;
}

function runsOf(whole) {
  const words = whole.slice(0, 4000).toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  if (words.length < 4) return new Set([words.join(" ")]);
  return new Set(words.slice(2).map((word, at) => `${words[at]} ${words[at + 1]} ${word}`));
}

function alike(some, others) {
  if (!some.size || !others.size) return false;
  let both = 0;
  for (const run of some) both += others.has(run) ? 1 : 0;
  return both / (some.size + others.size - both) >= ALIKE;
}

// One answer; `less` says whether it is the "first" of those that are less related, or "below" it. `act` has why(hit) → promise of the hit with what explains it, similar(hit), and choose(field, value).
export function drawHit({hit, passage, others = []}, act, largest, less = "") {
  const title = passage.title ?? [];
  const place = placeOf(hit, act.names);
  const saysMore = hit.text !== hit.title; // not so of a record that is a title alone
  const body = make("p", {class: passage.code ? "text code" : "text", dir: "auto"});
  const node = make("li", {class: "hit", tabindex: "-1", id: `answer-${hit.rank}`, value: hit.rank});
  const why = make("button", {type: "button", "aria-expanded": "false", class: "why-button"}, "why");
  const panel = make("div", {class: "panel", hidden: true});
  const {pieces, before, after} = passage;
  const words = make("span", {class: "words"}, before ? (/^\s/.test(pieces[0][0]) ? "…\n" : "… ") : "", marked(pieces, 120_000), after ? " …" : "");
  body.append(words);
  const open = async () => {
    const opened = panel.hidden;
    panel.hidden = !opened;
    why.setAttribute("aria-expanded", String(opened));
    if (opened && !panel.childElementCount) panel.replaceChildren(drawWhy(await act.why(hit), act.asked));
  };
  why.addEventListener("click", open);

  const isTitled = title.some(([piece]) => piece.trim()), page = act.read(hit), to = hit.link ?? page;
  const link = isTitled && to === page ? make("a", {href: page}, marked(cutPieces(title, TITLE), TITLE)) : make("a", {href: page}, "read");
  openByClick(words, link);
  node.open = () => link.click();
  const quote = make("button", {type: "button", title: "copy the passage, its place and its address", onclick: () => copy(quote, [title.map(([piece]) => piece).join(""), body.textContent, place, new URL(hit.link ?? act.address(hit), location.href).href].filter(Boolean).join("\n"))}, "copy");
  node.append(
    ...[
      less === "first" ? make("p", {class: "near"}, "less related: less than half of the question's words (rare ones count more)") : null,
      isTitled ? make("h2", {class: "title", dir: "auto"}, to === page ? link : make("a", {href: to}, marked(cutPieces(title, TITLE), TITLE))) : null,
      saysMore ? body : null,
      make("div", {class: "foot"},
        drawAbout(hit, passage, place, largest, act, less),
        make("p", {class: "actions"},
          why,
          passage.has_vector === false ? null : make("button", {type: "button", onclick: () => act.similar(hit)}, "more like this"),
          quote,
          isTitled && to === page ? null : link,
        ),
      ),
      panel,
      others.length
        ? make("details", {class: "others"}, make("summary", {}, `${others.length} more ${others.length === 1 ? "hit" : "hits"} with nearly the same text`),
            make("ol", {}, others.map((one) => drawHit(one, act, largest, less && "below"))))
        : null,
    ].filter(Boolean),
  );
  return node;
}

// A click on the words of a passage opens its text, but none that selects: a word by two clicks, or more of it by a movement.
function openByClick(words, link) {
  let timer = 0;
  words.addEventListener("click", (event) => {
    clearTimeout(timer);
    if (event.detail === 1 && getSelection().isCollapsed && !(event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)) timer = setTimeout(() => link.click(), TWICE);
  });
}

const isGiven = (value) => value !== undefined && value !== null && value !== "" && value.length !== 0;

// The line of an answer: the fields of order and filters, where it stands and its best fields; it opens a list of all fields, if there are any.
function drawAbout(hit, passage, place, largest, act, less) {
  const fields = Object.entries(hit.metadata ?? {}).filter(([, value]) => isGiven(value));
  const words = passage.fields ?? {}, known = {...hit, ...hit.metadata};
  const best = act.show.length ? act.show.map((name) => [name, known[name]]).filter(([, value]) => isGiven(value)) : bestOf(fields, words);
  const first = act.ahead.map((name) => [name, known[name]]).filter(([, value]) => isGiven(value));
  const draw = ([name, value]) => drawField(name, words[name] ? marked(words[name], 200) : text(said(value), 80));
  const facts = [
    largest ? strength(hit.score / largest, less) : null,
    ...first.map(draw),
    passage.lacks?.length ? make("span", {class: "lacks", title: `without ${passage.lacks.join(", ")}`.slice(0, 300)}, "without ", make("s", {}, text(passage.lacks.slice(0, LACKED).join(", "), 120)), passage.lacks.length > LACKED ? ` and ${passage.lacks.length - LACKED} more` : null) : null,
    place ? make("span", {class: "place"}, text(place, 80)) : null,
    hit.index ? drawField("index", text(hit.index, 80), "field index") : null,
    ...best.filter(([name]) => !act.ahead.includes(name)).map(draw),
  ].filter(Boolean);
  const line = make("span", {class: "facts"}, facts.map((one) => [one, " "]));
  const hasId = hit.id !== undefined && hit.id !== null;
  if (!fields.length && !hasId && !hit.also_in) return make("p", {class: "about"}, line);
  const rows = [
    place ? ["place", copyButton(place, "place", place)] : null,
    hasId ? ["id", copyButton(String(hit.id), "id", hit.id)] : null,
    hit.also_in ? ["also in", text(alsoIn(hit.also_in), 2000)] : null,
    ...fields.map(([name, value]) => [name, text(said(value), 2000)]),
  ].filter(Boolean);
  return make("details", {class: "about"}, make("summary", {}, line, make("span", {class: "rest"}, "details")),
    make("dl", {}, rows.map(([name, value]) => make("div", {}, make("dt", {}, text(name, 60)), make("dd", {}, value)))));
}

// Those in which words of the query were found, then a date, then the first short ones.
function bestOf(fields, words) {
  const order = ([name, value]) => (words[name] ? 0 : DATE.test(String(value)) ? 1 : 2);
  return fields.filter(([name, value]) => words[name] || said(value).length <= SHORT).sort((a, b) => order(a) - order(b)).slice(0, FIELDS);
}

const said = (value) => (Array.isArray(value) ? value.map(marks).join(", ") : typeof value === "object" ? JSON.stringify(value) : marks(value));

function drawField(name, value, kind = "field") {
  return make("span", {class: kind}, make("span", {class: "field-name"}, text(name, 40), " "), value);
}

// How strong an answer is beside the strongest one: a share of it in four steps, below the line of less related ones at most two.
function strength(share, less) {
  const n = Math.max(1, Math.min(less ? STEPS / 2 : STEPS, Math.ceil(STEPS * share)));
  return make("span", {class: "score", role: "img", "aria-label": `strength ${n} of ${STEPS}`, title: `strength ${n} of ${STEPS} beside the strongest answer`}, "●".repeat(n) + "○".repeat(STEPS - n));
}

// Pieces of one text, in its one direction: an element for each would lay them out from left to right.
function marked(pieces, most) {
  return pieces.map(([piece, isMarked]) => (isMarked ? make("mark", {}, shown(piece, most)) : shown(piece, most).replace(EMPTY_LINES, "\n\n")));
}

function copyButton(value, what, shown) {
  const button = make("button", {type: "button", class: `copy ${what}`, title: `copy ${value.slice(0, 300)}`}, text(shown, 80));
  button.addEventListener("click", () => copy(button, value));
  return button;
}

// Where an answer stands: its page, slide or cell, else its source and line, with as many folders as tell its file from others.
function placeOf(hit, names) {
  const line = hit.passage_line ?? hit.line, source = String(hit.source ?? "");
  const place = hit.place ?? (line === null || line === undefined ? source : `${source}:${line}`);
  return source && place.startsWith(source) ? names.get(source) + place.slice(source.length) : place;
}

// Where else the text of an answer stands.
function alsoIn({count, places}) {
  const some = places.slice(0, PLACES);
  return some.join(", ") + (count > some.length ? ` and ${(count - some.length).toLocaleString("en")} more` : "");
}

function cutPieces(pieces, most) {
  const cut = [];
  let left = most;
  for (const [piece, isMarked] of pieces) {
    if (left <= 0) break;
    cut.push([piece.length > left ? piece.slice(0, left) + "…" : piece, isMarked]);
    left -= piece.length;
  }
  return cut;
}

// Whether ↓ has no other use where the focus is.
const isFree = (at) => !at?.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]") && !at?.closest?.(".export");

// ↓ ↑ from the field, or from where no other use of ↓ is, through the answers, Enter for the text, Escape back to the field, and out of it: it erases nothing. The menu
// of exports is closed by the first Escape, and by a click elsewhere, which opens no answer.
export function walkByKeys(field, list) {
  const all = () => [...list.querySelectorAll("li.hit")].filter((one) => one.offsetParent !== null);
  const move = (step) => {
    const hits = all();
    const at = hits.indexOf(document.activeElement?.closest?.("li.hit"));
    const begin = document.activeElement === field ? 0 : (hits.findIndex((one) => one.getBoundingClientRect().bottom > 0) + hits.length) % hits.length; // the first in sight, or the last one
    const next = at < 0 ? (step > 0 ? begin : -1) : at + step;
    if (next < 0) field.focus();
    else hits[Math.min(next, hits.length - 1)]?.focus();
    hits[next]?.scrollIntoView({block: "nearest"});
  };
  const menu = () => list.querySelector(".export[open]");
  const close = (opened) => ((opened.open = false), opened.querySelector("summary"));
  document.addEventListener("click", (event) => {
    const opened = event.detail ? menu() : null; // no key has it
    if (!opened || opened.contains(event.target)) return;
    close(opened);
    if (event.target.closest("li.hit")) event.preventDefault(), event.stopPropagation();
  }, true);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const at = document.activeElement;
    const typing = at?.matches?.("input:not([type=checkbox], [type=range]), textarea, select");
    const inHits = at?.closest?.("li.hit");
    const isWhole = at === field && field.value && field.selectionStart === 0 && field.selectionEnd === field.value.length;
    if (event.key === "Escape" && menu()) close(menu()).focus();
    else if (event.key === "/" && (!typing || isWhole)) field.focus(), field.select(); // of a whole selected question nothing is replaced
    else if (event.key === "ArrowDown" && (at === field || inHits || isFree(at)) && all().length) move(1);
    else if (event.key === "ArrowUp" && inHits) move(-1);
    else if (event.key === "Enter" && at?.matches?.("li.hit")) at.open();
    else if (event.key === "Escape" && at?.matches?.(".find") && at.value) return; // the browser empties it
    else if (event.key === "Escape" && at === field) field.blur();
    else if (event.key === "Escape") field.focus();
    else return;
    event.preventDefault();
  });
}

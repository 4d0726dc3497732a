// What is asked, as it stands in the URL: q (prefix: its last word may be a beginning), or similar (a row) or similar_id (of a record), index, k, mix, docs, texts (whole), sort, where, f, and what weighs the rows
// (newer_better, half_life, boost) or takes it as it is typed (exact), which has no field in the form. The page without a script knows the same.

export const K = 10;
const PASSAGE = 320;
const WHOLE = 100_000; // characters of a text that is shown whole

const ID = "id "; // before the id of a record whose like is asked for; else it is a row
const WEIGHED = ["newer_better", "half_life", "boost", "exact"];

export function read(search) {
  const given = new URLSearchParams(search);
  return {
    q: given.get("q") ?? "", similar: given.get("similar_id") ? `${ID}${given.get("similar_id")}` : given.get("similar") ?? "", index: given.get("index") ?? "",
    k: Math.max(1, Number.parseInt(given.get("k"), 10) || K), mix: /^([0-9]|10)$/.test(given.get("mix") ?? "") ? given.get("mix") : "auto",
    docs: given.get("docs") === "1", whole: given.get("texts") === "whole", sort: given.get("sort") ?? "", where: given.get("where") ?? "", f: chosen(given.get("f")),
    begun: given.get("prefix") === "1", // the last word may be the beginning of a longer one: no Enter said that it is finished
    weighed: Object.fromEntries(WEIGHED.map((name) => [name, given.get(name)]).filter(([, value]) => value)),
  };
}

// Chosen values of filters, and ranges, [["lang", "de"], ["year", [1990, null]], …]; what is no such list chooses nothing.
function chosen(written) {
  try {
    const pairs = JSON.parse(written || "[]");
    const good = Array.isArray(pairs) && pairs.every((one) => Array.isArray(one) && one.length === 2 && typeof one[0] === "string");
    return good ? pairs.filter(([, value]) => typeof value !== "object" || value === null || (isRange(value) && value.length === 2)).slice(0, 64) : [];
  } catch {
    return [];
  }
}

export const isRange = (value) => Array.isArray(value);

// The URL of a state, from the page on, which may have a prefix; what is as it is by itself is left out, the index where it is the only one.
export function url(state, only) {
  const given = new URLSearchParams();
  if (state.similar.startsWith(ID)) given.set("similar_id", state.similar.slice(ID.length));
  else if (state.similar) given.set("similar", state.similar);
  if (state.q) given.set("q", state.q); // beside what is similar the way back
  if (state.begun && state.q.trim()) given.set("prefix", "1");
  if (state.index && state.index !== only) given.set("index", state.index);
  if (state.k !== K) given.set("k", state.k);
  if (state.mix !== "auto") given.set("mix", state.mix);
  if (state.docs) given.set("docs", "1");
  if (state.whole) given.set("texts", "whole");
  if (state.sort) given.set("sort", state.sort);
  if (state.where) given.set("where", state.where);
  if (state.f.length) given.set("f", JSON.stringify(state.f));
  for (const [name, value] of Object.entries(state.weighed)) given.set(name, value);
  const query = given.toString();
  return query ? `./?${query}` : "./";
}

// What comes before an order by a field, where a question has several words; conditions and left out words are none. As in start_view.py.
export function firstOf(state) {
  const words = state.q.split(/\s+/).filter((one) => /[\p{L}\p{N}]/u.test(one) && !/^-|[:<>=]|^(AND|OR|NOT)$/.test(one));
  return state.sort && !state.similar && words.length > 1 ? "first texts with at least half of the question's words (rare ones count more), these by " : "";
}

// The endpoint and the parameters that answer a state.
export function request(state, more = {}) {
  const params = {index: state.index, k: state.k, ...narrowed(state), format: "json", passage: state.whole ? WHOLE : PASSAGE};
  const like = {...params, per_document: 1}; // else most are of its own document
  if (state.similar.startsWith(ID)) return ["./similar", {...like, id: state.similar.slice(ID.length)}];
  if (state.similar) return ["./similar", {...like, row: state.similar}];
  return ["./search", {q: state.q, ...params, prefix: state.begun ? 1 : "", per_document: state.docs ? 1 : 0, count: state.docs && !state.q.trim() ? 1 : "", ...(state.sort ? {sort: state.sort} : {...mixed(state.mix), ...state.weighed}), ...more}];
}

// The address of the page, as far as the server reads it.
function pageNow() {
  const whole = location.href.split("#")[0];
  return whole.length > 2000 ? new URL("./", whole).href : whole;
}

// The address of so many answers as a table or as JSON, both with links.
export function exported(path, params, form) {
  const given = Object.entries({...params, format: form === "csv" ? "spreadsheet" : form, base: pageNow(), passage: "", explain: "", count: ""}).filter(([, value]) => value !== "" && value !== 0);
  return `${path}?${new URLSearchParams(given)}`;
}

const COMPARED = {"<=": " to ", ">=": " from ", "!=": " not ", "<>": " not ", "<": " under ", ">": " over "}; // as in filters_view.py

// The name of that file: what is asked, or the text that others are like, the chosen values, which answers, the order, and the day.
export function fileName(state, liked, kind, form) {
  const asked = state.similar ? `like ${liked}` : state.q, day = new Date(), two = (n) => String(n).padStart(2, "0");
  const narrowed = [...state.f.map(([, value]) => (isRange(value) ? value.map((end) => end ?? "").join(" to ") : value ?? "no value")), state.where.replace(/[<>!]=|<>|[<>]/g, (sign) => COMPARED[sign])].join(" "), order = state.sort && !state.similar ? `by ${state.sort}` : "";
  const parts = [asked, narrowed, state.docs && !state.similar ? "one per document" : "", kind.replace(/(\d),(?=\d)/g, "$1"), order, `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`];
  return `${parts.map((one) => one.normalize("NFKC").replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60).replace(/^-+|-+$/g, "")).filter(Boolean).join("_")}.${form}`;
}

// From words (0) to vectors (10).
function mixed(mix) {
  if (mix === "auto") return {};
  if (mix === "0" || mix === "10") return {mode: mix === "0" ? "lexical" : "dense"};
  return {mode: "hybrid", weight: Number(mix) / 10};
}

// What stands in the state for the like of a hit: its id, which stays when the index is made again, or its row.
export const likeOf = (hit) => (hit.id === undefined || hit.id === null ? String(hit.row) : `${ID}${hit.id}`);

// The page of the text of a hit: by the id of its record, which stays when the index is made again, and its row; with filters and order for the way back.
export function textUrl(hit, state) {
  const own = String(hit.id ?? ""), name = own === "." || own === ".." ? "" : encodeURIComponent(own.toWellFormed?.() ?? own);
  const given = new URLSearchParams({row: hit.row, index: hit.index ?? state.index});
  if (state.q.trim()) given.set("q", state.q.trim());
  const way = {k: state.k === K ? "" : state.k, mix: state.mix === "auto" ? "" : state.mix, docs: state.docs ? 1 : "", texts: state.whole ? "whole" : "", sort: state.sort, where: state.where, f: state.f.length ? JSON.stringify(state.f) : "", prefix: state.begun ? 1 : "", ...state.weighed};
  for (const [name, value] of Object.entries(way)) if (value) given.set(name, value);
  return `./text/${name}?${given}`;
}

// The fields with which the line of an answer begins: that of the order, and those of filters; title and source stand elsewhere.
export function ahead(state) {
  const names = [state.similar ? "" : state.sort.replace(/:(asc|desc)$/, ""), ...state.f.map(([name]) => name)];
  return [...new Set(names)].filter((name) => name && !["title", "text", "source"].includes(name));
}

// What `/facets` is asked for a state: the values that are left, among the answers to the question where it is asked by words.
export function facets(state, values) {
  const isAsked = !state.similar && state.mix !== "10";
  return {index: state.index, values, q: isAsked ? state.q.trim() : "", prefix: isAsked && state.begun ? 1 : "", ...narrowed(state)};
}

// The filters: chosen values, of which those of one column are alternatives, and the condition that was typed.
function narrowed(state) {
  return {where: state.where.trim(), f: state.f.length ? JSON.stringify(state.f) : ""};
}

const RUN = /[\p{L}\p{N}\p{M}_]/u;
const plain = (word) => word.normalize("NFKC").toLowerCase();

// A question with another word in the place of one, which is found in whatever case, and only as a whole word.
export function replaced(question, word, other) {
  const escaped = word.replace(/[.*+?^${}()|[\]\\\/-]/g, "\\$&");
  const whole = new RegExp(`(?<!${RUN.source})${escaped}(?!${RUN.source})`, "giu");
  const found = question.replace(whole, () => other);
  if (found !== question) return found;
  return question.replace(/[\p{L}\p{N}\p{M}_]+/gu, (one) => (plain(one) === plain(word) ? other : one));
}

// The word of a text that a caret stands in or behind; nothing where it stands between words.
export function wordAt(text, caret) {
  const before = text.slice(0, caret).match(/[\p{L}\p{N}\p{M}_'’-]*$/u)[0], after = text.slice(caret).match(/^[\p{L}\p{N}\p{M}_'’-]*/u)[0];
  return before ? plain(before + after) : "";
}

export const isWord = (word, other) => plain(word) === plain(other);

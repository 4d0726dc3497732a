// What is asked, as it stands in the URL: q or similar, index, k, mix, docs, where, f. The page without a script knows the same.

export const K = 10;
export const PASSAGE = 320;

export function read(search) {
  const given = new URLSearchParams(search);
  return {
    q: given.get("q") ?? "", similar: given.get("similar") ?? "", index: given.get("index") ?? "",
    k: Math.max(1, Number.parseInt(given.get("k"), 10) || K), mix: /^([0-9]|10)$/.test(given.get("mix") ?? "") ? given.get("mix") : "auto",
    docs: given.get("docs") === "1", where: given.get("where") ?? "", f: chosen(given.get("f")),
  };
}

// Chosen values of filters, [["lang", "de"], …]; what is no such list chooses nothing.
function chosen(written) {
  try {
    const pairs = JSON.parse(written || "[]");
    const good = Array.isArray(pairs) && pairs.every((one) => Array.isArray(one) && one.length === 2 && typeof one[0] === "string");
    return good ? pairs.filter((one) => typeof one[1] !== "object" || one[1] === null).slice(0, 64) : [];
  } catch {
    return [];
  }
}

// The URL of a state; what is as it is by itself is left out.
export function url(state, first) {
  const given = new URLSearchParams();
  if (state.similar) given.set("similar", state.similar);
  else if (state.q) given.set("q", state.q);
  if (state.index && state.index !== first) given.set("index", state.index);
  if (state.k !== K) given.set("k", state.k);
  if (state.mix !== "auto") given.set("mix", state.mix);
  if (state.docs) given.set("docs", "1");
  if (state.where) given.set("where", state.where);
  if (state.f.length) given.set("f", JSON.stringify(state.f));
  const query = given.toString();
  return query ? `/?${query}` : "/";
}

// The endpoint and the parameters that answer a state.
export function request(state, columns, more = {}) {
  const params = {index: state.index, k: state.k, where: condition(state, columns), format: "json"};
  if (state.similar) return ["/similar", {...params, row: state.similar}];
  return ["/search", {q: state.q, ...params, passage: PASSAGE, per_document: state.docs ? 1 : 0, ...mixed(state.mix), ...more}];
}

// From words (0) to vectors (10).
function mixed(mix) {
  if (mix === "auto") return {};
  if (mix === "0" || mix === "10") return {mode: mix === "0" ? "lexical" : "dense"};
  return {mode: "hybrid", weight: Number(mix) / 10};
}

// What `where` says: one of the chosen values of a column, in every column that has some, and the condition that was typed.
export function condition(state, columns) {
  const lists = new Set(columns.filter((one) => /list|\[\]/.test(one.type)).map((one) => one.name));
  const parts = new Map();
  for (const [name, value] of state.f) {
    const column = `"${name.replaceAll('"', '""')}"`;
    const literal = typeof value === "string" ? `'${value.replaceAll("'", "''")}'` : String(value);
    const said = value === null ? `${column} is null` : lists.has(name) ? `${literal} in ${column}` : `${column} = ${literal}`;
    parts.set(name, [...(parts.get(name) ?? []), said]);
  }
  const all = [...parts.values()].map((some) => `(${some.join(" or ")})`);
  const typed = state.where.trim();
  if (typed) all.push(all.length ? `(${typed})` : typed);
  return all.join(" and ");
}

// Whether two states ask for the same filters, whatever is asked.
export const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

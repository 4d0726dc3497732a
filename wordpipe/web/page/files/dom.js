// Elements out of data, and the server's answers. Text is only ever text: nothing here parses HTML.

// An element: make("a", {href: "./", class: "x", onclick: f}, "text", other). What is null is left out.
export function make(name, attributes = {}, ...inner) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...inner.flat(9).filter((one) => one !== null && one !== undefined && one !== ""));
  return node;
}

// Marks of direction and controls, so that they can be seen and turn nothing around.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

// A text from a corpus in an element of its own: cut, and kept from changing the direction of what is around it.
export function text(value, most = 2000) {
  return make("bdi", {}, shown(value, most));
}

// The same without an element, for what stands in one that has its direction from its own letters (`dir="auto"`).
export function shown(value, most = 2000) {
  const whole = String(value ?? "");
  const cut = whole.length > most ? whole.slice(0, most) + "…" : whole;
  return cut.replace(UNSEEN, (one) => "\\u" + one.codePointAt(0).toString(16).padStart(4, "0"));
}

// The beginning of a text, at most so many characters, cut behind a word; a script without spaces anywhere.
export const cutWords = (value, most) => (value.length <= most ? value : `${value.slice(0, most + 1).replace(/\s+\S{0,30}$/, "").slice(0, most)} …`);

// A value as a text, a number with marks of thousands, but for those of four digits, as years are.
export const marks = (value) => (typeof value === "number" ? value.toLocaleString("en", {useGrouping: "min2", maximumSignificantDigits: 15}) : String(value));

// The ends of a range: where one of two numbers has marks of thousands, the other one has them, too.
export function marksAlike(ends) {
  const written = ends.map((one) => (one === null ? null : marks(one)));
  return written.some((one) => one?.includes(",")) ? ends.map((one, at) => (typeof one === "number" ? one.toLocaleString("en", {maximumSignificantDigits: 15}) : written[at])) : written;
}

const BLANK = "\\t\\n\\v\\f\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\u00ad\\u200b\\u2060\\ufeff";
const UNSEEN_SPACE = new RegExp(`^[${BLANK}]+|[${BLANK}]+$|[${BLANK}]{2,}|(?![ \\u3000])[${BLANK}]`, "g"); // as in parts.py
const SPACE = {" ": "␣", "\t": "⇥", "\n": "↵"};

// A value of a filter, in which white space that one would not see has marks.
export const spaced = (value) => marks(value).replace(UNSEEN_SPACE, (found) => [...found].map((one) => SPACE[one] ?? "\\u" + one.codePointAt(0).toString(16).padStart(4, "0")).join("")) || "“” (empty)";

// Names of files, each with as many of its folders as tell it from the others: a Map.
export function distinctNames(paths) {
  const parts = new Map(paths.map((path) => [path, path.split("/")]));
  const end = (own, n) => own.slice(-n).join("/");
  const isAlone = (path, n) => [...parts].every(([other, own]) => other === path || end(own, n) !== end(parts.get(path), n));
  return new Map([...parts].map(([path, own]) => {
    let n = 1;
    while (n < own.length && !isAlone(path, n)) n++;
    return [path, end(own, n)];
  }));
}

export class Refused extends Error {
  constructor(status, error, retry) {
    const said = error?.message ?? "the answer of the server cannot be read", end = `; ${error?.hint}`;
    super(said.endsWith(end) ? said.slice(0, -end.length) : said); // the hint is said on a line of its own
    this.status = status;
    this.hint = error?.hint ?? null;
    this.retry = retry;
  }
}

// The JSON of an endpoint. Throws Refused, or what `fetch` throws: no server, given up.
export async function get(path, params, signal, request = {}) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value !== "" && value !== null && value !== undefined));
  const reply = await fetch(`${path}?${query}`, {signal, headers: {Accept: "application/json"}, ...request});
  let found = null;
  try {
    found = await reply.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (!reply.ok || found === null) throw new Refused(reply.status, found?.error, Number(reply.headers.get("Retry-After")) || null);
  return found;
}

// A next step that the server names, as one on the page.
export function onPage(hint) {
  return Object.entries(JSON.parse(document.getElementById("main").dataset.hints)).reduce((whole, [theirs, ours]) => whole.replaceAll(theirs, () => ours), hint);
}

// What went wrong, for people, with a way on.
export function problem(error, again) {
  const away = !(error instanceof Refused);
  const busy = !away && (error.status === 429 || error.status === 503);
  const said = away ? "The server does not answer. Is wordpipe serve still running?" : error.message;
  const hint = busy ? `The server is busy; try again in ${error.retry ?? 1} seconds.` : away ? null : error.hint;
  return make(
    "div", {class: "problem", role: "alert"}, make("p", {}, text(said)), hint ? make("p", {class: "hint"}, text(onPage(hint))) : null,
    away || busy ? make("button", {type: "button", onclick: again}, "Try again") : null,
  );
}

const HERE = /^(localhost|127(\.\d+){3}|\[::1\])$/; // a server that other computers do not reach
const copying = new Map(); // buttons that say that something was copied → what they say otherwise

// Put a text on the clipboard, and say so where it was asked for.
export async function copy(button, value) {
  const before = copying.get(button) ?? [...button.childNodes];
  copying.set(button, before);
  let said = "copied";
  try {
    await navigator.clipboard.writeText(value);
  } catch {
    const field = make("textarea", {class: "unseen", "aria-hidden": "true"});
    field.value = value;
    document.body.append(field);
    field.select();
    if (!document.execCommand("copy")) said = "not copied";
    field.remove();
    button.focus();
  }
  const isHere = said === "copied" && HERE.test(location.hostname) && value.includes(location.origin) && !value.startsWith("curl ");
  button.textContent = isHere ? "copied; opens on this computer only" : said;
  setTimeout(() => (copying.delete(button), button.replaceChildren(...before)), isHere ? 3000 : 1200);
}

// The forms of the page of the API: the request is sent to this server, and its answer is shown beside the form, a stream as it
// comes; the same request can be copied as a command of curl.
import {copy, make, problem, shown, text} from "./dom.js";

const MOST = 200_000; // characters of a body that are shown
const PRETTY = 2_000_000; // characters of a body that is parted into lines
const WIDE = 100; // characters of a value that stays on one line
const HEADERS = ["Content-Type", "Content-Encoding", "Wordpipe-Remarks", "Retry-After", "WWW-Authenticate"];
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s{}[\],:"]+/gs; // of JSON

export function tryOut(view) {
  const needsToken = view.dataset.token !== undefined;
  for (const box of view.querySelectorAll(".try")) prepare(box, needsToken);
  for (const endpoint of view.querySelectorAll(".endpoint")) addCommand(endpoint.querySelector(".curl"), endpoint.querySelector(".try"), needsToken);
  addEventListener("hashchange", () => unfold(view));
  unfold(view);
}

// The command of an endpoint is that of its first form, and changes with it.
function addCommand(line, box, needsToken) {
  const button = make("button", {type: "button", class: "copy", onclick: () => copy(button, command(requestOf(box), needsToken))}, "copy");
  const write = () => line.replaceChildren(shown(command(requestOf(box), needsToken), MOST), " ", button);
  box.addEventListener("input", write);
  write();
}

// What an address names is shown, though it is folded.
function unfold(view) {
  const folded = view.querySelector(":target")?.closest("details");
  if (!folded) return;
  folded.open = true;
  folded.scrollIntoView();
}

// A form has its fields as properties, so that one named `after` hides a method of the form: the box around it is asked instead.
function prepare(box, needsToken) {
  const send = box.querySelector("button[type=submit]"), place = make("div", {class: "answer"});
  let running = null;
  const stop = make("button", {type: "button", hidden: true, onclick: () => running?.abort()}, "Stop");
  const curl = make("button", {type: "button", class: "copy", onclick: () => copy(curl, command(requestOf(box), needsToken))}, "copy as curl");
  send.hidden = false;
  send.after(stop, curl);
  box.append(place);
  box.querySelector("[data-stream]")?.addEventListener("change", (event) => setStream(box.querySelector("textarea"), event.target.checked));
  box.querySelector("textarea")?.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    send.click();
  });
  box.addEventListener("submit", async (event) => {
    event.preventDefault();
    running?.abort();
    const own = (running = new AbortController());
    stop.hidden = false;
    place.setAttribute("aria-busy", "true");
    try {
      await show(place, requestOf(box), own.signal);
    } catch (error) {
      if (error.name === "AbortError") place.querySelector("[role=status]")?.append(" · stopped");
      else place.replaceChildren(problem(error, () => send.click()));
    } finally {
      if (running === own) {
        const had = document.activeElement === stop;
        stop.hidden = true;
        place.removeAttribute("aria-busy");
        if (had) send.focus();
      }
    }
  });
}

// What a form asks: the address below the root of this server, the method, and the body of a POST.
function requestOf(box) {
  const query = new URLSearchParams();
  let path = box.dataset.path, body = null;
  for (const field of box.querySelectorAll("[data-in]")) {
    if (field.dataset.in === "path") path = path.replace(`{${field.name}}`, () => encodeURIComponent(field.value));
    else if (field.dataset.in === "body") body = field.value;
    else if (field.value !== "") query.append(field.name, field.value);
  }
  const address = new URL(`.${path}`, location.href);
  address.username = address.password = ""; // a browser may keep a token there
  address.search = query;
  return {address: address.href, method: box.dataset.method, body};
}

function setStream(field, isOn) {
  try {
    const {stream, ...body} = JSON.parse(field.value);
    field.value = JSON.stringify(isOn ? {...body, stream: true} : body, null, 2);
  } catch {
    // a body that is no JSON stays as it is, and the server says what is wrong
  }
}

// Send a request, and show its answer: status, time, headers, body. Throws what `fetch` throws.
async function show(place, {address, method, body}, signal) {
  const line = make("p", {role: "status"}, "Waiting…"), out = make("pre", {tabindex: 0, role: "region", "aria-label": `answer to ${method} ${address}`});
  const asked = method === "GET" ? address : `${method} ${address}`, button = make("button", {type: "button", class: "copy", onclick: () => copy(button, address)}, "copy");
  place.replaceChildren(make("p", {class: "asked"}, make("code", {}, text(asked, MOST)), " ", button), line);
  const began = performance.now();
  const reply = await fetch(address, {method, signal, ...(body === null ? {} : {body, headers: {"Content-Type": "application/json"}})});
  const media = reply.headers.get("Content-Type") ?? "", isStream = media.startsWith("text/event-stream");
  const heads = HEADERS.filter((name) => reply.headers.has(name)).map((name) => make("div", {}, make("dt", {}, name), make("dd", {}, make("bdi", {}, shown(reply.headers.get(name))))));
  const said = () => `${reply.status} ${reply.statusText} · ${Math.round(performance.now() - began).toLocaleString("en")} ms · ${whole.length.toLocaleString("en")} characters`;
  let whole = "";
  place.append(make("dl", {}, heads), out);
  line.className = reply.ok ? "" : "wrong";
  if (isStream) line.textContent = `${reply.status} ${reply.statusText} · a stream`;
  const reader = reply.body?.pipeThrough(new TextDecoderStream()).getReader();
  while (reader) {
    const {value, done} = await reader.read();
    if (done) break;
    if (isStream && whole.length < MOST) out.append(shown(value, MOST));
    whole += value;
  }
  line.textContent = said();
  if (!isStream) out.textContent = shown(media.startsWith("application/json") && whole.length < PRETTY ? pretty(whole) : whole, MOST);
}

// JSON with a line for each item that is long; its numbers and texts stay as the server wrote them.
function pretty(text) {
  const tokens = text.match(TOKEN) ?? [];
  let at = 0;
  const value = (indent) => {
    const first = tokens[at++] ?? "";
    if (first !== "{" && first !== "[") return first;
    const last = first === "{" ? "}" : "]", parts = [];
    while (at < tokens.length && tokens[at] !== last) {
      const name = first === "{" ? `${tokens[at]}: ` : "";
      if (name) at += 2; // with the colon
      parts.push(name + value(`${indent}  `));
      if (tokens[at] === ",") at++;
    }
    at++;
    const flat = parts.join(", "), isNumbers = first === "[" && parts.every((one) => /^[-\d]/.test(one));
    if (isNumbers || (!flat.includes("\n") && indent.length + flat.length <= WIDE)) return first + flat + last;
    return `${first}\n${indent}  ${parts.join(`,\n${indent}  `)}\n${indent}${last}`;
  };
  return value("");
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`; // for a shell

// The request as a command. The token is none of it: the shell puts in that of its variable TOKEN.
function command({address, method, body}, needsToken) {
  const parts = ["curl", quoted(address)];
  if (needsToken) parts.push('--header "Authorization: Bearer $TOKEN"');
  if (method === "POST") parts.push("--header 'Content-Type: application/json'", `--data-raw ${quoted(body)}`);
  return parts.join(" ");
}

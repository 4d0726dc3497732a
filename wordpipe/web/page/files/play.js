// The forms of the model's tab: Ctrl+Enter sends them; a text that goes on is shown as the server writes it, until Stop; two clicks
// on a word, or a button for the word at the cursor, make a gap of it.
import {make, problem, Refused, shown} from "./dom.js";

const MASK = "[MASK]", PART = /[\p{L}\p{N}\p{M}_'’-]/u; // of a word

export function play() {
  for (const form of document.querySelectorAll("form[data-ability]")) {
    form.querySelector("textarea").addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      form.requestSubmit();
    });
    if (form.dataset.ability === "complete") generate(form);
    if (form.dataset.ability === "fill") makeGaps(form);
  }
}

function makeGaps(form) {
  const field = form.querySelector("textarea");
  const gap = () => {
    const [start, stop] = wordAround(field.value, field.selectionStart, field.selectionEnd);
    field.focus();
    if (start === stop) return;
    field.setSelectionRange(start, stop);
    document.execCommand("insertText", false, MASK); // as if it was typed, so that Ctrl+Z takes it back
  };
  field.addEventListener("dblclick", gap);
  field.title = "double-click a word to make it a gap";
  form.querySelector("button[type=submit]").after(make("button", {type: "button", onclick: gap}, "Make the word a gap"));
}

// Where the selected words begin and end, or the word at the cursor; nothing where there is none, or a gap.
function wordAround(whole, start, stop) {
  for (const gap of whole.matchAll(/\[MASK\]/g)) if (gap.index <= stop && start <= gap.index + MASK.length) return [start, start];
  while (start < stop && !PART.test(whole[start])) start++;
  while (stop > start && !PART.test(whole[stop - 1])) stop--;
  while (start && PART.test(whole[start - 1])) start--;
  while (stop < whole.length && PART.test(whole[stop])) stop++;
  return [start, stop];
}

function generate(form) {
  const output = document.querySelector("#completion"), button = form.querySelector("button[type=submit]");
  let running = null;
  const stop = make("button", {type: "button", hidden: true, onclick: () => running?.abort()}, "Stop");
  button.after(stop);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    running?.abort();
    const own = (running = new AbortController()), value = (name) => form.elements.namedItem(name).value;
    const asked = {prompt: value("complete"), model: value("complete_by"), temperature: Number(value("temperature")), max_tokens: Number(value("length")), stream: true};
    const written = make("mark", {});
    stop.hidden = false;
    output.setAttribute("aria-busy", "true"); // read out at its end, not word by word
    output.replaceChildren(shown(asked.prompt, 10000), written);
    try {
      for await (const part of events("./v1/completions", asked, own.signal)) written.append(shown(part.choices[0]?.text));
    } catch (error) {
      if (error.name !== "AbortError") output.append(problem(error, () => form.requestSubmit()));
    } finally {
      if (running === own) {
        const had = document.activeElement === stop;
        stop.hidden = true;
        output.removeAttribute("aria-busy");
        if (had) button.focus();
      }
    }
  });
}

// The objects of server-sent events that answer a POST. Throws Refused, or what `fetch` throws.
async function* events(path, body, signal) {
  const reply = await fetch(path, {method: "POST", signal, body: JSON.stringify(body), headers: {"Content-Type": "application/json"}});
  if (!reply.ok) throw new Refused(reply.status, (await reply.json()).error, reply.headers.get("Retry-After"));
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "", at = 0; ; ) {
    const {value, done} = await reader.read();
    if (done) return;
    for (rest += value; (at = rest.indexOf("\n\n")) >= 0; rest = rest.slice(at + 2)) {
      const data = rest.slice(0, at).replace(/^data: /, "");
      if (data === "[DONE]") return;
      const found = JSON.parse(data);
      if (found.error) throw new Refused(503, found.error, 1);
      yield found;
    }
  }
}

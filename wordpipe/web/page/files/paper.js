// What stands on paper alone: above the answers what was asked, how, of which texts, and the day; below all of it the address; and a title from the second sheet on.
import {make, text} from "./dom.js";
import {inWords} from "./filters.js";
import {firstOf, read} from "./state.js";

const TITLE = 80; // characters above a sheet
const OF_TEXT = ["index", "row", "start", "whole", "part"]; // parameters that say which text it is, or which document
const MEANS = /[%&#+=;?/\\]/; // signs that stay encoded, as an address would mean something else by them

export function signPaper() {
  const view = document.querySelector(".search"), day = make("span", {}), line = make("p", {class: "paper"}), sheet = new CSSStyleSheet();
  view?.querySelector(".paper .of").append(day);
  document.querySelector("footer").before(line);
  document.adoptedStyleSheets.push(sheet);
  addEventListener("beforeprint", () => {
    const today = new Date().toLocaleDateString("sv"), title = view ? say(view) : document.querySelector(".reading .title")?.textContent;
    day.textContent = ` Printed on ${today}.`;
    line.replaceChildren(`${today} · `, ...address().match(/[^&/]*[&/]*/g).map((one) => make("span", {class: "piece"}, one)));
    sheet.replaceSync(`@page { @top-left { content: "${quoted(cut(title || document.title))}"; } } @page :first { @top-left { content: none; } }`);
  });
}

// What is asked, whole, where the field cuts it, with the filters, the order and what else is set; gives the question.
function say(view) {
  const state = read(location.search), asked = state.similar ? "" : state.q.trim(), said = [state.docs && "one answer per document", state.whole && "whole texts"];
  if (!state.similar) {
    const order = view.querySelector("select[name=sort]"), by = {auto: "", 0: "exact words only", 10: "meaning only"}[state.mix] ?? `meaning ${state.mix}0 %`;
    if (order) said.unshift(`order: ${firstOf(state)}${order.selectedOptions[0].textContent}`); // without answers the page has none
    said.push(by, ...Object.entries(state.weighed).map((one) => one.join("=")));
  }
  view.querySelector(".paper .asked").textContent = asked;
  view.querySelector(".paper .narrowed").replaceChildren(...inWords(state).map((one) => text(one)).flatMap((one, at) => [at ? " · " : "filters: ", one]));
  view.querySelector(".paper .set").replaceChildren(text(said.filter(Boolean).join(" · ")));
  return asked;
}

// The address in signs that one reads, which is the same when it is typed; of a text without the way back to the answers.
function address() {
  const own = new URL(location.href);
  if (document.querySelector(".reading")) for (const name of [...own.searchParams.keys()]) if (!OF_TEXT.includes(name)) own.searchParams.delete(name);
  return own.href.replace(/(?:%[0-9A-F]{2})+/gi, (run) => {
    try {
      return [...decodeURIComponent(run)].map((one) => (/[\p{L}\p{M}\p{N}\p{P}\p{S}]/u.test(one) && !MEANS.test(one) ? one : encodeURIComponent(one))).join("");
    } catch {
      return run; // no text in UTF-8
    }
  });
}

// A title up to the end of a word.
const cut = (title) => (title.length > TITLE ? `${title.slice(0, TITLE).replace(/\s\S*$/, "")} …` : title);

// A text as a string of a style sheet: each sign by its number.
const quoted = (title) => [...title].map((one) => `\\${one.codePointAt(0).toString(16)} `).join("");

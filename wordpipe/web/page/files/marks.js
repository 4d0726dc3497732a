// The page of a text by keys: its marked words one after the other, by two buttons, too, and the texts beside it.
import {make} from "./dom.js";

export function walkMarks(place) {
  const marks = [...document.querySelectorAll("article.reading :is(.title, .about, .text) mark")], said = make("span", {role: "status"});
  const found = location.hash.startsWith("#text-") ? document.getElementById(location.hash.slice(1)) : null; // in a whole document the text that was found
  let at = found ? Math.max(0, marks.findIndex((one) => found.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING)) - 1 : -1;
  function go(step) {
    marks[at]?.classList.remove("here");
    at = at < 0 && step < 0 ? marks.length - 1 : (at + step + marks.length) % marks.length;
    marks[at].classList.add("here");
    marks[at].scrollIntoView({block: "center"});
    said.textContent = `${(at + 1).toLocaleString("en")} of ${marks.length.toLocaleString("en")}`;
  }
  const button = (label, step, key) => make("button", {type: "button", title: `or the key ${key}`, onclick: () => go(step)}, label);
  place.replaceChildren(place.firstChild, button("← previous", -1, "p"), " ", button("next →", 1, "n"), " ", said);
  byKeys({n: () => go(1), p: () => go(-1)});
}

export function walkTexts() {
  const follow = (kind) => () => document.querySelector(`article.reading a[rel=${kind}]`)?.click();
  byKeys({j: follow("next"), k: follow("prev")});
}

function byKeys(does) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    if (Object.hasOwn(does, event.key)) does[event.key]();
  });
}

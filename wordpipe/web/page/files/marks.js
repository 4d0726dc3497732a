// The marked words of a text, one after the other: by two buttons, or the keys n and p.
import {make} from "./dom.js";

export function walkMarks(place) {
  const marks = [...document.querySelectorAll("article.reading .text mark")], said = make("span", {role: "status"});
  let at = -1;
  function go(step) {
    marks[at]?.classList.remove("here");
    at = at < 0 && step < 0 ? marks.length - 1 : (at + step + marks.length) % marks.length;
    marks[at].classList.add("here");
    marks[at].scrollIntoView({block: "center"});
    said.textContent = `${(at + 1).toLocaleString("en")} of ${marks.length.toLocaleString("en")}`;
  }
  const button = (label, step, key) => make("button", {type: "button", title: `or the key ${key}`, onclick: () => go(step)}, label);
  place.replaceChildren(`${marks.length.toLocaleString("en")} marked words · `, button("← previous", -1, "p"), " ", button("next →", 1, "n"), " ", said);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    if (event.key === "n" || event.key === "p") go(event.key === "n" ? 1 : -1);
  });
}

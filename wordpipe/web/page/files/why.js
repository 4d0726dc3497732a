// Why a hit was found: what every word brought to its score, as bars that add up to it.
import {make, text} from "./dom.js";

const SHOWN = 8; // words of one side; the others in one line

// Parts of a score: [[side, share of it, [[word, share], …]], …]. Their sum is the score.
export function partsOf(hit) {
  const said = hit.explain;
  if (!said) return [];
  const sides = [];
  if (said.dense) {
    const words = [...(said.dense.query ?? []).map((one) => [one.word, one.score])];
    if (said.dense.answers) words.push(["the first answers", said.dense.answers.score]);
    sides.push(scaled("by meaning (vectors)", words, said.dense.score, said.dense.share ?? said.dense.score));
  }
  if (said.lexical) {
    const words = (said.lexical.terms ?? []).map((one) => [one.stem, one.score]);
    sides.push(scaled("by words (BM25)", words, said.lexical.score, said.lexical.share ?? said.lexical.score));
  }
  return sides;
}

// The words of a side in shares of what the side brings; what no word brings is a line of its own.
function scaled(side, words, sum, share) {
  const scale = sum ? share / sum : 0;
  const rows = words.map(([word, score]) => [word, score * scale]).sort((a, b) => b[1] - a[1]);
  const shown = rows.length > SHOWN ? rows.slice(0, SHOWN - 1) : rows;
  const left = share - shown.reduce((total, [, score]) => total + score, 0);
  if (Math.abs(left) > Math.abs(share) * 1e-3 + 1e-9) shown.push([rows.length > shown.length ? "other words" : "the rest", left]);
  return [side, share, shown];
}

export function drawWhy(hit) {
  const sides = partsOf(hit);
  if (!sides.length) return make("p", {class: "hint"}, "score ", make("b", {}, number(hit.score)), "; there is no explanation for it.");
  const whole = sides.reduce((total, [, share]) => total + share, 0);
  const largest = Math.max(1e-12, ...sides.flatMap(([, , rows]) => rows.map(([, score]) => Math.abs(score))));
  return make(
    "div", {class: "why"},
    make("p", {class: "hint"}, "●●●● is as strong as the strongest answer, ●○○○ a quarter of it; a less related answer has at most two dots."),
    sides.map(([side, share, rows]) =>
      make(
        "table", {}, make("caption", {}, side, " ", make("b", {}, number(share))),
        make("tbody", {}, rows.map(([word, score]) =>
          make("tr", {}, make("th", {scope: "row"}, text(word, 60)), make("td", {class: "n"}, number(score)),
            make("td", {class: "bar"}, bar(score / largest)))
        )),
      )
    ),
    make("p", {class: "sum"}, sides.length > 1 ? sides.map(([, share]) => number(share)).join(" + ") + " = " : "total ", make("b", {}, number(whole))),
    factorsOf(hit).map(([what, factor]) => make("p", {class: "factor"}, "× ", make("b", {}, number(factor)), " ", text(what, 120))),
    factorsOf(hit).length ? make("p", {class: "score-sum"}, "score ", make("b", {}, number(hit.score))) : null,
  );
}

// What the sum is multiplied by: [[why, factor], …].
export function factorsOf(hit) {
  const {newer, boost} = hit.explain ?? {}, found = [];
  if (newer) found.push([`newer is better: ${newer.days.toLocaleString("en", {maximumFractionDigits: 0})} days old by ${newer.field}${newer.has_date ? "" : ", which is empty: as the median row"}`, newer.factor]);
  if (boost) found.push([`larger ${boost.field} is better`, boost.factor]);
  return found;
}

// A number that may be close to 0.
function number(value) {
  const size = Math.abs(value);
  return size >= 10 ? value.toFixed(2) : size >= 0.001 || size === 0 ? value.toFixed(3) : value.toExponential(1);
}

function bar(share) {
  const node = make("i", {"aria-hidden": "true", class: share < 0 ? "less" : null});
  node.style.width = `${(100 * Math.min(1, Math.abs(share))).toFixed(1)}%`; // the object model, which the policy leaves to scripts
  return node;
}

// Why a hit was found: what every word brought to its score, as bars that add up to it.
import {make, text} from "./dom.js";

const SHOWN = 8; // words of one side; the others in one line
const NAMED = 4; // words of the sentence
const LEAST = 3; // letters that a word and its stem have in common
export const DOTS = "Dots show the score beside that of the strongest answer, in quarters; less related answers, below the others, have at most two."; // as in card.py
const TIMES = {1: "once", 2: "twice"};

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
    const words = (said.lexical.terms ?? []).map((one) => [one.word ?? one.stem, one.score]);
    sides.push(scaled("by words (BM25)", words, said.lexical.score, said.lexical.share ?? said.lexical.score));
  }
  return sides;
}

// The words of a side in shares of what the side brings; what no word brings is a line of its own.
function scaled(side, words, sum, share) {
  const scale = sum ? share / sum : 0, added = new Map();
  for (const [word, score] of words) added.set(word, (added.get(word) ?? 0) + score * scale); // two forms of one word
  const rows = [...added].sort((a, b) => b[1] - a[1]), large = rows.filter(([, score]) => !isSmall(score));
  const shown = rows.length > SHOWN || large.length < rows.length - 1 ? large.slice(0, SHOWN - 1) : rows;
  const left = share - shown.reduce((total, [, score]) => total + score, 0), others = rows.length - shown.length;
  if (others) shown.push([others === 1 ? "and 1 other" : `and ${others} others, together`, left]);
  else if (!isSmall(left)) shown.push(["the rest", left]);
  return [side, share, shown];
}

// Why, in one sentence. `asked` has `like` (the answer is like a text) and the `words` that were searched for.
function reason(hit, asked) {
  const said = hit.explain;
  if (!said) return asked.like ? ["Found because its meaning is near that of the text you chose."] : asked.words.trim() ? [] : [asked.isNarrowed ? "Listed because it fits the filters; no question was asked." : "Listed in its turn of the order; no question was asked."];
  const words = (asked.words.match(/[\p{L}\p{N}\p{M}_]+/gu) ?? []).map((one) => one.toLowerCase()), place = (word) => words.indexOf(word);
  const known = (said.lexical?.terms ?? []).filter(({answers, score}) => !(answers >= score * (1 - 1e-6))).map((one) => [wordOf(one.stem, words), one]).filter(([word]) => word).sort(([one], [other]) => place(one) - place(other)); // all others come from the first answers
  const inText = known.filter(([, one]) => one.count), inFields = known.filter(([, one]) => !one.count && one.fields?.length);
  const shown = inText.slice(0, NAMED).map(([word, {count}]) => [make("em", {}, text(word, 60)), ` ${TIMES[count] ?? `${count} times`}`]);
  if (inText.length > NAMED) shown.push([`${inText.length - NAMED} more ${inText.length === NAMED + 1 ? "word" : "words"}`]);
  shown.push(...inFields.slice(0, NAMED).map(([word, {fields}]) => [make("em", {}, text(word, 60)), " in ", text(fields.join(", "), 60)]));
  const byMeaning = Boolean(said.dense);
  if (!shown.length) return byMeaning ? [said.lexical || said.mode === "hybrid" ? "Found by its meaning alone: the text has no word of the question." : "Found by its meaning; words were not counted."] : [];
  return ["Found because the text has ", shown.map((one, at) => [at ? (at === shown.length - 1 ? " and " : ", ") : "", one]), byMeaning ? ", and by its meaning." : "."];
}

// The word of the question that a stem is of: the one that begins most like it.
function wordOf(stem, words) {
  const alike = (word) => [...word].findIndex((one, at) => one !== stem[at]);
  const lengths = words.map((word) => (alike(word) < 0 ? word.length : alike(word))), most = Math.max(0, ...lengths);
  return most >= Math.min(LEAST, stem.length) ? words[lengths.indexOf(most)] : "";
}

export function drawWhy(hit, asked) {
  const sides = partsOf(hit), said = reason(hit, asked), sentence = said.length ? make("p", {class: "reason"}, said) : null;
  if (!sides.length) return make("div", {class: "why"}, sentence, asked.like || asked.words.trim() ? make("p", {class: "hint"}, "score ", make("b", {}, number(hit.score)), said.length ? "" : "; there is no explanation for it.") : null);
  const whole = sides.reduce((total, [, share]) => total + share, 0);
  const largest = Math.max(1e-12, ...sides.flatMap(([, , rows]) => rows.map(([, score]) => Math.abs(score))));
  return make(
    "div", {class: "why"}, sentence,
    make("p", {class: "hint"}, DOTS),
    sides.map(([side, share, rows]) =>
      make(
        "table", {}, make("caption", {}, side, " ", make("b", {}, number(share))),
        make("tbody", {}, rows.map(([word, score]) =>
          isSmall(score)
            ? make("tr", {}, make("th", {scope: "row", colspan: 3}, text(word, 60), ": ", number(score)))
            : make("tr", {}, make("th", {scope: "row"}, text(word, 60)), make("td", {class: "n"}, number(score)), make("td", {class: "bar"}, bar(score / largest)))
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

// True of a number that three places round to nothing.
const isSmall = (value) => Math.abs(value) < 0.0005;

// A number that may be close to 0.
function number(value) {
  return Math.abs(value) >= 10 ? value.toFixed(2) : value && isSmall(value) ? "less than 0.001" : value.toFixed(3);
}

function bar(share) {
  const node = make("i", {"aria-hidden": "true", class: share < 0 ? "less" : null});
  node.style.width = `${(100 * Math.min(1, Math.abs(share))).toFixed(1)}%`; // the object model, which the policy leaves to scripts
  return node;
}

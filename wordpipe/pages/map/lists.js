// Beside a map of texts: lists of them, ways back to these, and how a text begins.
const LESS_RELATED = "less related: less than half of the question's words (rare ones count more)"; // as in results.js
const unfolded = new Set(); // titles of the list whose texts are shown one by one
let namesakes = null; // title → its texts

// `keeps` the text that is chosen, which the address names.
function showFew(numbers, said, keeps = false, isAnswer = false, lessRelated = []) {
  few.fill(0);
  for (const word of numbers) few[word] = 1;
  litNumbers = numbers;
  weak = new Set(lessRelated);
  listUnlit(numbers, said, keeps, isAnswer);
}

// A list that leaves lit what is lit.
function listUnlit(numbers, said, keeps = false, isAnswer = false) {
  unfolded.clear();
  [fewNumbers, fewSaid, fewAnswer, listed] = [numbers, said, isAnswer, LISTED];
  state.hovered = -1; // of the list before
  if (state.chosen >= 0 && !keeps) choose(-1);
  else showText();
  draw();
}

function showText() {
  const word = fewSaid ? state.chosen : wordInFocus(); // a list stays while one points at dots
  if (word >= 0) return card.replaceChildren(...closing(), ...wayToList(), title(word), ...standing(word), ...aboutText(word));
  card.ariaLive = fewSaid ? "off" : "polite"; // of a list the heading alone is read out
  if (fewSaid) return card.replaceChildren(...closing(), ...wayToAnswers(), Object.assign(element("p", fewSaid, "said"), { role: "status" }), ...wayWithoutFilters(), listOf(fewNumbers));
  card.replaceChildren(element("p", "Point at a dot to see the title of its text; click to read. Scroll or pinch to zoom, drag to move; titles appear when you zoom in. "
    + "With Lasso, or with Shift, draw around texts to list them.", "hint"));
}

// Texts of one title are one entry, which stands where the first of them does.
function foldedByTitle(numbers) {
  const found = new Map();
  for (const word of numbers) {
    if (found.has(WORDS[word])) found.get(WORDS[word]).push(word);
    else found.set(WORDS[word], [word]);
  }
  return Array.from(found.values());
}

function listOf(numbers) {
  const list = element("ol", "", TEXTS ? "texts" : ""), entries = foldedByTitle(numbers);
  // from where on all are less related, as in the list of the search page
  const border = fewAnswer ? entries.findLastIndex((words) => words.some((word) => !weak.has(word))) + 1 : -1;
  entries.slice(0, listed).forEach((words, place) => {
    const item = words.length > 1 ? foldedItem(words) : textItem(words[0]);
    if (place === border) item.prepend(element("p", LESS_RELATED, "near"));
    list.append(item);
  });
  if (entries.length > listed) {
    const item = element("li"), more = element("button", `and ${(entries.length - listed).toLocaleString("en")} more`, "more");
    more.type = "button";
    more.addEventListener("click", () => {
      const before = listed;
      listed += LISTED;
      showText();
      card.querySelector("ol").children[before].querySelector("button, summary").focus();
    });
    item.append(more);
    list.append(item);
  }
  return list;
}

function textItem(word, said = "") {
  const item = element("li"), button = element("button"), name = said ? `${WORDS[word]}, ${said}` : WORDS[word];
  button.type = "button";
  button.style.color = `var(--c${GROUPS[word]})`;
  button.append(element("bdi", said || WORDS[word]));
  if (said) button.ariaLabel = name;
  button.addEventListener("click", () => goTo(word));
  item.append(button);
  if (SERVER) item.append(wayToText(word, "read", name));
  if (TEXTS) for (const [event, pointed] of [["pointerenter", word], ["pointerleave", -1]]) item.addEventListener(event, () => hover(pointed)); // where it lies
  return item;
}

// Texts of one title: how many, and each of them by its place among all of this title.
function foldedItem(words) {
  const item = element("li"), fold = element("details"), summary = element("summary"), inside = element("ol", "", "texts"), title = WORDS[words[0]];
  const groups = new Set(words.map((word) => GROUPS[word]));
  summary.style.color = groups.size > 1 ? "" : `var(--c${GROUPS[words[0]]})`;
  summary.append(element("bdi", title), element("span", ` · ${words.length.toLocaleString("en")} texts`, "count"));
  const fill = () => inside.childElementCount || inside.append(...words.map((word) => textItem(word, placeSaid(word))));
  fold.append(summary, inside);
  fold.open = unfolded.has(title);
  if (fold.open) fill();
  fold.addEventListener("toggle", () => {
    if (fold.open) fill();
    if (fold.open) unfolded.add(title);
    else unfolded.delete(title);
  });
  item.append(fold);
  return item;
}

// "text 12 of 60", of those of the map that have its title; rows ascend, as texts do in their document. Empty of one alone.
function placeSaid(word) {
  if (!namesakes) {
    namesakes = new Map();
    WORDS.forEach((title, one) => namesakes.has(title) ? namesakes.get(title).push(one) : namesakes.set(title, [one]));
  }
  const own = namesakes.get(WORDS[word]);
  return own.length > 1 ? `text ${(own.indexOf(word) + 1).toLocaleString("en")} of ${own.length.toLocaleString("en")}` : "";
}

// Back to the list from which a text was chosen.
function wayToList() {
  if (!fewSaid || state.chosen < 0) return [];
  const button = element("button", `← ${fewSaid}`, "to-list");
  button.type = "button";
  button.addEventListener("click", () => choose(-1));
  return [button];
}

// Back to the answers, from a list of other texts.
const isBesideAnswers = () => Boolean(fewSaid && !fewAnswer && (wanted.value.trim() || filtersSaid()));

function wayToAnswers() {
  if (!isBesideAnswers()) return [];
  const button = element("button", wanted.value.trim() ? `← answers to “${wanted.value.trim()}”` : `← texts with ${filtersSaid()}`, "to-list");
  button.type = "button";
  button.addEventListener("click", stepBack);
  return [button];
}

function wayWithoutFilters() {
  if (!fewAnswer || !filtersSaid()) return [];
  const button = element("button", "without filters", "to-list");
  button.type = "button";
  button.addEventListener("click", () => {
    dropFilters();
    lightAnswers(0);
  });
  return [button];
}

// The page of a text, which leads back to the map as it is.
function wayToText(word, said, name) {
  const layout = new URLSearchParams(location.search).get("layout") ?? "auto";
  const given = new URLSearchParams({ row: ROWS[word], index: TEXTS.index, map: layout, ...filters() }), link = element("a", said);
  if (wanted.value.trim()) given.set("q", wanted.value.trim());
  link.href = new URL(`text/?${given}`, SERVER).href;
  link.dataset.word = word;
  if (name) link.ariaLabel = `${said}: ${name}`;
  link.addEventListener("click", () => rememberOpened(link));
  return link;
}

// Lines of a file are not those of a narrow column.
const flowing = (text) => text.replace(/\s+/g, " ").trim();

function standing(word) {
  const said = placeSaid(word);
  return said ? [element("p", `${said} with this title`)] : [];
}

// The beginning of a text: it is in the page, or the server is asked for it when the text is chosen.
function aboutText(word) {
  const body = element("p", "", "text");
  body.dir = "auto";
  if (!SERVER) {
    const [stand, ...beginning] = TEXTS.beginnings[word].split("\n");
    body.textContent = `${stand}\n${flowing(beginning.join(" "))}`;
    return [body];
  }
  if (state.chosen !== word) return [];
  if (told?.word === word) body.textContent = told.text;
  else {
    // what stops a question does not stop this
    const tell = (text) => state.chosen === word && (body.textContent = text);
    get("text", { row: ROWS[word], length: 600 }).then(({ text, next }) => {
      told = { word, text: flowing(next === null ? text : `${text}…`) };
      tell(told.text);
    }).catch((error) => tell(`The server does not answer: ${error.message}`));
  }
  return [body, wayToText(word, "Read the text")];
}

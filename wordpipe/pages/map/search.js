// The search box: words that begin with what is typed, then words that contain it, the commonest first.
const wanted = document.getElementById("wanted");
const list = document.getElementById("found");
const MOST_FOUND = 8;
const FOLDED = WORDS.map((word) => word.toLowerCase());
let found = [];
let active = 0;

function wordsLike(text) {
  const typed = text.trim().toLowerCase();
  if (!typed) return [];
  const [exact, beginning, inside] = [[], [], []];
  for (let word = 0; word < N && beginning.length < MOST_FOUND + 1; word++) {
    if (FOLDED[word] === typed) exact.push(word);
    else if (FOLDED[word].startsWith(typed)) beginning.push(word);
    else if (inside.length < MOST_FOUND && FOLDED[word].includes(typed)) inside.push(word);
  }
  const late = exact.length ? [] : FOLDED.indexOf(typed) < 0 ? [] : [FOLDED.indexOf(typed)];
  return [...exact, ...late, ...beginning, ...inside].slice(0, MOST_FOUND);
}

function showFound() {
  const typed = wanted.value.trim();
  list.hidden = !typed;
  wanted.setAttribute("aria-expanded", String(!list.hidden));
  list.replaceChildren(...(found.length ? found.map(foundItem) : [element("li", "This word is not on the map", "none")]));
  if (found.length && typed) wanted.setAttribute("aria-activedescendant", `found-${active}`);
  else wanted.removeAttribute("aria-activedescendant");
}

function foundItem(word, place) {
  const item = element("li");
  item.id = `found-${place}`;
  item.setAttribute("role", "option");
  item.setAttribute("aria-selected", String(place === active));
  const name = element("bdi", WORDS[word]);
  name.style.color = `var(--c${GROUPS[word]})`;
  item.append(name, element("span", COUNTS[word] ? COUNTS[word].toLocaleString("en") : "", "count"));
  item.addEventListener("pointerdown", (event) => {
    event.preventDefault(); // the box keeps the focus
    take(word);
  });
  return item;
}

function take(word) {
  wanted.value = WORDS[word];
  closeFound();
  wanted.blur();
  goTo(word);
}

function closeFound() {
  found = [];
  list.hidden = true;
  wanted.setAttribute("aria-expanded", "false");
  wanted.removeAttribute("aria-activedescendant");
}

function startSearch() {
  wanted.addEventListener("input", () => {
    found = TEXTS ? [] : wordsLike(wanted.value);
    active = 0;
    if (TEXTS) lightAnswers(WAIT, false, true);
    else showFound();
  });
  wanted.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") {
      wanted.value = "";
      closeFound();
      wanted.blur();
      if (TEXTS) lightAnswers(0); // none, or the texts of the filters
    } else if (found.length && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      active = (active + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length;
      showFound();
    }
  });
  wanted.addEventListener("blur", closeFound);
  wanted.addEventListener("focus", () => wanted.select());
  document.getElementById("search").addEventListener("submit", (event) => {
    event.preventDefault();
    if (TEXTS) return lightAnswers(0);
    if (!found.length) found = wordsLike(wanted.value);
    if (found.length) take(found[active] ?? found[0]);
    else showFound();
  });
}

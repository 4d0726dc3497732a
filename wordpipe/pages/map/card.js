// The card: the word in focus, how common it is, and its nearest neighbours in the full space.
const card = document.getElementById("card");

function element(name, text = "", kind = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function showCard() {
  if (TEXTS) return showText();
  const word = wordInFocus();
  card.replaceChildren(...closing(), ...(word >= 0 ? [title(word), frequency(word), ...wayOn(word), neighbourList(word)] : analogyCard() ?? [...absence(), hint()]));
}

// What is said of a selection can be closed, also where there are no keys.
function closing() {
  if (state.chosen < 0 && !fewSaid && !analogy.length && (TEXTS || !absent)) return [];
  const button = element("button", "×", "close");
  button.type = "button";
  button.ariaLabel = "Close";
  button.addEventListener("click", stepBack);
  return [button];
}

// One step back: from a text to the list, from a list to the answers, where there is a question, from these to the map, without the question.
function stepBack() {
  if (state.chosen >= 0) return choose(-1);
  light(-1, -1);
  if (TEXTS && isBesideAnswers()) lightAnswers(0);
  else if (TEXTS) dropQuestion();
  else endAnalogy();
}

// To the neighbours of a word among all words, of which the map has some.
function wayOn(word) {
  if (SERVED === null || state.chosen !== word) return [];
  const link = element("a");
  link.append("Neighbours of ", element("bdi", WORDS[word]), " among all words");
  link.href = wordsView({ word: WORDS[word] });
  return [link];
}

function wordsView(asked) {
  return new URL(`../?${new URLSearchParams({ tab: "words", words: SERVED, ...asked })}`, location.href).href;
}

// A word of the address that the map does not have.
function absence() {
  return absent && !TEXTS ? [element("p", `“${absent}” is not among the ${N.toLocaleString("en")} words of this map.`, "said")] : [];
}

function hint() {
  const again = SERVED === null ? "" : " Click it again to see its neighbours among all words.";
  return element("p", `Point at a word to see its nearest neighbours. Click to select the word.${again} Scroll or pinch to zoom, and drag to move. `
    + "More words appear when you zoom in.", "hint");
}

function title(word) {
  const made = element("h2");
  made.append(element("bdi", WORDS[word]));
  made.style.color = `var(--c${GROUPS[word]})`;
  return made;
}

function frequency(word) {
  const times = COUNTS[word] ? `${COUNTS[word].toLocaleString("en")} times, ` : ""; // 0: nobody counted
  return element("p", `${times}rank ${(RANKS[word] + 1).toLocaleString("en")}`);
}

function neighbourList(word) {
  const list = element("ol");
  neighboursOf(word).forEach((near, place) => {
    const cosine = COSINES[K * word + place] / 100;
    const button = element("button");
    button.type = "button";
    button.style.color = `var(--c${GROUPS[near]})`;
    const bar = element("span", "", "bar");
    const filled = element("i");
    filled.style.width = `${100 * Math.max(0, cosine)}%`;
    bar.append(filled);
    button.append(element("bdi", WORDS[near]), bar, element("span", cosine.toFixed(2), "cosine"));
    button.addEventListener("click", () => goTo(near));
    const item = element("li");
    item.append(button);
    list.append(item);
  });
  return list;
}

function hover(word) {
  if (state.hovered === word) return;
  state.hovered = word;
  canvas.classList.toggle("on-word", word >= 0);
  if (state.chosen >= 0) return;
  if (!fewSaid) showCard();
  draw();
}

function choose(word) {
  state.chosen = word;
  history.replaceState(null, "", word < 0 ? location.pathname + location.search : `#${encodeURIComponent(nameInAddress(word))}`);
  showCard();
  if (word >= 0) card.scrollIntoView({ block: "nearest" }); // in a low window the side scrolls
  draw();
}

function goTo(word) {
  choose(word);
  if (canvas.clientHeight !== stage.height) refresh(); // the card took some of it
  flyTo(viewOf(word));
}

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
  card.replaceChildren(...(word < 0 ? [hint()] : [title(word), frequency(word), neighbourList(word)]));
}

function hint() {
  return element("p", "Point at a word to see its nearest neighbours. Click to select the word. Scroll or pinch to zoom, and drag to move. "
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
  if (state.chosen < 0) {
    showCard();
    draw();
  }
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

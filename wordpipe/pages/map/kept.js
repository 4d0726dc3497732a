// What is kept in this tab: the question in the address and in the menu, and the place, for who comes back to the map.
const PLACE = "map", LIST = "list"; // in the storage of the tab; the second is that of the pages of texts, too (back.js)
let openedText = -1; // from the list

function stored(key) {
  try {
    return JSON.parse(sessionStorage.getItem(key)) ?? {};
  } catch {
    return {}; // a browser may refuse to keep anything
  }
}

function store(key, value) {
  try {
    sessionStorage.setItem(key, JSON.stringify(value));
  } catch {
    // nothing is kept
  }
}

// The question that is typed on the map stands in its address, as it does on the page of answers.
function keepQuestion(asked) {
  if (!SERVER) return;
  const given = new URLSearchParams(location.search);
  if (asked) given.set("q", asked);
  else given.delete("q");
  history.replaceState(null, "", `${location.pathname}${given.size ? `?${given}` : ""}${location.hash}`);
  keepMenu();
}

// The menu keeps the question; filters and order of the list of answers, too, where this tab had that list.
function keepMenu() {
  const asked = new URLSearchParams(location.search).get("q") ?? "", { search } = stored(LIST), known = new URLSearchParams(search ?? "");
  const isSame = search && (known.get("q") ?? "") === asked && (!TEXTS || (known.get("index") ?? TEXTS.index) === TEXTS.index);
  for (const link of document.querySelectorAll("header nav a[href]:not(.name)")) {
    link.dataset.to ??= link.getAttribute("href");
    const to = new URL(link.dataset.to, location.href);
    for (const [name, value] of isSame ? known : [["q", asked]]) if (value) to.searchParams.set(name, value);
    link.href = to.href;
  }
}

// The page of a text knows by this that one page back is the map.
function rememberOpened(link) {
  openedText = Number(link.dataset.word);
  store(LIST, { ...stored(LIST), to: link.href });
}

function addressOfMap() {
  const given = new URLSearchParams(location.search);
  return [location.pathname, ...["layout", "q", "a", "b", "c", "d"].map((name) => given.get(name) ?? "")].join(" ");
}

function keepPlace() {
  store(PLACE, {
    address: addressOfMap(), n: N, turned, x: camera.x, y: camera.y, zoom: camera.scale / stage.fit, chosen: state.chosen, few: fewNumbers, said: fewSaid,
    answer: fewAnswer, listed, group: state.litGroup, colour: document.getElementById("colour")?.value, opened: openedText, scrolled: card.scrollTop,
  });
}

// The place where one was on this map, if one comes back to it or loads it again.
function keptPlace() {
  const kept = stored(PLACE), [entry] = performance.getEntriesByType("navigation");
  const comesBack = entry?.type !== "navigate" || (TEXTS && location.hash);
  return comesBack && kept.address === addressOfMap() && kept.n === N ? kept : null;
}

function restorePlace(kept, linked) {
  const select = document.getElementById("colour");
  if (select && kept.colour !== select.value) {
    select.value = kept.colour;
    colourBy(TEXTS.colourings[kept.colour]);
  }
  light(-1, kept.group);
  if (TEXTS) showFew(kept.few, kept.said, true, kept.answer);
  listed = kept.listed;
  state.chosen = linked;
  showCard();
  if (canvas.clientHeight !== stage.height) refresh();
  if (kept.turned === turned) Object.assign(camera, { x: kept.x, y: kept.y, scale: allowed(kept.zoom * stage.fit) });
  if (linked >= 0 && linked !== kept.chosen && linked !== kept.opened) flyTo(viewOf(linked), 0);
  draw();
  card.scrollTop = kept.scrolled;
  if (linked < 0) card.querySelector(`a[data-word="${kept.opened}"]`)?.focus();
}

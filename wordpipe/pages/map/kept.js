// What is kept: in the address the question, the colours and the part of the map that is shown, in the menu the question, in this tab the place, for who comes back to the map.
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

const NARROWING = ["f", "where"]; // the filters in the address, as on the page of answers
const addressed = (name) => new URLSearchParams(location.search).get(name) ?? "";
const titled = document.title;

// The filters as `/search` takes them; none where no server is asked.
function filters() {
  return Object.fromEntries(NARROWING.map((name) => [name, SERVER ? addressed(name) : ""]).filter(([, value]) => value));
}

// The filters in words: "section: editors or utils; year: from 1990".
function filtersSaid() {
  const { f, where } = filters(), said = new Map();
  let pairs = [];
  try {
    pairs = JSON.parse(f ?? "[]");
    for (const [name, value] of pairs) said.set(name, [...(said.get(name) ?? []), valueSaid(value)]);
  } catch {
    return "filters that cannot be read"; // the server says why
  }
  return [...Array.from(said, ([name, values]) => `${name}: ${values.join(" or ")}`), ...(where ? [`condition: ${where}`] : [])].join("; ");
}

function valueSaid(value) {
  if (Array.isArray(value)) return ["from", "to"].map((end, at) => (value[at] === null ? "" : `${end} ${value[at]}`)).filter(Boolean).join(" ");
  return value === null ? "no value" : String(value) || "(empty)";
}

// The same address with other parameters; without those that are empty.
function readdress(changed) {
  const given = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changed)) {
    if (value) given.set(name, value);
    else given.delete(name);
  }
  history.replaceState(null, "", `${location.pathname}${given.size ? `?${given}` : ""}${location.hash}`);
}

// The address without the filters.
function dropFilters() {
  readdress(Object.fromEntries(NARROWING.map((name) => [name, ""])));
  keepMenu();
}

// Which part of the map is shown, for who opens the address elsewhere: the place in its middle, and how many times as large as the whole map.
function keepView() {
  const { x, y, scale } = wholeMap(), zoom = camera.scale / stage.fit;
  const isWhole = Math.abs(camera.scale / scale - 1) < 0.01 && Math.hypot(camera.x - x, camera.y - y) * camera.scale < 4;
  readdress({ view: isWhole || turned ? "" : [camera.x.toFixed(), camera.y.toFixed(), zoom.toFixed(2)].join(","), colour: TEXTS?.colourings[coloured()]?.name });
}

const KEPT_AFTER = 400; // milliseconds without a movement
let keeping = 0;
function keepViewSoon() {
  clearTimeout(keeping);
  if (SERVER) keeping = setTimeout(keepView, KEPT_AFTER);
}

// The number of the colouring; 0, the groups, is no part of the address.
function coloured() {
  return Number(document.getElementById("colour")?.value) || null;
}

// The part and the colours of the address; on an upright screen all of the map.
function showAddressed() {
  const select = document.getElementById("colour"), name = addressed("colour"), at = TEXTS?.colourings.findIndex((one) => one.name === name) ?? -1;
  if (select && at > 0) {
    select.value = at;
    colourBy(TEXTS.colourings[at]);
  }
  const [x, y, zoom] = addressed("view").split(",").map(Number);
  if (turned || !(x >= 0 && y >= 0 && zoom > 0)) return;
  Object.assign(camera, { x, y, scale: allowed(zoom * stage.fit) });
  holdOnMap();
  draw();
}

// The whole map: neither field nor address nor menu has the question, nor the filters of its answers.
function dropQuestion() {
  wanted.value = "";
  if (SERVER) {
    dropFilters();
    keepQuestion("");
  }
  clearTimeout(waiting);
  asking.abort();
  showFew([], "");
}

// The question that is typed on the map stands in its address, as it does on the page of answers.
function keepQuestion(asked) {
  if (!SERVER) return;
  readdress({ q: asked });
  keepMenu();
}

// The menu keeps question and filters; the order of the list of answers, too, where this tab had that list. The title has the question.
function keepMenu() {
  const asked = ["q", ...NARROWING].map((name) => [name, addressed(name)]), { search } = stored(LIST), known = new URLSearchParams(search ?? "");
  document.title = SERVER && addressed("q") ? `${addressed("q").slice(0, 60)} · ${titled}` : titled;
  const isSame = search && asked.every(([name, value]) => (known.get(name) ?? "") === value) && (!TEXTS || (known.get("index") ?? TEXTS.index) === TEXTS.index);
  for (const link of document.querySelectorAll("header nav a[href]:not(.name)")) {
    link.dataset.to ??= link.getAttribute("href");
    const to = new URL(link.dataset.to, location.href);
    for (const [name, value] of isSame ? known : asked) if (value) to.searchParams.set(name, value);
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
  return [location.pathname, ...["layout", "q", ...NARROWING, "a", "b", "c", "d"].map((name) => given.get(name) ?? "")].join(" ");
}

function keepPlace() {
  store(PLACE, {
    address: addressOfMap(), n: N, turned, x: camera.x, y: camera.y, zoom: camera.scale / stage.fit, chosen: state.chosen, few: fewNumbers, said: fewSaid, lit: litNumbers, weak: [...weak],
    answer: fewAnswer, listed, unfolded: [...unfolded], group: state.litGroup, colour: document.getElementById("colour")?.value, opened: openedText, scrolled: card.scrollTop,
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
  if (TEXTS) {
    showFew(kept.lit ?? kept.few, "", true, false, kept.weak);
    listUnlit(kept.few, kept.said, true, kept.answer);
  }
  listed = kept.listed;
  for (const one of [...(kept.unfolded ?? []), ...(kept.opened >= 0 ? [WORDS[kept.opened]] : [])]) unfolded.add(one);
  state.chosen = linked;
  showCard();
  if (canvas.clientHeight !== stage.height) refresh();
  if (kept.turned === turned) Object.assign(camera, { x: kept.x, y: kept.y, scale: allowed(kept.zoom * stage.fit) });
  if (linked >= 0 && linked !== kept.chosen && linked !== kept.opened) flyTo(viewOf(linked), 0);
  draw();
  card.scrollTop = kept.scrolled;
  if (linked < 0) card.querySelector(`a[data-word="${kept.opened}"]`)?.focus();
}

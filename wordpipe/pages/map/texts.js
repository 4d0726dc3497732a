// A map of texts: dots that are painted point by point, answers that are lit, texts in a lasso, and what is said of a text.
const WAIT = 200; // milliseconds after the last key
const ASKED = 200; // answers that are lit
const LISTED = 200; // texts of a list at once
const few = new Uint8Array(N); // 1: lit, by a question, a lasso or the legend
const lasso = { isOn: false, path: null };
const SERVER = TEXTS && TEXTS.index !== null ? new URL("..", location.href) : null;
let fewNumbers = [], fewSaid = "", fewAnswer = false, listed = LISTED; // the list, and whether it has the answers to the question
let litNumbers = []; // as a rule those of the list
let weak = new Set(); // answers that are less related
let picture = null, pixels = null;
let asking = new AbortController(), waiting = 0, told = null;

// #rrggbb as the number of a pixel, mixed with paper.
function inkOf(colour, share = 1) {
  const parts = [colour, colours.paper].map((one) => [1, 3, 5].map((at) => Number.parseInt(one.length === 4 ? one[(at + 1) / 2].repeat(2) : one.slice(at, at + 2), 16)));
  const [r, g, b] = [0, 1, 2].map((at) => Math.round(share * parts[0][at] + (1 - share) * parts[1][at]));
  return (0xff000000 | (b << 16) | (g << 8) | r) >>> 0;
}

// Half widths of the lines of a disc, or of a square where it is small.
function spansOf(radius) {
  if (radius < 1.6) return Array(Math.max(1, Math.round(2 * radius))).fill(Math.round(2 * radius));
  return Array.from({ length: 2 * Math.round(radius) + 1 }, (_, line) => 1 + 2 * Math.round(Math.sqrt(Math.max(0, radius ** 2 - (line - Math.round(radius)) ** 2))));
}

function drawTexts() {
  const [wide, tall] = [canvas.width, canvas.height];
  if (!wide || !tall) return;
  if (picture?.width !== wide || picture.height !== tall) {
    picture = context.createImageData(wide, tall);
    pixels = new Uint32Array(picture.data.buffer);
  }
  pixels.fill(inkOf(colours.paper));
  const density = wide / stage.width, level = levelNow(), group = groupInFocus(), isFew = litNumbers.length > 0;
  const radius = density * Math.min(4.5, (N > 30000 ? 0.8 : N > 3000 ? 1.3 : 2.2) + 0.25 * level);
  const inks = colours.groups.map((one) => inkOf(one, 0.9)), pale = colours.groups.map((one) => inkOf(one, 0.2)), none = inks.map(() => 0);
  const spans = spansOf(radius), seen = [];
  // what is pale lies below all others
  if (isFew) stampAll(pale, none, spans, density, seen);
  else if (group >= 0) stampAll(pale.map((one, colour) => (colour === group ? 0 : one)), none, spans, density, seen);
  if (isFew) stampAll(none, inks, spansOf(Math.max(1.6 * radius, 3.2 * density)), density, seen);
  else stampAll(group < 0 ? inks : none.map((_, colour) => (colour === group ? inks[colour] : 0)), none, spans, density, seen);
  context.putImageData(picture, 0, 0);
  drawTitles(seen, isFew);
  drawChosen();
  drawLasso();
}

// Paint each dot in the ink of its colour, of those that are lit and of all others; 0: not at all. While they are not many, those
// in view are remembered.
function stampAll(others, lit, spans, density, seen) {
  const wide = canvas.width, tall = canvas.height, half = spans.length >> 1, reach = half + 1;
  const scale = camera.scale * density, left = wide / 2 - camera.x * scale, top = tall / 2 - camera.y * scale;
  const sign = turned ? -scale : scale, shift = (turned ? 65535 * scale : 0) + left, first = turned ? 1 : 0;
  for (let word = 0; word < N; word++) {
    const ink = few[word] ? lit[GROUPS[word]] : others[GROUPS[word]];
    if (ink === 0) continue;
    const x = Math.round(PLACES[2 * word + first] * sign + shift), y = Math.round(PLACES[2 * word + 1 - first] * scale + top);
    if (x < reach || y < reach || x >= wide - reach || y >= tall - reach) continue; // the edge of the canvas fades
    if (seen.length <= WRITTEN) seen.push(word);
    for (let line = 0, row = (y - half) * wide + x; line < spans.length; line++, row += wide) {
      const from = row - (spans[line] >> 1), to = from + spans[line];
      for (let at = from; at < to; at++) pixels[at] = ink;
    }
  }
}

// A ring around the text that is opened, or pointed at.
function drawChosen() {
  const word = wordInFocus();
  if (word < 0) return;
  context.strokeStyle = colours.ink;
  context.lineWidth = 2;
  context.setLineDash([]);
  context.beginPath();
  context.arc(screenX(placeX(word)), screenY(placeY(word)), 8, 0, 2 * Math.PI);
  context.stroke();
}

// ---- the lasso, by a button or with Shift; the keyboard lists what is in view

function beginLasso(event) {
  if (!lasso.isOn && !event.shiftKey) return false;
  lasso.path = [at(event)];
  return true;
}

function extendLasso(point) {
  lasso.path.push(point);
  draw();
}

function endLasso() {
  const path = lasso.path;
  lasso.path = null;
  setLasso(false);
  const inside = path.length > 2 ? numbersWhere((x, y) => isInside(path, x, y)) : [];
  showFew(inside, `${inside.length.toLocaleString("en")} texts in the lasso`);
}

function setLasso(isOn) {
  lasso.isOn = isOn;
  document.getElementById("lasso").setAttribute("aria-pressed", String(isOn));
  canvas.classList.toggle("lasso", isOn);
}

function drawLasso() {
  if (!lasso.path) return;
  context.strokeStyle = colours.ink;
  context.lineWidth = 1.5;
  context.setLineDash([5, 4]);
  context.beginPath();
  for (const { x, y } of lasso.path) context.lineTo(x, y);
  context.closePath();
  context.stroke();
  context.setLineDash([]);
}

const numbersWhere = (isWanted) => Array.from({ length: N }, (_, word) => word).filter((word) => isWanted(screenX(placeX(word)), screenY(placeY(word))));

// Even and odd crossings of a line to the right.
function isInside(path, x, y) {
  let inside = false;
  for (let here = 0, before = path.length - 1; here < path.length; before = here++) {
    const [a, b] = [path[here], path[before]];
    if (a.y > y !== b.y > y && x < ((b.x - a.x) * (y - a.y)) / (b.y - a.y) + a.x) inside = !inside;
  }
  return inside;
}

// ---- questions

// Light the answers: of the server, or, where there is none, titles that contain what is typed. While one types the last word may be a beginning.
function lightAnswers(wait = WAIT, keeps = false, isTyped = false) {
  clearTimeout(waiting);
  asking.abort();
  waiting = setTimeout(async () => {
    const asked = wanted.value.trim();
    keepQuestion(asked);
    if (!asked && !filtersSaid()) return showFew([], "", keeps);
    if (!SERVER) {
      const typed = asked.toLowerCase(), found = Array.from(FOLDED.keys()).filter((word) => FOLDED[word].includes(typed));
      return showFew(found, `${found.length.toLocaleString("en")} titles with “${asked}”`, keeps, true);
    }
    asking = new AbortController();
    const { signal } = asking;
    try {
      const begun = asked && isTyped ? { prefix: 1 } : {}, narrow = filters(), of = asked ? `answers to “${asked}”` : "texts";
      let reply, narrowed = narrow.f || narrow.where ? ` with ${filtersSaid()}` : "";
      try {
        reply = await get("search", { q: asked, ...begun, k: ASKED, format: "json", ...narrow }, signal);
      } catch (error) {
        if (!narrowed || error.name === "AbortError" || error.status !== 400) throw error;
        const said = error.message.split("; ").slice(0, 2).join("; ").replace(/\.$/, "");
        if (!asked) return showFew([], `The filters cannot be applied on this map: ${said}.`, keeps, true);
        reply = await get("search", { q: asked, ...begun, k: ASKED, format: "json" }, signal);
        narrowed = `, without the filters, which cannot be applied on this map: ${said}`;
      }
      const all = reply.hits.map((hit) => numberOfRow(hit.row)), found = all.filter((word) => word >= 0), isCut = all.length >= ASKED;
      const beside = found.length < all.length ? `; ${all.length - found.length} more are not on the map` : "";
      const said = isCut ? `The ${asked ? "" : "first "}${found.length} ${asked ? "best " : ""}` : `${found.length} `;
      showFew(found, `${said}${of}${narrowed}${beside}`, keeps, true, reply.hits.filter((hit) => hit.related === false).map((hit) => numberOfRow(hit.row)));
    } catch (error) {
      if (error.name !== "AbortError") showFew([], `The server does not answer: ${error.message}`, false, true);
    }
  }, wait);
}

async function get(path, params, signal) {
  const reply = await fetch(new URL(`${path}?${new URLSearchParams({ ...params, index: TEXTS.index })}`, SERVER), { signal });
  const found = await reply.json();
  if (!reply.ok) throw Object.assign(new Error(found.error?.message ?? reply.status), { status: reply.status });
  return found;
}

// The texts of a group of the legend; -1: the answers to the question again, where there is one.
function listGroup(group, said) {
  clearTimeout(waiting);
  asking.abort();
  if (group < 0) return lightAnswers(0);
  const own = Array.from(GROUPS.keys()).filter((word) => GROUPS[word] === group);
  showFew(own, `${own.length.toLocaleString("en")} texts of “${said}”`);
}

// By halves, as rows ascend; -1 of a row that is not on the map.
function numberOfRow(row) {
  let [low, high] = [0, N];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ROWS[middle] < row) low = middle + 1;
    else high = middle;
  }
  return ROWS[low] === row ? low : -1;
}

// ---- colours

function colourBy({ colours: coded, names }) {
  if (state.litGroup >= 0) lightAnswers(0, true); // what was listed is no group of the new colours
  [GROUPS, NAMES] = [bytesOf(coded), names];
  light(-1, -1);
  drawLegend();
  findNamePlaces();
  showText();
  draw();
}

function startTexts() {
  if (TEXTS.colourings.length > 1) {
    const label = element("label", "colour by "), select = element("select");
    select.id = "colour";
    TEXTS.colourings.forEach((one, place) => select.append(Object.assign(element("option", one.name), { value: place })));
    select.addEventListener("change", () => (colourBy(TEXTS.colourings[select.value]), keepViewSoon()));
    label.append(select);
    label.className = "colour";
    legend.before(label);
  }
  findNamePlaces();
  document.getElementById("lasso").addEventListener("click", () => setLasso(!lasso.isOn));
  document.getElementById("in-view").addEventListener("click", () => {
    const seen = numbersWhere((x, y) => x >= 0 && y >= 0 && x <= stage.width && y <= stage.height);
    listUnlit(seen, `${seen.length.toLocaleString("en")} texts in view`);
  });
  wanted.value = new URLSearchParams(location.search).get("q") ?? "";
}

// An analogy of the address, ?a=man&b=woman&c=king&d=queen: its words are marked, with an arrow from a to b and one from c to d.
const ARROW = 9; // of its head, CSS pixels
let analogy = []; // four words as they stand in the address
let absent = ""; // a word of the address that is not on the map

function startAnalogy() {
  const given = new URLSearchParams(location.search);
  const words = ["a", "b", "c", "d"].map((name) => given.get(name) ?? "");
  if (!TEXTS && words.every(Boolean)) analogy = words;
}

// The numbers of its words; those that the map does not have are left out.
function analogyOnMap() {
  return analogy.map(wordNamed).filter((word) => word >= 0);
}

function endAnalogy() {
  analogy = [];
  absent = "";
  showCard();
  draw();
}

// Its words in the middle of the canvas, as close as they fit.
function showAnalogy() {
  const words = analogyOnMap(), [xs, ys] = [words.map(placeX), words.map(placeY)];
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = Math.min((0.7 * stage.width) / Math.max(1, right - left), (0.7 * stage.height) / Math.max(1, bottom - top));
  flyTo({ x: (left + right) / 2, y: (top + bottom) / 2, scale: Math.min(9 * stage.fit, Math.max(0.8 * stage.fit, scale)) });
}

function drawArrows(words) {
  if (!words.length) return;
  const numbers = analogy.map(wordNamed);
  for (const [from, to] of [[numbers[0], numbers[1]], [numbers[2], numbers[3]]]) if (from >= 0 && to >= 0) drawArrow(from, to);
}

// From the middle of one word to the edge of the other.
function drawArrow(from, to) {
  const [x, y, toX, toY] = [screenX(placeX(from)), screenY(placeY(from)), screenX(placeX(to)), screenY(placeY(to))];
  const [dx, dy] = [toX - x, toY - y], length = Math.hypot(dx, dy);
  const [w, h] = [widthOf(context, to) / 2 + 4, sizes[to] * 0.6 + 3];
  const share = 1 - Math.min(1, w / Math.max(1e-9, Math.abs(dx)), h / Math.max(1e-9, Math.abs(dy)));
  if (share * length < ARROW) return; // the words touch
  const [endX, endY] = [x + share * dx, y + share * dy], turn = Math.atan2(dy, dx);
  Object.assign(context, { strokeStyle: colours.ink, fillStyle: colours.ink, lineWidth: 2, globalAlpha: 0.85 });
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(endX - ARROW * Math.cos(turn), endY - ARROW * Math.sin(turn));
  context.stroke();
  context.beginPath();
  context.moveTo(endX, endY);
  for (const side of [-0.4, 0.4]) context.lineTo(endX - ARROW * Math.cos(turn + side), endY - ARROW * Math.sin(turn + side));
  context.fill();
  context.globalAlpha = 1;
}

// What is said of it beside the map; nothing where there is none.
function analogyCard() {
  if (!analogy.length) return null;
  const [a, b, c, d] = analogy.map((word) => element("bdi", word)), said = element("p", "", "said");
  said.append(a, " is to ", b, " as ", c, " is to ", d);
  said.role = "status";
  const missing = analogy.filter((word) => wordNamed(word) < 0), parts = [said];
  if (missing.length) parts.push(element("p", `Not among the ${N.toLocaleString("en")} words of this map: ${missing.join(", ")}.`));
  if (SERVED !== null) {
    const link = element("a", "Back to the analogy");
    link.href = wordsView(Object.fromEntries(["a", "b", "c"].map((name, place) => [name, analogy[place]])));
    parts.push(link);
  }
  return [...parts, listOf(analogyOnMap())];
}

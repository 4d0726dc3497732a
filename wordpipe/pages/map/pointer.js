// Mouse, fingers and keys on the map.
const fingers = new Map(); // pointer → where it is
let moved = 0; // pixels since the first finger came down: a click moves hardly at all
let lastTap = { time: -1e9, x: 0, y: 0 };
const CLICK_MOVES = 5, DOUBLE_TAP_MS = 320, TOUCH_REACH = 22, MOUSE_REACH = 10;

function at(event) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function reachOf(event) {
  return event.pointerType === "touch" ? TOUCH_REACH : MOUSE_REACH;
}

function startPointer() {
  canvas.addEventListener("pointerdown", down);
  canvas.addEventListener("pointermove", move);
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", cancel);
  canvas.addEventListener("pointerleave", () => hover(-1));
  canvas.addEventListener("wheel", wheel, { passive: false });
  addEventListener("keydown", key);
}

function down(event) {
  if (event.button > 0) return;
  canvas.setPointerCapture(event.pointerId);
  if (lasso.path) return; // another finger
  if (TEXTS && beginLasso(event)) return;
  if (!fingers.size) moved = 0;
  fingers.set(event.pointerId, at(event));
  if (fingers.size > 1) moved = Infinity; // a pinch is no click
}

function cancel(event) {
  fingers.delete(event.pointerId);
  if (lasso.path) lasso.path = null;
  draw();
}

function move(event) {
  const now = at(event);
  if (lasso.path) return extendLasso(now);
  const before = fingers.get(event.pointerId);
  if (!before) {
    hover(wordAt(now.x, now.y, reachOf(event)));
    return;
  }
  const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
  fingers.set(event.pointerId, now);
  moved += Math.hypot(now.x - before.x, now.y - before.y);
  if (other) pinch(before, now, other);
  else if (moved > CLICK_MOVES) {
    canvas.classList.add("dragging");
    panBy(now.x - before.x, now.y - before.y);
  }
}

// Two fingers: the map follows the point between them and grows with their distance.
function pinch(before, now, other) {
  const apart = (point) => Math.max(1, Math.hypot(point.x - other.x, point.y - other.y));
  panBy((now.x - before.x) / 2, (now.y - before.y) / 2);
  zoomAt(apart(now) / apart(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
}

function up(event) {
  if (lasso.path) return endLasso();
  if (!fingers.delete(event.pointerId)) return;
  canvas.classList.remove("dragging");
  if (moved > CLICK_MOVES) return;
  const { x, y } = at(event);
  const isDouble = event.timeStamp - lastTap.time < DOUBLE_TAP_MS && Math.hypot(x - lastTap.x, y - lastTap.y) < 24;
  lastTap = { time: isDouble ? -1e9 : event.timeStamp, x, y };
  if (isDouble) flyTo(zoomed(event.shiftKey ? 0.5 : 2, x, y), 250);
  else select(wordAt(x, y, reachOf(event)));
}

// A click on the word that is chosen leads on, where there is a server.
function select(word) {
  if (SERVED !== null && word >= 0 && word === state.chosen) location.assign(wordsView({ word: WORDS[word] }));
  else choose(word);
}

function wheel(event) {
  event.preventDefault();
  const pixels = event.deltaY * [1, 16, 400][event.deltaMode];
  const { x, y } = at(event);
  zoomAt(Math.exp(-Math.max(-240, Math.min(240, pixels)) * (event.ctrlKey ? 0.01 : 0.0022)), x, y);
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const step = Math.min(stage.width, stage.height) / 8;
  const [middleX, middleY] = [stage.width / 2, stage.height / 2];
  const actions = {
    "+": () => flyTo(zoomed(1.5, middleX, middleY), 150),
    "=": () => flyTo(zoomed(1.5, middleX, middleY), 150),
    "-": () => flyTo(zoomed(1 / 1.5, middleX, middleY), 150),
    "0": reset,
    ArrowLeft: () => panBy(step, 0),
    ArrowRight: () => panBy(-step, 0),
    ArrowUp: () => panBy(0, step),
    ArrowDown: () => panBy(0, -step),
    Escape: stepBack,
    "/": () => wanted.focus(),
  };
  if (!Object.hasOwn(actions, event.key)) return;
  event.preventDefault();
  actions[event.key]();
}

// The question of a map of texts stays, and its answers are lit again.
function reset() {
  light(-1, -1);
  choose(-1);
  if (TEXTS) lightAnswers(0);
  else wanted.value = "";
  flyTo(wholeMap());
}

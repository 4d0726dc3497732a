// The canvas: dots for words that are not written, lines from the word in focus to its neighbours, then the words.
const canvas = document.getElementById("map");
const context = canvas.getContext("2d");
const FAINT = 0.13;
const RIGHT_TO_LEFT = /^[^\p{L}]*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u; // the first letter
let colours = {};
let written = []; // boxes of the words on the canvas: [word, left, top, right, bottom]
let asked = false;
const inks = new Float32Array(N); // of each word that is written, from 0 to 1: words fade in and out

function readColours() {
  const style = getComputedStyle(document.documentElement);
  const named = (name) => style.getPropertyValue(name).trim();
  colours = { paper: named("--paper"), ink: named("--ink"), soft: named("--soft") };
  colours.groups = Array.from({ length: 12 }, (_, number) => named(`--c${number}`));
}

function resize(density = devicePixelRatio || 1) {
  measureStage(canvas);
  canvas.width = Math.round(stage.width * density);
  canvas.height = Math.round(stage.height * density);
  context.setTransform(density, 0, 0, density, 0, 0);
  measureWords();
}

// Draw at the next frame, once, however often it is asked for.
function draw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    drawNow();
  });
}

function drawNow(atOnce = false) {
  if (TEXTS) return drawTexts();
  const level = levelNow();
  placeLevels(context, Math.floor(level));
  context.globalAlpha = 1;
  context.fillStyle = colours.paper;
  context.fillRect(0, 0, stage.width, stage.height);
  const focus = focusNow();
  const seen = wordsInView(level, atOnce || still.matches ? 1 : 0.14);
  drawDots(seen, level, focus);
  if (focus.word >= 0) drawLines(focus);
  drawArrows(focus.analogy);
  const special = new Boxes();
  const marks = placeMarks(focus, special);
  written = [];
  drawWords(seen, level, focus, special);
  drawMarks(marks);
}

// The word in focus and its neighbours, or the words of an analogy; hovering alone shows no lines and fades nothing.
function focusNow() {
  const word = wordInFocus(), analogy = state.chosen < 0 ? analogyOnMap() : [];
  const marked = new Set([...analogy, ...(word >= 0 ? [word, ...neighboursOf(word)] : [])]);
  return { word, analogy, marked, fades: state.chosen >= 0 || analogy.length > 0, group: groupInFocus() };
}

function strengthOf(word, focus) {
  if (focus.group >= 0) return GROUPS[word] === focus.group ? 1 : FAINT;
  return focus.fades ? 0.4 : 1;
}

function wordsInView(level, pace) {
  const beyond = 90;
  const seen = [];
  for (let word = N - 1; word >= 0; word--) {
    const x = screenX(placeX(word)), y = screenY(placeY(word));
    if (x < -beyond || y < -beyond || x > stage.width + beyond || y > stage.height + beyond) continue;
    const wanted = levelOf[word] <= level ? 1 : 0;
    if (inks[word] !== wanted) {
      inks[word] = pace >= 1 ? wanted : Math.min(1, Math.max(0, inks[word] + (wanted ? pace : -pace)));
      draw();
    }
    seen.push({ word, x, y, ink: inks[word] });
  }
  return seen;
}

function drawDots(seen, level, focus) {
  const radius = Math.min(3.2, (N > 12000 ? 0.7 : N > 1500 ? 1.1 : 1.7) + 0.22 * level);
  const byLook = new Map();
  for (const one of seen) {
    if (one.ink > 0.5) continue;
    const look = GROUPS[one.word] + (strengthOf(one.word, focus) < 1 ? 100 : 0);
    if (!byLook.has(look)) byLook.set(look, []);
    byLook.get(look).push(one);
  }
  for (const some of byLook.values()) {
    context.globalAlpha = 0.5 * strengthOf(some[0].word, focus);
    context.fillStyle = colours.groups[GROUPS[some[0].word]];
    context.beginPath();
    for (const { x, y } of some) {
      if (N > 12000 && radius < 1.4) context.rect(x - radius, y - radius, 2 * radius, 2 * radius);
      else {
        context.moveTo(x + radius, y);
        context.arc(x, y, radius, 0, 2 * Math.PI);
      }
    }
    context.fill();
  }
}

function drawLines(focus) {
  if (state.chosen < 0) return;
  context.strokeStyle = colours.ink;
  context.lineWidth = 1;
  neighboursOf(focus.word).forEach((near, place) => {
    context.globalAlpha = 0.15 + 0.5 * Math.max(0, COSINES[K * focus.word + place] / 100);
    context.beginPath();
    context.moveTo(screenX(placeX(focus.word)), screenY(placeY(focus.word)));
    context.lineTo(screenX(placeX(near)), screenY(placeY(near)));
    context.stroke();
  });
}

// Where the words that are marked are written: on their places, or beside them where another stands.
function placeMarks(focus, boxes) {
  const marks = [];
  for (const word of focus.marked) {
    const x = screenX(placeX(word)), y = screenY(placeY(word));
    const w = widthOf(context, word) / 2 + 3, h = sizes[word] * 0.55 + 1.5;
    const shifts = [[0, 0], [0, -h - 5], [0, h + 5], [w + 5, 0], [-w - 5, 0], [w, -h - 4], [-w, -h - 4], [w, h + 4], [-w, h + 4]];
    const free = shifts.find(([dx, dy]) => boxes.add(x + dx - w, y + dy - h, x + dx + w, y + dy + h));
    marks.push({ word, x, y, shift: free, isCentre: word === focus.word || focus.analogy.includes(word) });
  }
  return marks;
}

function drawMarks(marks) {
  for (const { word, x, y, shift, isCentre } of [...marks].reverse()) {
    context.globalAlpha = 1;
    context.fillStyle = colours.groups[GROUPS[word]];
    if (!shift || shift[0] || shift[1]) {
      context.beginPath();
      context.arc(x, y, 3, 0, 2 * Math.PI);
      context.fill();
    }
    if (shift) write(word, x + shift[0], y + shift[1], isCentre ? "underlined" : "plain");
  }
}

function drawWords(seen, level, focus, special) {
  for (const { word, x, y, ink } of seen) {
    if (!ink || focus.marked.has(word)) continue;
    const w = widthOf(context, word) / 2, h = sizes[word] * 0.55;
    if (!special.isFree(x - w, y - h, x + w, y + h)) continue;
    context.globalAlpha = ink * strengthOf(word, focus);
    write(word, x, y, "plain");
  }
}

function write(word, x, y, manner) {
  const half = widthOf(context, word) / 2;
  context.font = fontOf(word);
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.lineJoin = "round";
  context.lineWidth = 3;
  context.strokeStyle = colours.paper;
  context.direction = RIGHT_TO_LEFT.test(labelOf(word)) ? "rtl" : "ltr";
  context.strokeText(labelOf(word), x, y);
  context.fillStyle = colours.groups[GROUPS[word]];
  context.fillText(labelOf(word), x, y);
  if (manner === "underlined") context.fillRect(x - half, y + sizes[word] * 0.6, 2 * half, 1.5);
  written.push([word, x - half, y - sizes[word] * 0.6, x + half, y + sizes[word] * 0.6]);
}

// The word at a point of the canvas: one that is written there, or the nearest dot within reach; -1 where there is none.
function wordAt(x, y, reach) {
  const box = written.findLast(([, left, top, right, bottom]) => x >= left && x <= right && y >= top && y <= bottom);
  if (box) return box[0];
  let [best, least] = [-1, reach * reach];
  for (let word = 0; word < N; word++) {
    const dx = screenX(placeX(word)) - x, dy = screenY(placeY(word)) - y;
    const distance = dx * dx + dy * dy;
    if (distance < least) [best, least] = [word, distance];
  }
  return best;
}

// Which words are written: as many as fit without touching, the commonest first, more of them at each level of zoom.
//
// A word that is written at one level is written at all closer ones: words have one size at every zoom, so boxes that are
// apart stay apart when the map grows. What is written does not depend on where we look, so nothing flickers on moving.
const STEP = 2 ** 0.5; // of zoom between levels
const LEVELS = 1 + Math.ceil(Math.log(MOST_ZOOM) / Math.log(STEP));
const NEVER = 255;
const CELL_X = 96, CELL_Y = 24; // of the grid of boxes, CSS pixels
const AROUND_X = 5, AROUND_Y = 2.5; // left free around a word

const sizes = new Float32Array(N); // of the letters, CSS pixels
const widths = new Float32Array(N); // 0 where not measured yet
const levelOf = new Uint8Array(N); // the first at which a word is written
let levelsDone = 0;
let order = Uint32Array.from(WORDS, (_, word) => word); // in which words are written where there is room
let letters = ""; // the fonts, as CSS has them

function measureWords() {
  letters = getComputedStyle(document.documentElement).getPropertyValue("--sans");
  if (TEXTS) {
    sizes.fill(12);
    widths.fill(0);
    return;
  }
  const small = stage.width < 600 ? 10.5 : 11, range = stage.width < 600 ? 4.5 : 7;
  // where nobody counted, a word is taken to be as common as its rank says (Zipf's law)
  const commonness = COUNTS[0] ? (word) => Math.log(COUNTS[word] + 1) : (word) => -Math.log(RANKS[word] + 1);
  const [least, most] = [commonness(N - 1), commonness(0)];
  for (let word = 0; word < N; word++) {
    const share = most > least ? Math.min(1, Math.max(0, (commonness(word) - least) / (most - least))) : 0.5;
    sizes[word] = Math.round(2 * (small + range * share)) / 2;
  }
  widths.fill(0);
  forgetLevels();
}

function forgetLevels() {
  levelOf.fill(NEVER);
  levelsDone = 0;
}

// Words of one group come first while it is looked at (-1: of none).
function prefer(group) {
  if (TEXTS) return;
  const all = Array.from(WORDS, (_, word) => word);
  const isFirst = (word) => GROUPS[word] === group;
  order = Uint32Array.from([...all.filter(isFirst), ...all.filter((word) => !isFirst(word))]);
  forgetLevels();
}

function fontOf(word) {
  return `${sizes[word]}px ${letters}`;
}

function widthOf(context, word) {
  if (!widths[word]) {
    context.font = fontOf(word);
    widths[word] = Math.max(1, context.measureText(labelOf(word)).width);
  }
  return widths[word];
}

// Boxes that do not touch: `add` takes one if there is room, and says whether.
class Boxes {
  cells = new Map();

  isFree(left, top, right, bottom) {
    return this.#over(left, top, right, bottom, (cell) => {
      const boxes = this.cells.get(cell);
      for (let at = 0; boxes && at < boxes.length; at += 4) {
        if (left < boxes[at + 2] && boxes[at] < right && top < boxes[at + 3] && boxes[at + 1] < bottom) return false;
      }
      return true;
    });
  }

  put(left, top, right, bottom) {
    this.#over(left, top, right, bottom, (cell) => {
      if (!this.cells.has(cell)) this.cells.set(cell, []);
      this.cells.get(cell).push(left, top, right, bottom);
      return true;
    });
  }

  add(left, top, right, bottom) {
    const free = this.isFree(left, top, right, bottom);
    if (free) this.put(left, top, right, bottom);
    return free;
  }

  #over(left, top, right, bottom, visit) {
    for (let y = Math.floor(top / CELL_Y); y <= bottom / CELL_Y; y++) {
      for (let x = Math.floor(left / CELL_X); x <= right / CELL_X; x++) {
        if (!visit(y * 1e6 + x)) return false;
      }
    }
    return true;
  }
}

// How far in we are: 0 shows all, 1 is one STEP closer.
function levelNow() {
  return Math.max(0, Math.log(camera.scale / stage.fit) / Math.log(STEP) + 1e-6);
}

function placeLevels(context, upTo) {
  for (; levelsDone <= Math.min(upTo, LEVELS); levelsDone++) placeLevel(context, levelsDone);
}

function placeLevel(context, level) {
  const scale = stage.fit * STEP ** level;
  const boxes = new Boxes();
  const halves = (word) => [widthOf(context, word) / 2 + AROUND_X, sizes[word] * 0.55 + AROUND_Y];
  for (let word = 0; word < N; word++) {
    if (levelOf[word] === NEVER) continue;
    const [x, y] = [placeX(word) * scale, placeY(word) * scale];
    const [w, h] = halves(word);
    boxes.put(x - w, y - h, x + w, y + h);
  }
  for (const word of order) {
    if (levelOf[word] !== NEVER) continue;
    const [x, y] = [placeX(word) * scale, placeY(word) * scale];
    const [w, h] = halves(word);
    if (boxes.add(x - w, y - h, x + w, y + h)) levelOf[word] = level;
  }
}

// What is written on a map of texts: titles, and names of groups where most of their dots are.
const WRITTEN = 60; // titles: of all dots in view, if they are not more
const TRIED = 1500; // dots of which the title is tried where more are in view
const CLOSER = 3; // the level from which on there are titles in place of the names of groups
const NEVER_SHARED = 7919; // a prime: with steps of it all dots are visited, near ones late after each other
const LINE = 18, DISC = 8; // of names of groups, CSS pixels
const PLACES_OF_A_NAME = 12;
let namePlaces = []; // of the groups, the largest first: [colour, [[x, y], …] on the grid, the best first]

// Titles where few dots are in view, and of the text in focus; names of groups where all are.
function drawTitles(seen, isFew) {
  const boxes = new Boxes(), focus = wordInFocus();
  written = [];
  context.globalAlpha = 1;
  const isFull = seen.length > WRITTEN, [aside, above] = isFull && !isFew ? [24, 22] : [0, 7]; // around titles of some there are dots to see
  const place = (word, manner) => {
    const half = widthOf(context, word) / 2, below = screenY(placeY(word)) < 36 ? 14 : -12;
    const x = within(screenX(placeX(word)), half, stage.width), y = screenY(placeY(word)) + below;
    if (boxes.add(x - half - aside, y - above, x + half + aside, y + above) || manner !== "plain") write(word, x, y, manner);
  };
  if (focus >= 0) {
    context.strokeStyle = colours.ink;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(screenX(placeX(focus)), screenY(placeY(focus)), 6, 0, 2 * Math.PI);
    context.stroke();
    place(focus, "underlined");
  }
  context.globalAlpha = isFew || focus >= 0 ? 0.6 : 1; // they say where one is, behind what is lit
  if (levelNow() < CLOSER) for (const [colour, places] of namePlaces) writeGroup(colour, places, boxes);
  context.globalAlpha = 1;
  for (const word of isFull ? (levelNow() < CLOSER ? [] : spreadInView()) : seen) {
    if (word !== focus) place(word, "plain");
  }
}

// Dots in view, each title once, in an order that moving the map does not change; those that are lit alone, where some are.
function spreadInView() {
  const found = new Map(), group = groupInFocus(), step = N % NEVER_SHARED ? NEVER_SHARED : 1;
  const isShown = (word) => (litNumbers.length ? few[word] : group < 0 || GROUPS[word] === group);
  for (let n = 0, word = 0; n < N && found.size < TRIED; n++, word = (word + step) % N) {
    if (!isShown(word) || found.has(WORDS[word])) continue;
    const x = screenX(placeX(word)), y = screenY(placeY(word));
    if (x > EDGE && y > EDGE && x < stage.width - EDGE && y < stage.height - EDGE) found.set(WORDS[word], word);
  }
  return found.values();
}

// At the first of its places where it covers no other name, or a line or two above or below one.
function writeGroup(colour, places, boxes) {
  const said = NAMES.find(([one]) => one === colour)[1].join(", ");
  context.font = `600 ${stage.width < 600 ? 12 : 13}px ${letters}`;
  const half = context.measureText(said).width / 2 + DISC;
  const seen = places.map(([x, y]) => (turned ? [screenX(65535 - y), screenY(x)] : [screenX(x), screenY(y)]))
    .filter(([x, y]) => x >= 0 && y >= 0 && x <= stage.width && y <= stage.height);
  for (const lines of [[0, -1, 1], [-2, 2]]) {
    for (const [toX, toY] of seen) {
      for (const lower of lines) {
        const x = within(toX, half, stage.width), y = within(toY + lower * (LINE + 1), LINE / 2, stage.height);
        if (boxes.add(x - half - 4, y - LINE / 2, x + half + 4, y + LINE / 2)) return drawName(said, colour, x, y, half);
      }
    }
  }
}

// With a disc as in the legend.
function drawName(said, colour, x, y, half) {
  Object.assign(context, { textAlign: "center", textBaseline: "middle", lineJoin: "round", lineWidth: 4, strokeStyle: colours.paper, fillStyle: colours.ink });
  context.direction = RIGHT_TO_LEFT.test(said) ? "rtl" : "ltr";
  context.strokeText(said, x + DISC, y);
  context.fillText(said, x + DISC, y);
  context.fillStyle = colours.groups[colour];
  context.beginPath();
  context.arc(x - half + DISC / 2, y, DISC / 2, 0, 2 * Math.PI);
  context.stroke();
  context.fill();
}

// The middle of what is written there, so that no end of it is in the edge that fades.
const within = (middle, half, size) => Math.min(size - half - EDGE, Math.max(half + EDGE, middle));

// Values of a field lie everywhere and are not written.
function findNamePlaces() {
  namePlaces = [];
  if (GROUPS === null || NAMES.length < 2 || document.getElementById("colour")?.value > 0) return;
  const side = Math.min(48, Math.max(4, Math.round(Math.sqrt(N) / 3))), all = around(squares(side, () => true), side);
  for (const [colour] of NAMES) {
    const own = around(squares(side, (word) => GROUPS[word] === colour), side);
    const found = bestPlaces(own, all, side);
    if (found.length) namePlaces.push([colour, found]);
  }
}

// The map in side × side squares: of each the number of texts, and the sums of their places.
function squares(side, isWanted) {
  const sums = [0, 1, 2].map(() => new Float64Array(side * side));
  for (let word = 0; word < N; word++) {
    if (!isWanted(word)) continue;
    const [x, y] = [PLACES[2 * word], PLACES[2 * word + 1]], at = Math.floor((y * side) / 65536) * side + Math.floor((x * side) / 65536);
    for (const [one, much] of [1, x, y].entries()) sums[one][at] += much;
  }
  return sums;
}

// Each square with the eight around it.
function around(sums, side) {
  return sums.map((one) => one.map((_, at) => {
    let sum = 0;
    for (let y = Math.max(0, Math.floor(at / side) - 1); y <= Math.min(side - 1, Math.floor(at / side) + 1); y++) {
      for (let x = Math.max(0, (at % side) - 1); x <= Math.min(side - 1, (at % side) + 1); x++) sum += one[y * side + x];
    }
    return sum;
  }));
}

// Where many texts are a group's own, and few of others; each a little away from the better ones.
function bestPlaces([number, x, y], [all], side) {
  const weight = number.map((own, at) => (own ? own ** 2 / all[at] : 0)), found = [];
  for (const at of Array.from(weight.keys()).sort((a, b) => weight[b] - weight[a])) {
    if (!weight[at] || found.length === PLACES_OF_A_NAME) break;
    const isNear = (other) => Math.max(Math.abs((other % side) - (at % side)), Math.abs(Math.floor(other / side) - Math.floor(at / side))) < 2;
    if (!found.some(isNear)) found.push(at);
  }
  return found.map((at) => [x[at] / number[at], y[at] / number[at]]);
}

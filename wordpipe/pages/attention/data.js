// What the page shows. Weights come as bytes in base64: 255 stands for 1 (of norms: for the largest share of the head).
const DATA = JSON.parse(document.getElementById("data").textContent);
const STACKS = DATA.stacks.map((one) => ({ ...one, weights: bytesOf(one.weights), norms: bytesOf(one.norms), rollout: one.rollout && bytesOf(one.rollout) }));
const VIEWS = { weights: "weights", norms: "value-weighted", rollout: "rollout" };
const MEANINGS = {
  weights: "Attention weights α: the weights of each row sum to 1.",
  norms: "Shares of ‖α·f(v)‖, which is the weight multiplied by the length of the vector that the head adds for a position (Kobayashi et al. 2020). A large weight on a short vector has little effect.",
  rollout: "Rollout estimates how much each input token contributes to each position after a layer. Rollout is the product of ½ (A + I) over the layers, where A is the mean of the heads (Abnar & Zuidema 2020).",
};
const LOOKS = {
  previous: "the previous token", next: "the next token", same: "the token itself", first: "the first token",
  separators: "separators and end tokens", broad: "broad, many tokens equally", mixed: "mixed",
};
const SHORT = { previous: "prev", next: "next", same: "same", first: "first", separators: "sep", broad: "broad", mixed: "mixed" };
const state = { stack: 0, view: "weights", unit: "tokens", layer: 0, head: 0, row: -1, column: -1 };

function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function stackNow() {
  return STACKS[state.stack];
}

function headsNow() {
  return state.view === "rollout" ? 1 : stackNow().heads;
}

function side(name) {
  const tokens = DATA.tokens[name];
  return state.unit === "words" ? tokens.words : tokens.shown;
}

function rowNames() {
  return side(stackNow().rows);
}

function columnNames() {
  return side(stackNow().columns);
}

// The matrix of one head as numbers, tokens or words: what goes to the parts of a word is summed, what comes from them averaged.
const known = new Map();
function matrixOf(layer, head) {
  const key = [state.stack, state.view, state.unit, layer, head].join();
  if (!known.has(key)) known.set(key, state.unit === "words" ? joined(tokenMatrix(layer, head)) : tokenMatrix(layer, head));
  return known.get(key);
}

function tokenMatrix(layer, head) {
  const stack = stackNow();
  const rows = DATA.tokens[stack.rows].shown.length, columns = DATA.tokens[stack.columns].shown.length;
  const bytes = stack[state.view];
  const place = state.view === "rollout" ? layer : layer * stack.heads + head;
  const scale = (state.view === "norms" ? stack.scales[layer][head] : 1) / 255;
  const values = Float32Array.from(bytes.subarray(place * rows * columns, (place + 1) * rows * columns), (byte) => byte * scale);
  return { rows, columns, values };
}

function joined({ rows, columns, values }) {
  const stack = stackNow();
  const from = DATA.tokens[stack.rows].number, to = DATA.tokens[stack.columns].number;
  const height = DATA.tokens[stack.rows].words.length, width = DATA.tokens[stack.columns].words.length;
  const out = new Float32Array(height * width), parts = new Float32Array(height);
  for (let row = 0; row < rows; row++) {
    parts[from[row]]++;
    for (let column = 0; column < columns; column++) out[from[row] * width + to[column]] += values[row * columns + column];
  }
  for (let row = 0; row < height; row++) for (let column = 0; column < width; column++) out[row * width + column] /= parts[row];
  return { rows: height, columns: width, values: out };
}

function shown(value) {
  return value < 0.0005 ? "0" : value.toFixed(3);
}

// A token where it would not be seen.
function visible(text) {
  return text.trim() === "" ? "␣" : text;
}

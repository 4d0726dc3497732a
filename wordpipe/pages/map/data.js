// The words of the map, one entry each, the commonest first; or titles of texts. Arrays come as base64 of little-endian numbers.
const DATA = JSON.parse(document.getElementById("data").textContent);
const WORDS = DATA.words;
const TEXTS = DATA.texts ?? null; // what a map of texts has besides
const N = WORDS.length;
const COUNTS = DATA.counts ?? new Uint8Array(N);
const RANKS = DATA.ranks ?? []; // among all words of the table, from 0
const K = DATA.k; // neighbours known of each word
const PLACES = new Uint16Array(bytesOf(DATA.places).buffer); // x, y of each word on a grid of 65,536 steps
const NEIGHBOURS = new Uint16Array(bytesOf(DATA.neighbours).buffer); // K numbers of words, the nearest first
const COSINES = new Int8Array(bytesOf(DATA.cosines).buffer); // K hundredths of the cosine
let GROUPS = bytesOf(DATA.groups); // the number of the colour
let NAMES = DATA.names; // [colour, words] of each group, the largest group first
const SERVED = DATA.served ?? null; // the name of the words in the server that shows them
const THINGS = TEXTS ? "texts" : "words";
const EDGE = 20; // of the canvas that fades, CSS pixels; see page.css
const LONGEST_LABEL = 42; // letters

function bytesOf(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

const ROWS = TEXTS ? new Uint32Array(bytesOf(TEXTS.rows).buffer) : []; // ascending

// Maps are wide; on an upright screen they are turned, as a map's directions mean nothing.
let turned = false;

function placeX(word) {
  return turned ? 65535 - PLACES[2 * word + 1] : PLACES[2 * word];
}

function placeY(word) {
  return PLACES[2 * word + (turned ? 0 : 1)];
}

function neighboursOf(word) {
  return NEIGHBOURS.subarray(K * word, K * (word + 1));
}

// What is written on the canvas: a long title is cut.
function labelOf(word) {
  return TEXTS && WORDS[word].length > LONGEST_LABEL ? `${WORDS[word].slice(0, LONGEST_LABEL - 2)}…` : WORDS[word];
}

// How a word is called in the address: a text by its row.
function nameInAddress(word) {
  return TEXTS ? String(ROWS[word]) : WORDS[word];
}

function wordNamed(name) {
  if (TEXTS) return ROWS.indexOf(Number(name));
  const word = WORDS.indexOf(name);
  return word >= 0 ? word : FOLDED.indexOf(name.toLowerCase());
}

// What is being looked at; -1 is nothing. `draw` in drawing.js shows it.
const state = { hovered: -1, chosen: -1, hoveredGroup: -1, litGroup: -1 };

function wordInFocus() {
  return state.chosen >= 0 ? state.chosen : state.hovered;
}

function groupInFocus() {
  return state.hoveredGroup >= 0 ? state.hoveredGroup : state.litGroup;
}

// Start: choices, the chosen head with its figures and its table, and what happens when the window or the colours change.
const details = document.getElementById("values");

function drawHead() {
  const stack = stackNow();
  state.row = state.column = -1;
  const title = state.view === "rollout" ? `Rollout after layer ${state.layer + 1}` : `Layer ${state.layer + 1}, head ${state.head + 1}: ${LOOKS[stack.names[state.layer][state.head]]}`;
  document.getElementById("chosen-title").textContent = title;
  document.getElementById("about").textContent = state.view === "rollout" ? "" : aboutHead(stack);
  drawLines();
  drawMatrix();
  if (details.open) drawTable();
}

function aboutHead(stack) {
  const share = (name) => stack.shares[name][state.layer][state.head];
  const parts = ["previous", "next", "same", "first", "separators"].map((name) => `${LOOKS[name]} ${(100 * share(name)).toFixed(0)}%`);
  let text = `Mean weight on ${parts.join(", ")}; entropy ${(100 * share("spread")).toFixed(0)}% of the maximum (${DATA.over}).`;
  if (stack.importance) text += ` Without this head, the loss rises by ${stack.importance[state.layer][state.head].toFixed(4)} (${DATA.loss}).`;
  return text;
}

function drawTable() {
  const matrix = matrixOf(state.layer, state.head), table = document.createElement("table"), names = columnNames();
  const head = table.createTHead().insertRow(), body = table.createTBody();
  head.append(element("td", ""), ...names.map((name) => scoped(name, "col")));
  rowNames().forEach((name, row) => {
    const line = body.insertRow();
    line.append(scoped(name, "row"));
    for (let column = 0; column < matrix.columns; column++) line.append(element("td", shown(matrix.values[row * matrix.columns + column])));
  });
  details.querySelector(".scroll").replaceChildren(table);
}

function scoped(name, scope) {
  const cell = element("th", visible(name));
  cell.scope = scope;
  return cell;
}

function addChoices(id, name, choices, chosen, change) {
  const set = document.getElementById(id);
  for (const [value, text] of choices) {
    const label = document.createElement("label"), input = document.createElement("input");
    Object.assign(input, { type: "radio", name, value, checked: value === chosen });
    input.addEventListener("change", () => change(value));
    label.append(input, text);
    set.append(label);
  }
  if (choices.length < 2) set.hidden = true;
}

function redraw() {
  const rollout = document.querySelector('input[value="rollout"]');
  rollout.disabled = !stackNow().rollout;
  if (state.view === "rollout" && rollout.disabled) {
    state.view = "weights";
    document.querySelector('input[value="weights"]').checked = true;
  }
  state.layer = Math.min(state.layer, stackNow().layers - 1);
  state.head = Math.min(state.head, headsNow() - 1);
  document.getElementById("meaning").textContent = MEANINGS[state.view] + (state.unit === "words" ? " For words, the value is a sum over the tokens of the word that gets attention, and a mean over the tokens of the word that gives attention." : "");
  drawGrid();
  drawHead();
}

function start() {
  const set = (name) => (value) => {
    state[name] = value;
    redraw();
  };
  addChoices("stacks", "stack", STACKS.map((one, place) => [place, one.name]), 0, set("stack"));
  addChoices("views", "view", Object.entries(VIEWS), "weights", set("view"));
  addChoices("units", "unit", [["tokens", "tokens"], ["words", "words"]], "tokens", set("unit"));
  state.layer = DATA.first[0];
  state.head = DATA.first[1];
  startGrid();
  startLines();
  startMatrix();
  details.addEventListener("toggle", () => details.open && drawTable());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let width = 0;
  new ResizeObserver(() => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    drawLines();
    drawMatrix();
  }).observe(document.body);
  redraw();
}

start();

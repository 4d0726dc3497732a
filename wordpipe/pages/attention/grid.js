// All heads at a glance: one small picture each, and which one is chosen.
const grid = document.getElementById("grid");

function markColour() {
  const found = getComputedStyle(document.documentElement).getPropertyValue("--mark").trim();
  return [1, 3, 5].map((at) => parseInt(found.slice(at, at + 2), 16));
}

// Small weights are seen too: what is drawn grows with the square root.
function opacity(value) {
  return Math.sqrt(Math.min(1, value));
}

function drawThumbnail(canvas, layer, head) {
  const { rows, columns, values } = matrixOf(layer, head);
  canvas.width = columns;
  canvas.height = rows;
  const image = new ImageData(columns, rows), [red, green, blue] = markColour();
  values.forEach((value, place) => image.data.set([red, green, blue, 255 * opacity(value)], 4 * place));
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function labelOf(layer, head) {
  const stack = stackNow();
  if (state.view === "rollout") return `rollout after layer ${layer + 1}`;
  let label = `layer ${layer + 1}, head ${head + 1}: ${LOOKS[stack.names[layer][head]]}`;
  if (stack.importance) label += `; without this head, the loss rises by ${stack.importance[layer][head].toFixed(4)}`;
  return label;
}

function drawGrid() {
  const stack = stackNow(), heads = headsNow(), parts = [];
  const most = stack.importance ? Math.max(1e-9, ...stack.importance.flat()) : 0;
  grid.style.gridTemplateColumns = heads === 1 ? "1.4rem minmax(26px, 7rem)" : `1.4rem repeat(${heads}, minmax(26px, 1fr))`;
  parts.push(element("span", ""));
  for (let head = 0; head < heads; head++) parts.push(element("span", heads === 1 ? "" : head + 1));
  for (let layer = 0; layer < stack.layers; layer++) {
    parts.push(element("span", layer + 1));
    for (let head = 0; head < heads; head++) {
      const button = element("button", "");
      const canvas = document.createElement("canvas");
      button.type = "button";
      button.title = labelOf(layer, head);
      button.setAttribute("aria-label", labelOf(layer, head));
      button.append(canvas);
      if (state.view !== "rollout") {
        button.append(element("small", SHORT[stack.names[layer][head]]));
        if (stack.importance) {
          const bar = element("span", ""), inner = document.createElement("i");
          bar.className = "worth";
          inner.style.width = `${100 * Math.max(0, stack.importance[layer][head]) / most}%`;
          bar.append(inner);
          button.append(bar);
        }
      }
      button.dataset.layer = layer;
      button.dataset.head = head;
      drawThumbnail(canvas, layer, head);
      parts.push(button);
    }
  }
  document.getElementById("worth").hidden = !stack.importance || state.view === "rollout";
  grid.replaceChildren(...parts);
  markChosen();
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function buttonOf(layer, head) {
  return grid.querySelector(`[data-layer="${layer}"][data-head="${head}"]`);
}

function markChosen() {
  for (const button of grid.querySelectorAll("button")) {
    const chosen = Number(button.dataset.layer) === state.layer && Number(button.dataset.head) === state.head;
    button.setAttribute("aria-pressed", chosen);
    button.tabIndex = chosen ? 0 : -1;
  }
}

function chooseHead(layer, head, focus) {
  state.layer = Math.max(0, Math.min(stackNow().layers - 1, layer));
  state.head = Math.max(0, Math.min(headsNow() - 1, head));
  markChosen();
  if (focus) buttonOf(state.layer, state.head).focus();
  drawHead();
}

function startGrid() {
  grid.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) chooseHead(Number(button.dataset.layer), Number(button.dataset.head), true);
  });
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  grid.addEventListener("keydown", (event) => {
    const step = steps[event.key];
    if (event.key === "Home") chooseHead(0, 0, true);
    else if (event.key === "End") chooseHead(stackNow().layers - 1, headsNow() - 1, true);
    else if (step) chooseHead(state.layer + step[0], state.head + step[1], true);
    else return;
    event.preventDefault();
  });
}

// The chosen head as a matrix, with the tokens beside and above it.
const canvas = document.getElementById("matrix");
const MOST_ROOM = 84; // pixels for the names beside and above
let cell = 0, left = 0, above = 0;

function drawMatrix() {
  const matrix = matrixOf(state.layer, state.head), style = getComputedStyle(document.documentElement);
  const room = canvas.parentElement.clientWidth, ratio = devicePixelRatio || 1;
  const pen = canvas.getContext("2d");
  left = roomFor(pen, rowNames());
  above = roomFor(pen, columnNames());
  cell = Math.min(28, (room - left - 1) / matrix.columns);
  const width = room, height = above + cell * matrix.rows + 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.height = `${height}px`;
  const ink = style.getPropertyValue("--ink"), line = style.getPropertyValue("--line");
  const [red, green, blue] = markColour();
  pen.scale(ratio, ratio);
  for (let row = 0; row < matrix.rows; row++) {
    for (let column = 0; column < matrix.columns; column++) {
      const value = matrix.values[row * matrix.columns + column];
      if (!value) continue;
      pen.fillStyle = `rgb(${red} ${green} ${blue} / ${opacity(value)})`;
      pen.fillRect(left + column * cell, above + row * cell, Math.max(cell - 0.5, 0.5), Math.max(cell - 0.5, 0.5));
    }
  }
  pen.strokeStyle = line;
  pen.strokeRect(left - 0.5, above - 0.5, cell * matrix.columns, cell * matrix.rows);
  pen.fillStyle = ink;
  const size = Math.max(7, Math.min(12, cell - 1));
  names(pen, rowNames(), size, state.row, (place) => [left - 5, above + (place + 0.5) * cell, 0]);
  names(pen, columnNames(), size, state.column, (place) => [left + (place + 0.5) * cell, above - 5, -Math.PI / 2]);
  if (state.row >= 0 && state.column >= 0) {
    pen.strokeStyle = style.getPropertyValue("--focus");
    pen.lineWidth = 2;
    pen.strokeRect(left + state.column * cell - 1, above + state.row * cell - 1, cell + 1.5, cell + 1.5);
  }
}

function names(pen, texts, size, chosen, place) {
  const every = Math.ceil(size / cell); // where rows are lower than letters
  texts.forEach((text, number) => {
    const hidden = chosen < 0 ? number % every : number % every || Math.abs(number - chosen) < every;
    if (hidden && number !== chosen) return;
    const [x, y, turn] = place(number);
    pen.save();
    pen.translate(x, y);
    pen.rotate(turn);
    pen.font = `${number === chosen ? "600 " : ""}${size}px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    pen.textAlign = turn ? "left" : "right";
    pen.fillText(fitting(pen, visible(text)), 0, 0);
    pen.restore();
  });
}

function roomFor(pen, texts) {
  pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return Math.min(MOST_ROOM, 10 + Math.max(...texts.map((text) => pen.measureText(visible(text)).width)));
}

function fitting(pen, text) {
  if (pen.measureText(text).width <= MOST_ROOM - 8) return text;
  let letters = [...text];
  while (letters.length > 1 && pen.measureText(`${letters.join("")}…`).width > MOST_ROOM - 8) letters.pop();
  return `${letters.join("")}…`;
}

function startMatrix() {
  canvas.addEventListener("pointermove", (event) => {
    const matrix = matrixOf(state.layer, state.head), box = canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - left) / cell), row = Math.floor((event.clientY - box.top - above) / cell);
    const inside = row >= 0 && column >= 0 && row < matrix.rows && column < matrix.columns;
    lookAt(inside ? row : -1, inside ? column : -1);
  });
  canvas.addEventListener("pointerleave", () => lookAt(-1, -1));
  canvas.addEventListener("focus", () => lookAt(Math.max(0, state.row), Math.max(0, state.column)));
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    const matrix = matrixOf(state.layer, state.head);
    lookAt(Math.max(0, Math.min(matrix.rows - 1, state.row + step[0])), Math.max(0, Math.min(matrix.columns - 1, state.column + step[1])));
    event.preventDefault();
  });
}

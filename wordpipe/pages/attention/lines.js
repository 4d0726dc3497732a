// The chosen head as lines between two columns of tokens.
const ROW = 24; // in page.css, too
const LEAST = 0.02; // weaker lines are not drawn
const links = document.getElementById("links");
const columns = { from: document.getElementById("from"), to: document.getElementById("to") };

function drawLines() {
  const matrix = matrixOf(state.layer, state.head);
  fillColumn(columns.from, rowNames(), "row");
  fillColumn(columns.to, columnNames(), "column");
  const width = links.clientWidth || 120, parts = [];
  let dropped = 0;
  links.setAttribute("height", ROW * Math.max(matrix.rows, matrix.columns));
  for (let row = 0; row < matrix.rows; row++) {
    for (let column = 0; column < matrix.columns; column++) {
      const value = matrix.values[row * matrix.columns + column];
      if (value < LEAST) {
        dropped += value > 0;
        continue;
      }
      const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      for (const [name, at] of [["x1", 0], ["y1", ROW * (row + 0.5)], ["x2", width], ["y2", ROW * (column + 0.5)]]) line.setAttribute(name, at);
      line.setAttribute("stroke", "currentColor");
      line.setAttribute("stroke-width", 0.75 + 2.5 * value);
      line.dataset.row = row;
      line.dataset.column = column;
      line.dataset.value = value;
      parts.push(line);
    }
  }
  links.replaceChildren(...parts);
  document.getElementById("dropped").textContent = dropped ? `${dropped} lines with values below ${LEAST} are not drawn; the matrix and the table show all values.` : "";
  light();
}

function fillColumn(column, names, what) {
  const before = [...column.children].findIndex((one) => one.tabIndex === 0);
  const chosen = before >= 0 && before < names.length ? before : 0;
  column.replaceChildren(...names.map((name, place) => {
    const button = element("button", visible(name));
    button.type = "button";
    button.tabIndex = place === chosen ? 0 : -1;
    button.dataset[what] = place;
    return button;
  }));
}

// The lines of what is looked at, or all of them; what is looked at is named in the readout.
function light() {
  for (const line of links.children) {
    const mine = (state.row < 0 || Number(line.dataset.row) === state.row) && (state.column < 0 || Number(line.dataset.column) === state.column);
    line.setAttribute("stroke-opacity", mine ? opacity(Number(line.dataset.value)) : 0.03);
  }
  [...columns.from.children].forEach((one, place) => one.classList.toggle("lit", place === state.row));
  [...columns.to.children].forEach((one, place) => one.classList.toggle("lit", place === state.column));
  readOut();
}

function readOut() {
  const matrix = matrixOf(state.layer, state.head), rows = rowNames(), names = columnNames();
  const at = (row, column) => matrix.values[row * matrix.columns + column];
  let text = "To see values, point at a token or a cell, or select a token or a cell with the keyboard.";
  if (state.row >= 0 && state.column >= 0) {
    text = `${visible(rows[state.row])} → ${visible(names[state.column])}: ${shown(at(state.row, state.column))}`;
  } else if (state.row >= 0 || state.column >= 0) {
    const isRow = state.row >= 0, others = isRow ? names : rows;
    const ranked = others.map((name, place) => [isRow ? at(state.row, place) : at(place, state.column), name]).sort((a, b) => b[0] - a[0]);
    const list = ranked.slice(0, 8).filter(([value]) => value >= 0.0005).map(([value, name]) => `${visible(name)} ${shown(value)}`).join(" · ");
    text = isRow ? `${visible(rows[state.row])} attends to: ${list}` : `${visible(names[state.column])} gets attention from: ${list}`;
  }
  document.getElementById("readout").textContent = text;
}

function lookAt(row, column) {
  state.row = row;
  state.column = column;
  light();
  drawMatrix();
}

function startLines() {
  for (const [name, column] of Object.entries(columns)) {
    const show = (event) => {
      const button = event.target.closest("button");
      if (button) lookAt(name === "from" ? Number(button.dataset.row) : -1, name === "to" ? Number(button.dataset.column) : -1);
    };
    column.addEventListener("pointerover", show);
    column.addEventListener("focusin", show);
    column.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      const next = step && column.children[[...column.children].indexOf(document.activeElement) + step];
      if (!next) return;
      document.activeElement.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
      event.preventDefault();
    });
  }
  document.getElementById("lines").addEventListener("pointerleave", () => lookAt(-1, -1));
}

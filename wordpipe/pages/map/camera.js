// Where we look: the place in the middle of the canvas, and pixels per step of the grid.
const camera = { x: 0, y: 0, scale: 1 };
const stage = { width: 0, height: 0, fit: 1, middleX: 0, middleY: 0, window: 0 }; // in CSS pixels; window is its width; fit is the scale that shows all
const MOST_ZOOM = 96;
const still = matchMedia("(prefers-reduced-motion: reduce)");
let flight = 0; // the animation frame that is asked for

function measureStage(canvas) {
  const upright = innerWidth === stage.window ? turned : innerHeight > innerWidth; // of the window: card and keyboard take from the height alone
  stage.window = innerWidth;
  if (upright !== turned) stage.width = 0; // so that all is shown
  turned = upright;
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let word = 0; word < N; word++) {
    left = Math.min(left, placeX(word));
    right = Math.max(right, placeX(word));
    top = Math.min(top, placeY(word));
    bottom = Math.max(bottom, placeY(word));
  }
  const wasFit = stage.fit;
  const zoom = stage.width ? camera.scale / wasFit : 0;
  stage.width = canvas.clientWidth;
  stage.height = canvas.clientHeight;
  const margin = Math.min(56, stage.width / 10);
  stage.fit = Math.min(
    (stage.width - 2 * margin) / Math.max(1, right - left),
    (stage.height - margin) / Math.max(1, bottom - top),
  );
  stage.middleX = (left + right) / 2;
  stage.middleY = (top + bottom) / 2;
  if (zoom) camera.scale = stage.fit * zoom;
  else Object.assign(camera, wholeMap());
}

function wholeMap() {
  return { x: stage.middleX, y: stage.middleY, scale: stage.fit };
}

function screenX(x) {
  return (x - camera.x) * camera.scale + stage.width / 2;
}

function screenY(y) {
  return (y - camera.y) * camera.scale + stage.height / 2;
}

function allowed(scale) {
  return Math.min(MOST_ZOOM * stage.fit, Math.max(0.6 * stage.fit, scale));
}

// Keep the middle of the view over the map.
function holdOnMap() {
  camera.x = Math.min(65535, Math.max(0, camera.x));
  camera.y = Math.min(65535, Math.max(0, camera.y));
}

function panBy(pixelsX, pixelsY) {
  cancelAnimationFrame(flight);
  camera.x -= pixelsX / camera.scale;
  camera.y -= pixelsY / camera.scale;
  holdOnMap();
  draw();
  keepViewSoon();
}

// Zoom so that what is under a point of the canvas stays there.
function zoomed(factor, atX, atY) {
  const scale = allowed(camera.scale * factor);
  const [dx, dy] = [atX - stage.width / 2, atY - stage.height / 2];
  const shift = 1 / camera.scale - 1 / scale;
  return { x: camera.x + dx * shift, y: camera.y + dy * shift, scale };
}

function zoomAt(factor, atX, atY) {
  cancelAnimationFrame(flight);
  Object.assign(camera, zoomed(factor, atX, atY));
  holdOnMap();
  draw();
  keepViewSoon();
}

// Move there in a moment; on the way the picture grows or shrinks around one point.
function flyTo(target, milliseconds = 550) {
  cancelAnimationFrame(flight);
  if (still.matches) milliseconds = 0;
  const from = { ...camera };
  const ratio = target.scale / from.scale;
  const began = performance.now();
  const step = (now) => {
    const time = milliseconds ? Math.min(1, Math.max(0, (now - began) / milliseconds)) : 1;
    const eased = time < 0.5 ? 4 * time ** 3 : 1 - (2 - 2 * time) ** 3 / 2;
    const grown = ratio ** eased;
    const share = Math.abs(ratio - 1) < 0.01 ? eased : (1 - 1 / grown) / (1 - 1 / ratio);
    camera.scale = from.scale * grown;
    camera.x = from.x + (target.x - from.x) * share;
    camera.y = from.y + (target.y - from.y) * share;
    if (time < 1) flight = requestAnimationFrame(step);
    else Object.assign(camera, target);
    draw();
    keepViewSoon();
  };
  step(began);
}

// Close enough to a word to see its surroundings: where most of its neighbours that lie close by fit on the canvas.
function viewOf(word) {
  const [x, y] = [placeX(word), placeY(word)];
  const needed = Array.from(neighboursOf(word), (near) =>
    Math.max(Math.abs(placeX(near) - x) / stage.width, Math.abs(placeY(near) - y) / stage.height),
  ).sort((a, b) => a - b);
  const scale = K ? 0.4 / Math.max(1e-9, needed[Math.floor(0.7 * (K - 1))]) : Math.max(camera.scale, 9 * stage.fit); // a text has no neighbours here
  return { x, y, scale: Math.min(9 * stage.fit, Math.max(2.5 * stage.fit, scale)) };
}

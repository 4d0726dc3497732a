// Start: colours, sizes, listeners, and the word that is named in the address or by the page.
const dark = matchMedia("(prefers-color-scheme: dark)");

function wordInAddress() {
  try {
    return location.hash ? wordNamed(decodeURIComponent(location.hash.slice(1))) : -1;
  } catch {
    return -1; // not an address that this page made
  }
}

function refresh(density) {
  readColours();
  resize(density);
  drawNow(true);
}

// On paper: black on white whatever the screen, and as many dots as a printer has.
function startPrinting() {
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("paper");
    refresh(3);
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("paper");
    refresh();
  });
}

function start() {
  document.documentElement.classList.add("live");
  const linked = wordInAddress();
  startSearch();
  drawLegend();
  if (TEXTS) startTexts();
  startPointer();
  startPrinting();
  document.getElementById("zoom-in").addEventListener("click", () => flyTo(zoomed(1.6, stage.width / 2, stage.height / 2), 200));
  document.getElementById("zoom-out").addEventListener("click", () => flyTo(zoomed(1 / 1.6, stage.width / 2, stage.height / 2), 200));
  document.getElementById("reset").addEventListener("click", reset);
  dark.addEventListener("change", () => refresh());
  new ResizeObserver(() => refresh()).observe(canvas);
  addEventListener("hashchange", () => wordInAddress() >= 0 && goTo(wordInAddress()));
  refresh();
  showCard();
  if (linked >= 0 && TEXTS && wanted.value) choose(linked); // among the answers, which stay in view
  else if (linked >= 0) goTo(linked);
  else if (DATA.chosen !== null) choose(DATA.chosen);
}

start();

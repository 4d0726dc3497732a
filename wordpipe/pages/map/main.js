// Start: colours, sizes, listeners, and the word that is named in the address or by the page.
const dark = matchMedia("(prefers-color-scheme: dark)");

// What stands in the address after #.
function namedInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return ""; // not an address that this page made
  }
}

function wordInAddress() {
  const name = namedInAddress();
  return name ? wordNamed(name) : -1;
}

function refresh(density) {
  readColours();
  resize(density);
  drawNow(true);
}

// On paper: black on white whatever the screen, and as many dots as a printer has; what is asked, what the colours are, the day and the address.
function startPrinting() {
  const told = element("p", "", "paper"), address = element("p", "", "paper");
  document.querySelector("header").append(told);
  document.querySelector("aside").append(address);
  addEventListener("beforeprint", () => {
    const asked = wanted.value.trim(), colours = legend.children.length ? document.querySelector("#groups > summary").textContent : "";
    told.textContent = [asked && `question: ${asked}`, TEXTS?.index && `index: ${TEXTS.index}`, colours, `printed on ${new Date().toLocaleDateString("sv")}`].filter(Boolean).join(" · ");
    address.textContent = location.protocol === "file:" ? "" : location.href; // the folder of a file is nobody else's
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
  absent = linked < 0 ? namedInAddress() : "";
  startSearch();
  if (TEXTS) startTexts();
  drawLegend();
  startPointer();
  startPrinting();
  if (matchMedia("(max-width: 760px), (max-height: 520px)").matches) document.getElementById("groups").open = false; // the map comes first, or the list
  document.getElementById("zoom-in").addEventListener("click", () => flyTo(zoomed(1.6, stage.width / 2, stage.height / 2), 200));
  document.getElementById("zoom-out").addEventListener("click", () => flyTo(zoomed(1 / 1.6, stage.width / 2, stage.height / 2), 200));
  document.getElementById("reset").addEventListener("click", reset);
  dark.addEventListener("change", () => refresh());
  new ResizeObserver(() => refresh()).observe(canvas);
  addEventListener("hashchange", () => wordInAddress() >= 0 && goTo(wordInAddress()));
  addEventListener("pagehide", keepPlace);
  startAnalogy();
  refresh();
  showCard();
  keepMenu();
  const kept = keptPlace();
  if (kept) return restorePlace(kept, linked);
  if (TEXTS && (wanted.value || filtersSaid())) lightAnswers(0, true);
  if (linked >= 0 && TEXTS && wanted.value) choose(linked); // among the answers, which stay in view
  else if (linked >= 0) goTo(linked);
  else if (analogyOnMap().length) showAnalogy();
  else if (DATA.chosen !== null) choose(DATA.chosen);
  if (SERVER) showAddressed();
}

start();

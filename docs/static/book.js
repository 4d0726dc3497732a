// What a reader does with a block of code: copies its commands, without prompts and answers; scrolls a wide one by keys.
const WAIT = 1500; // milliseconds that "copied" is shown

// The text to copy: of a terminal the lines after a prompt, with those that go on with them.
function commands(block) {
  const lines = block.querySelector("pre").textContent.replace(/\n+$/, "").split("\n");
  if (!block.closest(".highlight-console")) return lines.join("\n");
  const found = [];
  for (const line of lines) {
    if (line.startsWith("$ ")) found.push(line.slice(2));
    else if (found.length && found.at(-1).endsWith("\\")) found.push(line.replace(/^> ?/, ""));
  }
  return found.join("\n");
}

function addCopy(block) {
  const text = commands(block);
  if (!text || !navigator.clipboard) return;
  const button = Object.assign(document.createElement("button"), {type: "button", className: "copy", textContent: "Copy"});
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), WAIT);
  });
  block.append(button);
}

// The page of the search has no heading of its own.
function nameSearch() {
  const results = document.querySelector("#search-results");
  if (!results || document.querySelector("h1")) return;
  results.before(Object.assign(document.createElement("h1"), {textContent: "Search"}));
}

function letScroll() {
  for (const one of document.querySelectorAll("pre, .table-wrapper, div.math")) {
    if (one.scrollWidth > one.clientWidth) one.tabIndex = 0;
    else one.removeAttribute("tabindex");
  }
}

addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("div.highlight").forEach(addCopy);
  for (const [name, label] of [[".sidebar-drawer", "All pages"], [".toc-drawer", "This page"]]) document.querySelector(name)?.setAttribute("aria-label", label);
  nameSearch();
  letScroll();
  addEventListener("resize", letScroll);
});

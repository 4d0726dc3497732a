// The legend: each group by a few of its words. Pointing at one lights it up, a click keeps it lit, and lists its texts.
const legend = document.getElementById("legend");

function drawLegend() {
  const groups = document.getElementById("groups"), by = TEXTS?.colourings[document.getElementById("colour")?.value ?? 0].name ?? "groups";
  groups.hidden = NAMES.length < 2 && !document.getElementById("colour");
  groups.querySelector("summary").textContent = by === "groups" ? `${NAMES.length} groups` : `${NAMES.length} colours by ${by}`;
  if (NAMES.length < 2) return legend.replaceChildren();
  const sizes = new Map();
  for (const group of GROUPS) sizes.set(group, (sizes.get(group) ?? 0) + 1);
  legend.replaceChildren(...NAMES.map(([group, words]) => legendEntry(group, words, sizes.get(group) ?? 0)));
}

function legendEntry(group, words, size) {
  const button = element("button");
  button.type = "button";
  button.dataset.group = group;
  button.style.color = `var(--c${group})`;
  button.setAttribute("aria-pressed", "false");
  button.title = `${size.toLocaleString("en")} ${THINGS}`;
  const name = element("span");
  words.forEach((word, place) => name.append(place ? ", " : "", element("bdi", word)));
  button.append(element("i"), name, element("span", size.toLocaleString("en"), "count"));
  button.addEventListener("pointerenter", (event) => {
    if (event.pointerType === "mouse") light(group, state.litGroup);
  });
  button.addEventListener("pointerleave", () => light(-1, state.litGroup));
  button.addEventListener("click", () => {
    const isLit = state.litGroup !== group;
    light(-1, isLit ? group : -1);
    if (TEXTS) listGroup(isLit ? group : -1, words.join(", "));
  });
  return button;
}

function light(hovered, lit) {
  const before = groupInFocus();
  state.hoveredGroup = hovered;
  state.litGroup = lit;
  legend.classList.toggle("lit", groupInFocus() >= 0);
  for (const button of legend.children) button.setAttribute("aria-pressed", String(Number(button.dataset.group) === lit));
  if (groupInFocus() !== before) prefer(groupInFocus());
  draw();
}

// The way from an answer to its text and back: the list as it was, with the answer that was opened; from the map (kept.js there) it is the map.

const KEY = "list"; // of what is remembered for this tab: the list, and the text that was opened from it

// The list remembers which answer is opened, when a link in it leads to a text here; `results` is where the answers stand.
export function rememberOpened(results) {
  results.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]"), hit = link?.closest("li.hit");
    if (!hit || !link.pathname.includes("/text/") || event.ctrlKey || event.metaKey || event.shiftKey) return;
    history.replaceState({opened: hit.id}, "");
    write({...read(), to: link.href, list: `${location.search}#${hit.id}`});
  });
}

// The answer that the list is come back to.
export const opened = () => history.state?.opened ?? location.hash.slice(1);

// The page of a text: back to the list, which is the page before, or where the way was longer, the list by its address. Escape does it, too, or from a similar text leads to the text before. `again`: links that lead there, too.
export function goBack(link, again) {
  const {to, list} = read();
  if (to === location.href) {  // this page of the history was opened from the list; one of the same address may not be
    history.replaceState({isFromList: true}, "");
    write({...read(), to: "", list});
  }
  const own = new URL(link.href), other = new URL(list ?? "", own.href.split("?")[0]);
  const asked = (address) => (address.searchParams.get("q") ?? "").trim();
  if (list && !own.pathname.includes("/map/") && asked(own) === asked(other)) link.href = other.href;
  for (const one of [link, ...again]) {
    one.href = link.href;
    one.addEventListener("click", (event) => {
      if (!history.state?.isFromList || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      history.back();
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !event.isComposing) (document.querySelector("article.reading a.back-text") ?? link).click();
  });
}

// The address of the list, for the page of the map, whose own address has the question alone.
export const rememberList = () => write({...read(), search: location.search});

// A browser may refuse to keep anything; then the link stays as it is.
function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

function write(value) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(value));
  } catch {
    // nothing is kept
  }
}

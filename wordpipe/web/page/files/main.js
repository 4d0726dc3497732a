// The page as one uses it: asks while one types, drops answers that came too late, keeps what is asked in the URL.
import {goBack, opened, rememberList, rememberOpened} from "./back.js";
import {copy, cutWords, get, onPage, make, problem, text, distinctNames} from "./dom.js";
import {drawChips, drawFilters, VALUES} from "./filters.js";
import {walkMarks, walkTexts} from "./marks.js";
import {signPaper} from "./paper.js";
import {play} from "./play.js";
import {drawHit, folded, lessRelatedFrom, walkByKeys} from "./results.js";
import {ahead, exported, facets, fileName, firstOf, isRange, isWord, K, likeOf, read, replaced, request, textUrl, url, wordAt} from "./state.js";
import {DOTS} from "./why.js";

const WAIT = 120; // milliseconds after the last key
const BEGINNING = 160; // characters of the text that others are similar to
const EXPLAINED = 100; // answers that the server explains at once
const SETTLED = 2000; // milliseconds without a key after which a question is one to come back to
const FINISHED = 1000; // after which its last word is whole, if any text has it
const LATER = 400; // after which a slow answer is said to be on its way
const MODES = {dense: "by meaning", lexical: "by words", hybrid: "by words and meaning"};

const isAsked = (state) => Boolean(state.similar || state.q.trim());
const isNarrowed = (state) => Boolean(state.f.length || state.where.trim());
const AS_IN_FILES = "row"; // the order by itself where nothing is asked
const view = document.querySelector(".search");
if (view) search(view);
const [back, ...again] = document.querySelectorAll("article.reading a.back");
if (back) goBack(back, again);
const own = document.querySelectorAll("article.reading .own :is([rel=bookmark], .plain)");
own.forEach(copied);
const marked = document.querySelector("article.reading .marks");
if (marked) walkMarks(marked);
if (own.length) walkTexts();
play();
const api = document.querySelector(".api");
if (api) import("./api.js").then(({tryOut}) => tryOut(api));
signPaper();
for (const link of document.querySelectorAll("a.skip")) link.addEventListener("click", skip);

function search(view) {
  const form = view.querySelector("#form"), field = form.elements.namedItem("q");
  const results = view.querySelector("#results"), filters = view.querySelector("#filters");
  const served = view.dataset.index, most = Number(view.dataset.most);
  const only = view.dataset.several === "true" ? null : served; // of several the address always says which
  const welcome = view.querySelector("#welcome").content;
  const status = make("div", {class: "status"}), spoken = make("p", {class: "unseen", role: "status"}), list = make("div", {}), chips = make("div", {class: "chips"});
  const order = form.elements.namedItem("sort"), note = form.querySelector(".order-note"), head = make("div", {class: "head"}, status, make("div", {}, order.closest("label"), " ", note));
  let state = {...read(location.search), index: served};
  let giveUp = new AbortController(), number = 0, liked = {}, titled = ""; // liked: the text that is called so in the state
  let timer = 0, isNew = false, settled = true, settling = 0, finishing = 0, drawAgain = null, goOn = 0, cameBack = opened();
  const slider = view.dataset.mixes === "true" ? addSlider(form, (mix) => change({mix})) : null;
  const fold = foldOptions(form);
  form.elements.namedItem("f")?.remove();
  form.after(spoken);

  // Take a change, and ask again: at once, or when no key has come for a moment. It is a new entry of the history, or replaces one.
  function change(some, {later = false, replace = false} = {}) {
    state = {...state, k: K, ...("q" in some ? {begun: false} : {}), ...some};
    isNew ||= !replace;
    cameBack = ""; // who asks something else stays where they are
    results.setAttribute("aria-busy", "true"); // what stands there answers something else
    clearTimeout(timer);
    timer = setTimeout(() => {
      const to = url(state, only), steps = state.similar ? (history.state?.steps ?? 0) + (isNew ? 1 : 0) : 0; // of the history back to the question
      if (new URL(to, location.href).search !== location.search) history[isNew ? "pushState" : "replaceState"](steps ? {steps} : null, "", to);
      isNew = false;
      ask();
    }, later ? WAIT : 0);
  }

  // A question is one entry of the history however many keys it took: the first key after it was settled begins another.
  // It is by relevance, and without it there is no order; but filters keep theirs.
  function type() {
    const isOther = !isNarrowed(state) && (field.value.trim() ? settled || !state.q.trim() : state.q.trim());
    change({q: field.value, begun: /[\p{L}\p{N}\p{M}]$/u.test(field.value), similar: "", weighed: weights(), ...(isOther ? {sort: ""} : {})}, {later: true, replace: !settled});
    settled = false;
    clearTimeout(settling);
    settling = setTimeout(settle, SETTLED);
    clearTimeout(finishing);
    finishing = setTimeout(finish, FINISHED);
  }

  // The last word of a question may be a beginning while one types; after a pause it is a word as the others, if any text has it.
  async function finish() {
    if (!state.begun || state.similar || !state.q.trim()) return;
    const asked = {...state, begun: false}, last = wordAt(asked.q, asked.q.length);
    const found = await get(...request(asked), giveUp.signal).catch(() => null);
    const odd = found ? [...Object.keys(found.unknown ?? {}), ...Object.keys(found.corrected ?? {}), ...(found.remarks ?? []).flatMap((one) => one.split(/[\s,]+/))] : [last];
    if (state.begun && state.q === asked.q && !odd.some((one) => isWord(one, last))) change({begun: false, k: state.k}, {replace: true});
  }

  function settle() {
    const redraw = drawAgain;
    clearTimeout(settling);
    settled = true;
    drawAgain = null;
    redraw?.();
  }

  // What weighs the rows stays with another question; how the last one was read does not.
  function weights() {
    const {exact, ...others} = state.weighed;
    return others;
  }

  // The word that is still being typed, of which nothing is said yet.
  function unfinished() {
    return settled || document.activeElement !== field ? "" : wordAt(field.value, field.selectionEnd ?? field.value.length);
  }

  async function ask() {
    giveUp.abort();
    giveUp = new AbortController();
    const mine = ++number, {signal} = giveUp, asked = state;
    drawAgain = null;
    show();
    const counted = count(asked, signal, () => mine === number);
    const slow = setTimeout(() => mine === number && (status.textContent = spoken.textContent = "Searching…"), LATER);
    try {
      if (!isAsked(asked) && !isNarrowed(asked) && !asked.sort) {  // filters, or an order, alone list rows
        const error = await counted;
        if (error instanceof Error) throw error;
        return mine === number && keepFocus(rest);
      }
      const [path, params] = request(asked);
      const like = asked.similar && titled !== asked.similar ? get("./text", {index: asked.index, row: params.row, id: params.id, length: BEGINNING + 1}, signal).catch(() => null) : null;
      const found = await get(path, params, signal);
      if (like) [titled, liked] = [asked.similar, (await like) ?? {}];
      if (mine !== number) return;
      name();
      keepFocus(() => draw(found, asked, path, params));
      const facts = found.matches === undefined ? (asked.docs ? null : await counted) : {rows: found.matches, among: "rows"};
      if (mine !== number) return;
      const said = status.querySelector(".n-answers");
      if (said && facts && !(facts instanceof Error)) {
        said.textContent = numberOf(found, facts, asked);
        status.querySelector(".export ul")?.replaceChildren(...exportsOf(found, facts, asked, path, params));
      }
      spoken.textContent = (said ?? status).textContent; // once, when all of it is known
    } catch (error) {
      if (error.name === "AbortError" || mine !== number) return;
      status.textContent = spoken.textContent = "";
      keepFocus(() => (list.replaceChildren(problem(error, ask), ...widen(asked)), results.replaceChildren(chips, head, list)));
    } finally {
      clearTimeout(slow);
      if (mine === number) results.removeAttribute("aria-busy");
    }
  }

  // Answers take the place of others: what had the focus among these gives it to the first of the new ones, or to the field.
  function keepFocus(redraw) {
    const had = results.contains(document.activeElement);
    redraw();
    if (had && !results.contains(document.activeElement)) (results.querySelector("li.hit") ?? field).focus();
  }

  // The filters, with how many of the answers have each value; gives the counts, or what went wrong, which the answer says, too.
  async function count(asked, signal, isWanted) {
    try {
      const found = await get("./facets", facets(asked, VALUES), signal);
      if (isWanted()) drawFilters(filters, found, asked, {choose, range, find});
      return found;
    } catch (error) {
      // a condition that does not fit: the filters stay, so that one can choose others
      const all = error.status === 400 ? await get("./facets", facets({...asked, f: [], where: ""}, VALUES), signal).catch(() => null) : null;
      if (all && isWanted()) drawFilters(filters, all, asked, {choose, range, find});
      return error;
    }
  }

  function choose(name, value) {
    if (name === null) return change({f: [], where: ""});
    const others = state.f.filter(([one, other]) => one !== name || other !== value);
    change({f: others.length < state.f.length ? others : [...state.f, [name, value]]});
  }

  // From one end to the other, of which a blank one is open; a column has one range. Gives whether it is another one than before.
  function range(name, low, high, replace = false) {
    const others = state.f.filter(([one, value]) => one !== name || !isRange(value)), f = low === null && high === null ? others : [...others, [name, [low, high]]];
    const isOther = JSON.stringify([...f].sort()) !== JSON.stringify([...state.f].sort());
    if (isOther) change({f}, {replace});
    return isOther;
  }

  // The values of a column that contain a text, so many at most.
  const find = (name, text, most) => get("./facets", {...facets(state, most), column: name, find: text}, giveUp.signal).then((found) => found.columns[0]);

  // What the form says of the state; the field is left alone while one types.
  function show() {
    if (document.activeElement !== field || state.similar) field.value = state.q;
    form.elements.namedItem("where").value = state.where;
    form.elements.namedItem("docs").checked = state.docs;
    form.elements.namedItem("texts").checked = state.whole;
    const index = form.elements.namedItem("index");
    if (index) index.value = state.index;
    const mix = slider?.(state.mix);
    fold([index?.selectedOptions?.[0].textContent, mix, state.docs && "one answer per document", state.whole && "whole texts"]);
    if (!isAsked(state)) order.querySelector(`[value="${AS_IN_FILES}"]`)?.remove(); // it is the first one
    order.value = state.sort === AS_IN_FILES && !isAsked(state) ? "" : state.sort;
    order.options[0].textContent = state.q.trim() ? "relevance" : "as in the files";
    note.hidden = !firstOf(state);
    note.textContent = firstOf(state) + state.sort.replace(/:(asc|desc)$/, "");
    order.closest("label").hidden = Boolean(state.similar) || order.options.length < 2;
    const hadChip = chips.contains(document.activeElement);
    chips.replaceChildren(...drawChips(state, {choose, condition: (where) => change({where})}));
    if (hadChip) (chips.querySelector("button") ?? field).focus();
    // the other tabs keep the question, so that one comes back to it
    for (const link of document.querySelectorAll("header nav a, footer a")) {
      const [path, query] = link.getAttribute("href").split(/[?#]/), own = new URLSearchParams(query), isApi = Boolean(link.closest("footer"));
      const given = new URLSearchParams(url({...state, ...(isApi ? {} : {similar: ""})}, only).split("?")[1]);
      if (path.includes("map/")) for (const name of [...given.keys()]) if (!["q", "f", "where"].includes(name)) given.delete(name);
      for (const name of ["tab", "index"]) if (own.has(name)) given.set(name, own.get(name));
      link.setAttribute("href", `${path}${given.size ? `?${given}` : ""}${isApi && state.similar ? "#/similar" : ""}`);
    }
    rememberList();
    name();
  }

  // The title of the tab; what is similar to a text says to which, and the field has a question that found none of it.
  function name() {
    const said = state.similar ? `similar to ${likedName()}` : state.q;
    document.title = said ? `${said.slice(0, 60)} · wordpipe` : "wordpipe";
    view.classList.toggle("likes", Boolean(state.similar));
  }

  const nameOf = (hit) => hit?.title || (hit?.text ?? "").slice(0, 60);
  const likedName = () => (titled === state.similar && nameOf(liked)) || (/^[0-9]+$/.test(state.similar) ? `row ${state.similar}` : state.similar.replace(/^id /, ""));

  function rest() {
    results.replaceChildren(welcome.cloneNode(true));
  }

  function draw(found, asked, path, params) {
    const word = unfinished(), told = make("div", {}, notes(found, word));
    drawAgain = word ? () => told.replaceChildren(...notes(found, "")) : null;
    if (!found.hits.length && list.parentNode && Object.keys(found.unknown ?? {}).some((one) => isWord(one, word))) {
      drawAgain = () => draw(found, asked, path, params);
      status.textContent = "no answers so far"; // a longer word may have some
      return list.replaceChildren();
    }
    const isRanked = isAsked(asked) && (!asked.sort || asked.similar), groups = folded(found.hits, found.passages, isRanked), largest = isRanked ? Math.max(1e-12, ...found.hits.map((one) => one.score)) : 0, border = lessRelatedFrom(groups);
    const act = {
      asked: {like: Boolean(asked.similar), isNarrowed: isNarrowed(asked), words: [asked.q, ...Object.values(found.corrected ?? {})].join(" ")},
      read: (hit) => textUrl(hit, asked),
      address: (hit) => textUrl(hit, {...read(""), index: asked.index}),
      show: JSON.parse(view.dataset.show),
      ahead: ahead(asked),
      names: distinctNames([...new Set(found.hits.map((hit) => String(hit.source ?? "")))]),
      why: async (hit) => {
        if (asked.similar || !asked.q.trim()) return hit;
        const again = await get(path, {...params, k: Math.min(params.k, EXPLAINED), explain: 1}, giveUp.signal).catch(() => ({hits: []}));
        return again.hits.find((one) => one.row === hit.row) ?? hit;
      },
      similar: (hit) => {
        history.replaceState({...history.state, opened: `answer-${hit.rank}`}, ""); // to which Back returns
        if (hit.index && hit.index !== state.index) return location.assign(url({...state, similar: likeOf(hit), index: hit.index, f: [], k: K}, null));
        [titled, liked] = [likeOf(hit), hit];
        change({similar: likeOf(hit)}); // the question stays, for the way back
        scrollTo(0, 0);
      },
    };
    status.replaceChildren(
      asked.similar ? make("div", {class: "like"}, make("h2", {}, "Similar to ", text(likedName(), 80)), liked.title && liked.text ? make("p", {class: "hint"}, text(cutWords(liked.text, BEGINNING))) : null, make("button", {type: "button", onclick: backToQuestion}, `← back to the ${asked.q.trim() ? "question" : "search"}`)) : "",
      make("span", {class: "n-answers", title: `in ${Math.max(1, Math.round(found.seconds * 1000))} ms`}, numberOf(found, null, asked)),
      ...(found.hits.length ? [make("span", {class: "take"}, " · ", make("details", {class: "export"}, make("summary", {}, "export"), make("ul", {}, exportsOf(found, null, asked, path, params))), " · ", link())] : []),
    );
    const opened = goOn ? [...list.querySelectorAll("li.hit:has(> .foot > .about[open])")].map((one) => one.id) : [];
    list.replaceChildren(
      told,
      ...(groups.length
        ? [make("ol", {class: "hits"}, groups.map((one, place) => drawHit(one, act, largest, border < 0 || place < border ? "" : place === border ? "first" : "below")))]
        : [nothing(found, asked)]),
      ...(found.hits.length >= asked.k && asked.k < most ? [make("button", {type: "button", class: "more", onclick: () => ((goOn = list.querySelectorAll(":scope > ol > li.hit").length), change({k: Math.min(most, asked.k + K)}, {replace: true}))}, "more answers")] : []),
      ...(groups.length ? [make("p", {class: `hint dots${largest ? "" : " by-keys"}`}, largest ? `${DOTS} ` : "", welcome.querySelector(".by-keys")?.cloneNode(true))] : []),
    );
    if (head.parentNode !== results) results.replaceChildren(chips, head, list);
    // the button that had the focus is gone: the focus goes to the first of the further answers, or to the last one
    const all = [...list.querySelectorAll(":scope > ol > li.hit")];
    for (const id of opened) for (const about of list.querySelectorAll(`#${id} > .foot > .about`)) about.open = true;
    if (goOn) (all[goOn] ?? all.at(-1))?.focus();
    goOn = 0;
    comeBack();
  }

  // From similar texts to the answer to which they are similar, or, where one did not come from there, to the question.
  function backToQuestion() {
    const steps = history.state?.steps ?? 0;
    if (steps) return history.go(-steps);
    change({similar: ""});
    field.focus();
  }

  // To the answer whose text was read.
  function comeBack() {
    const hit = cameBack ? document.getElementById(cameBack) : null;
    cameBack = "";
    if (!hit?.matches("li.hit")) return;
    const others = hit.closest("details:not([open])");
    if (others) others.open = true;
    hit.focus();
  }

  // How many answers there are, as the filters count them; 0 where that is not known.
  const counted = (facts, asked) => (asked.similar || (asked.q.trim() && facts?.among !== "matches") ? 0 : facts?.rows ?? 0);
  // The same of the answers that are listed one after the other: with vectors every row has a score.
  const listed = (found, facts, asked) => (found.mode === "lexical" || !isAsked(asked) ? counted(facts, asked) : 0);

  // How many answers are shown, and how many there are.
  function numberOf(found, facts, asked) {
    const n = found.hits.length, all = counted(facts, asked);
    if (!n) return "no answers";
    const list = listed(found, facts, asked);
    const how = found.mode && isAsked(asked) && !asked.similar ? ` ${MODES[found.mode] ?? ""}` : "";
    if (list > n) return `${n} of ${list.toLocaleString("en")} answers${how}`;
    const fit = asked.similar && (asked.f.length || asked.where.trim()) ? ", only texts that fit the filters" : "";
    const none = asked.q.trim() && facts?.among === "matches" && !facts.rows ? "; no text that fits the filters has words of the question" : "";
    const said = n === 1 ? "1 answer" : n < asked.k || list === n ? `${n} answers` : `First ${n} answers`;
    return all && !list && all !== n ? `${said}${how}; ${all.toLocaleString("en")} ${all === 1 ? "text has" : "texts have"} words of the question` : `${said}${how}${none}${fit}`;
  }

  // A button that copies the address of this view, which has the question, the filters and the order.
  function link() {
    const button = make("button", {type: "button", title: "copy link to these answers", onclick: () => copy(button, location.href)}, "copy link", make("span", {class: "unseen"}, " to these answers"));
    return button;
  }

  // Files of what is shown, if the others have more, and of all that is listed, or of the texts that have words of the question, and of the nearest ones: what is in each, and its two forms.
  function exportsOf(found, facts, asked, path, shown) {
    const n = found.hits.length, params = {...shown, k: most};
    const all = counted(facts, asked), isList = listed(found, facts, asked) > 0, cut = all > most ? `the first ${most.toLocaleString("en")} of ${all.toLocaleString("en")}` : `all ${all.toLocaleString("en")}`;
    const total = facts?.total ?? Infinity, isNarrow = asked.f.length || asked.where.trim();
    const whole = total <= most && !isNarrow ? `all ${total.toLocaleString("en")} texts, in the order of the page` : "";
    const onward = `${asked.similar ? "the most similar texts" : "this list and further answers"} in the order of the page, ${most.toLocaleString("en")} at most`;
    const nearest = [whole || onward, whole ? `all ${total}` : `up to ${most}`, params];
    const kinds = isList ? [[`${cut} answers`, cut, params]] : [nearest];
    const these = n === (isList ? Math.min(all, most) : whole ? total : most) ? [] : [[n > 1 ? `these ${n.toLocaleString("en")} answers, as on the page` : "this answer", `${n} shown`, shown]];
    if (all && !isList) kinds.unshift([`${cut} texts with words of the question, ordered by words alone`, `${cut} by words`, {...params, mode: "lexical", weight: ""}]);
    return [...these, ...kinds].map(([said, kind, given]) => make("li", {}, `${said}: `, ["csv", "json"].map((form) => [" ", make("a", {href: exported(path, given, form), download: fileName(asked, likedName(), kind, form)}, form.toUpperCase())])));
  }

  // What was searched for instead of misspelt words, signs that were no operators, and words that no text contains.
  function notes(found, word) {
    const words = Object.entries(found.corrected ?? {}).filter(([one]) => !isWord(one, word));
    const corrected = words.map(([one, meant], at) =>
      make("p", {class: "unknown"}, "searched for ", make("b", {}, text(meant, 80)), " instead of ", text(one, 80), ", which no text contains. ",
        at < words.length - 1 ? null : make("button", {type: "button", onclick: () => (change({weighed: {...state.weighed, exact: "1"}}), field.focus())}, "search as typed")));
    const remarks = (found.remarks ?? []).map((one) => make("p", {class: "unknown"}, exact(one), "."));
    return [...corrected, ...remarks, ...unknown(found, word)];
  }

  // A remark, with a button in the place of the parameter that takes the question as it is typed.
  function exact(remark) {
    const other = remark.match(/^((\S+(?: \S+)?) is (?:also written as one word|in only \d texts?): .* have )(\S+)$/); // as in search_view.py
    if (other) return [text(other[1], 200), make("button", {type: "button", onclick: () => askFor(withOther(state.q, other))}, text(other[3], 80))];
    const [before, ...after] = onPage(remark).split("exact=1");
    if (!after.length) return text(before, 200);
    return [text(before, 200), make("button", {type: "button", onclick: () => (change({weighed: {...state.weighed, exact: "1"}}), field.focus())}, "a plain search"), text(after.join("exact=1"), 200)];
  }

  // Another question, in the field, too, which has the focus.
  function askFor(q) {
    field.value = q;
    change({q});
    field.focus();
  }

  // A question with the other word of a remark, without quotes around the first; that word alone if the first is not there.
  function withOther(question, [, , words, word]) {
    const found = replaced(question.replaceAll(`"${words}"`, words), words, word);
    return found === question ? word : found;
  }

  function unknown(found, word) {
    const inNone = ([one]) => !isWord(one, word) && !found.by_words?.includes(one);
    return Object.entries(found.unknown ?? {}).filter(inNone).map(([one, near]) =>
      make("p", {class: "unknown"}, text(one, 80), found.mode === "dense" ? " is unknown to the vectors." : " is in no text.",
        near.length ? [" Did you mean ", near.map((other, at) => [at ? ", " : "", make("button", {type: "button", onclick: () => askFor(replaced(state.q, one, other))}, text(other, 80))]), "?"] : null));
  }

  // A way out where filters leave nothing, or do not fit.
  function widen(asked) {
    return asked.f.length || asked.where ? [make("p", {}, make("button", {type: "button", onclick: () => change({f: [], where: ""})}, "search without filters"))] : [];
  }

  function nothing(found, asked) {
    const ways = widen(asked);
    return make("div", {class: "empty"}, make("p", {class: "lead"}, text(found.nothing?.message ?? "nothing was found")), ways,
      asked.mix !== "auto" ? make("p", {}, make("button", {type: "button", onclick: () => change({mix: "auto"})}, "use the automatic mix of words and meaning")) : null,
      (!ways.length || asked.where.trim()) && found.nothing?.hint ? make("p", {class: "hint"}, exact(found.nothing.hint)) : null);
  }

  // a question to begin with is asked here
  results.addEventListener("click", (event) => {
    const link = event.target.closest("a.ask");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    field.focus();
    field.value = link.textContent;
    change({q: field.value, similar: "", sort: ""});
  });
  field.addEventListener("input", type);
  field.addEventListener("blur", settle);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    change({q: field.value, similar: "", ...(field.value === state.q ? {} : {weighed: weights()})}, {replace: !settled || field.value === state.q});
    settle();
    if (document.activeElement === event.submitter && !field.value.trim()) field.focus();
  });
  form.elements.namedItem("docs").addEventListener("change", (event) => change({docs: event.target.checked}));
  form.elements.namedItem("texts").addEventListener("change", (event) => change({whole: event.target.checked, k: state.k}));
  order.addEventListener("change", () => change({sort: order.value || (isAsked(state) || isNarrowed(state) ? "" : AS_IN_FILES)}));
  form.elements.namedItem("where").addEventListener("change", (event) => change({where: event.target.value}));
  const index = form.elements.namedItem("index");
  if (index?.tagName === "SELECT") index.addEventListener("change", () => location.assign(url({...state, index: index.value, f: []}, null)));
  addEventListener("popstate", () => ((state = {...read(location.search), index: served}), results.setAttribute("aria-busy", "true"), (field.value = state.q), (settled = true), (cameBack = opened()), ask()));
  rememberOpened(results);
  walkByKeys(field, results);
  const wasTyped = document.activeElement === field && field.value !== field.defaultValue; // before this script ran
  if (!state.q && !state.similar) field.focus();
  if (wasTyped) type();
  else ask();
}

// The slider from words to vectors, in place of the list to choose from.
function addSlider(form, choose) {
  const list = form.elements.namedItem("mix").closest("label");
  const range = make("input", {type: "range", min: 0, max: 10, step: 1, id: "mix", "aria-label": "balance between exact words and meaning"});
  const auto = make("button", {type: "button", "aria-pressed": "true", onclick: () => choose("auto")}, "auto");
  const said = () => (range.value === "0" ? "exact words only" : range.value === "10" ? "meaning only" : `meaning ${range.value}0 %`);
  range.addEventListener("change", () => choose(range.value));
  range.addEventListener("input", () => range.setAttribute("aria-valuetext", said()));
  list.replaceWith(make("div", {class: "mix"}, make("span", {}, "exact words"), range, make("span", {}, "meaning"), auto));
  return (mix) => {
    auto.setAttribute("aria-pressed", String(mix === "auto"));
    range.value = mix === "auto" ? 5 : mix;
    range.classList.toggle("idle", mix === "auto");
    range.setAttribute("aria-valuetext", mix === "auto" ? "automatic" : said());
    return mix === "auto" ? "" : said();
  };
}

// On a narrow screen the options are folded, and say what is set.
function foldOptions(form) {
  const options = form.querySelector(".fold"), wide = matchMedia("(min-width: 800px)"), fold = () => (options.open = wide.matches);
  wide.addEventListener("change", fold);
  fold();
  return (set) => (options.querySelector("summary").textContent = ["Options", ...set].filter(Boolean).join(" · "));
}

// To the first answer, to the filters, which are opened, or to where all begins; the address stays as it is.
function skip(event) {
  const place = document.querySelector(new URL(event.target.href).hash), folded = place?.querySelector("summary");
  if (!place) return;
  event.preventDefault();
  if (place.id === "filters" && folded) folded.parentNode.open = true;
  const first = place.querySelector("li.hit") ?? (place.id === "filters" ? folded : null) ?? place;
  if (first === place) place.tabIndex = -1;
  first.focus();
  first.scrollIntoView({block: "start"});
}

// The link to a text is copied, so that one stays where one reads.
function copied(link) {
  link.textContent = `copy ${link.textContent}`;
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    copy(link, link.href);
  });
}

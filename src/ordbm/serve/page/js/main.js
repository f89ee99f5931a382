// Starts the page: asks for the model, then shows the view that the address names.

import { Trouble, get, readBack, whenAnswered } from "./api.js";
import { h } from "./dom.js";
import { keyForm } from "./key_form.js";
import { settled } from "./notice.js";
import { Person } from "./person.js";
import { Scale } from "./scale.js";
import { itemView } from "./item_view.js";
import { listView } from "./list_view.js";
import { mapView } from "./map_view.js";
import { operatorView } from "./operator_view.js";
import { togetherView } from "./together_view.js";

const VIEWS = { list: listView, item: itemView, map: mapView, together: togetherView,
  operator: operatorView };
const NAMES = { list: "For you", item: "Title", map: "Map", together: "Together",
  operator: "Operator" };
const main = document.getElementById("main");
const page = { you: new Person("you"), companion: new Person("companion"), surprise: 0,
  lines: [], model: null, scale: null };
let leave = () => {};
let isFirst = true;

function route() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  if (name === "item" && rest.length) {
    try {
      return { name, item: readBack(decodeURIComponent(rest.join("/"))) };
    } catch { /* no id: the list, then */ }
  }
  return { name: name in VIEWS && name !== "item" ? name : "list" };
}

async function show() {
  leave();
  const ended = new AbortController();
  leave = () => ended.abort();
  const told = route();
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.dataset.view === told.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = told.name === "list" ? "ordbm" : `${NAMES[told.name]} – ordbm`;
  try {
    if (!page.model) await learnModel();
    if (ended.signal.aborted) return;
    const place = h("div", { class: `view view-${told.name}` });
    main.replaceChildren(place);
    if (!isFirst) {
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
    }
    isFirst = false;
    await VIEWS[told.name]({ ...told, page, place, signal: ended.signal, again: show });
  } catch (error) {
    if (!ended.signal.aborted) trouble(error);
  }
}

/** Another model answers: what was kept of the one before is asked for anew. */
function answeredBy(version) {
  settled();
  if (!page.model || page.model.version === version) return;
  page.model = null;
  page.map = null;
  page.trail = null;
  show();
}

async function learnModel() {
  page.model = await get("/v1/model");
  page.scale = new Scale(page.model.scale);
}

function trouble(error) {
  const needsKey = error.status === 401 || error.status === 403;
  main.replaceChildren(h("section", { class: "trouble" },
    h("h1", {}, needsKey ? "This needs a key" : "That did not work"),
    h("p", {}, error instanceof Trouble ? error.message : "An error of this page."),
    needsKey ? keyForm(show) : h("button", { type: "button", class: "plain", onclick: show },
      "Try again")));
  if (!(error instanceof Trouble)) throw error;
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says which view it is
  main.focus();
});
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches?.("input[type=search], input[type=text], textarea");
  if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || isTyping) return;
  event.preventDefault();
  if (event.shiftKey) page.you.redo();
  else page.you.undo();
});
whenAnswered(answeredBy);
addEventListener("hashchange", show);
show();

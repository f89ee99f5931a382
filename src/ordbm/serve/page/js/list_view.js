// The list: what somebody is likely to like, sorted anew after each rating.

import { ask, keyOf } from "./api.js";
import { h, keepingFocus, speak } from "./dom.js";
import { because, changes, glide } from "./movement.js";
import { complain } from "./notice.js";
import { ratingControl } from "./rating_control.js";
import { titleRow } from "./rows.js";
import { searchBox } from "./search.js";
import { surpriseSlider, wish } from "./surprise.js";
import { yours } from "./yours.js";

const SHOWN = 20;

export async function listView({ page, place, signal }) {
  const { you, scale } = page;
  const title = h("h1", {});
  const intro = h("p", { class: "lead" });
  const rows = h("ol", { class: "rows" });
  const news = h("p", { class: "news" });
  const undo = h("button", { type: "button", class: "plain", onclick: () => you.undo() }, "Undo");
  const redo = h("button", { type: "button", class: "plain", onclick: () => you.redo() }, "Redo");
  const bar = h("div", { class: "bar" }, news, h("span", { class: "steps" }, undo, redo));
  const banner = h("section", { class: "supposing", "aria-label": "What if", hidden: true });
  let turn = 0;
  let real = null; // the list by what was really said, and the question it answers

  place.append(
    h("header", { class: "intro" }, title, intro, searchBox({ page, signal })),
    h("div", { class: "columns" },
      h("section", { class: "main-column", "aria-label": "Recommended titles" },
        h("div", { class: "tools" }, surpriseSlider({ page, chosen: () => refresh({}) })),
        banner, bar, rows),
      h("aside", { class: "side" }, yours({ page, signal }), legend())));

  function drawHead() {
    const count = you.ratings.size;
    title.textContent = count ? "For you" : "Rate a few titles you know";
    intro.textContent = count
      ? "What you are likely to like, and what the machine believes you would say."
      : "Below is what most people come across and like. Every rating changes what the machine "
        + "believes of you, at once.";
    undo.disabled = you.done.length === 0;
    redo.disabled = you.undone.length === 0;
    bar.hidden = undo.disabled && redo.disabled && !you.supposed;
    drawBanner();
  }

  function drawBanner() {
    const one = you.supposed;
    const opens = banner.hidden && Boolean(one);
    banner.hidden = !one;
    keepingFocus(banner, () => banner.replaceChildren(...(one ? [
      h("h2", {}, `What if ${one.title} were…`),
      h("div", { "data-hold": "supposed" }, ratingControl({ scale, title: one.title,
        rating: one.rating, supposed: true,
        rate: (level) => you.suppose(level === null ? null : { ...one, rating: level }) })),
      h("p", { class: "quiet" }, "Nothing is stored: the list shows what would be."),
      h("div", { class: "steps" },
        h("button", { type: "button", class: "strong",
          onclick: () => you.rate(one.item, one.title, one.rating) }, "Keep it"),
        h("button", { type: "button", class: "plain", onclick: () => you.suppose(null) },
          "Leave it")),
    ] : [])));
    if (opens) banner.querySelector("input:checked, input")?.focus();
  }

  async function refresh(detail) {
    turn += 1;
    const mine = turn;
    drawHead();
    const question = you.question();
    const { items } = await ask("/v1/recommend",
      { ...question, n: SHOWN, distributions: true, ...wish(page.surprise, page.model.popularity_deciles) });
    const compared = real && (detail.step || detail.supposed) ? real : null;
    const before = compared ? await expectedBefore(compared, items) : null;
    if (mine !== turn || signal.aborted) return;
    const change = compared ? changes(scale, items, compared.lines, before) : null;
    draw(items, change, change ? because(scale, detail) : "", detail);
    if (!you.supposed) real = { lines: items, question };
  }

  /** What was expected of these items before the step. */
  async function expectedBefore({ lines, question }, items) {
    const found = new Map(lines.map((line) => [keyOf(line.item), line]));
    const unseen = items.map((line) => line.item).filter((item) => !found.has(keyOf(item)));
    if (unseen.length) {
      const { predictions } = await ask("/v1/predict", { ...question, items: unseen });
      for (const one of predictions) found.set(keyOf(one.item), one);
    }
    return found;
  }

  function draw(items, change, reason, detail) {
    const tops = new Map([...rows.children].map((row) =>
      [row.dataset.key, row.getBoundingClientRect().top]));
    keepingFocus(rows, () => rows.replaceChildren(...items.map((line, at) => {
      const row = titleRow({ scale, person: you, line, rank: at + 1, hold: at,
        change: change?.[at], reason });
      row.dataset.key = keyOf(line.item);
      return row;
    })));
    if (change) glide(new Map([...rows.children].map((row) => [row.dataset.key, row])), tops);
    tell(change, reason, detail);
  }

  function tell(change, reason, detail) {
    if (!change) {
      news.textContent = "";
      return;
    }
    const moved = change.filter((one) => one.climbed !== 0).length;
    const came = change.filter((one) => one.isNew).length;
    const start = reason[0].toUpperCase() + reason.slice(1);
    news.textContent = `${start}: ${moved} moved, ${came} came in.`;
    speak(detail.supposed ? news.textContent : `${news.textContent} Control Z undoes it.`);
  }

  you.addEventListener("change", ({ detail }) => {
    if (detail.forgotten) real = null;
    refresh(detail).catch(complain);
  }, { signal });
  await refresh({});
}

function legend() {
  return h("section", { class: "legend", "aria-label": "How to read it" },
    h("p", {}, h("span", { class: "swatch yours-swatch", "aria-hidden": "true" }, "★"),
      "is what you said."),
    h("p", {}, h("span", { class: "swatch belief-swatch", "aria-hidden": "true" }),
      "is what the machine believes: the taller a bar, the likelier that rating."));
}

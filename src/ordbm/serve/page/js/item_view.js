// One title: what the machine believes of you, where that comes from, how people rated it, and
// what is near it.

import { ask, get, keyOf, segment } from "./api.js";
import { called } from "./belief.js";
import { picture, words } from "./distribution.js";
import { h, keepingFocus, speak, svg } from "./dom.js";
import { percent, short } from "./movement.js";
import { complain } from "./notice.js";
import { ratingControl } from "./rating_control.js";
import { titleLink } from "./rows.js";
import { raters } from "./search.js";
import { storyOf, storyTable } from "./story.js";

const NEAR = 8;

export async function itemView({ page, place, signal, item }) {
  const { you, scale } = page;
  const at = segment(item);
  const about = await get(`/v1/items/${at}`);
  const title = called(about);
  const [levels, similar, links] = await Promise.all(
    [`levels`, `similar?n=${NEAR}`, `links?n=${NEAR}`].map((what) =>
      get(`/v1/items/${at}/${what}`).catch(() => null)));
  if (signal.aborted) return;
  const yourPart = h("div", { class: "own" });
  const story = h("section", { class: "card story", "aria-label": "Where that comes from" });
  const shape = h("div", { class: "big-shape" });
  place.append(
    h("header", { class: "intro" },
      h("p", {}, h("a", { href: "#/", class: "back" }, "← For you")),
      h("h1", {}, title),
      h("p", { class: "lead" }, raters(about.n_ratings), ...featuresOf(about))),
    h("div", { class: "cards" },
      h("section", { class: "card", "aria-label": "What the machine believes" },
        h("h2", {}, "What the machine believes you would say"), shape, yourPart),
      h("section", { class: "card", "aria-label": "How people rated it" },
        h("h2", {}, "How people rated it"), peopleShape(scale, levels)),
      story,
      listCard("Similar titles", "Nearest in the hidden space.",
        similar?.similar.map((one) => ({ item: one.id, title: one.title, weight: one.similarity }))),
      listCard("Rated together", "Rating one makes rating the other likelier, or less likely.",
        links?.rated_together),
      listCard("Rated alike", "Linked directly: their ratings go together, or apart.",
        links?.rated_alike)));

  async function refresh() {
    const others = you.question(true);
    const withoutIt = { ...others,
      ratings: others.ratings.filter((one) => keyOf(one.item) !== keyOf(item)) };
    const { predictions: [expected] } = await ask("/v1/predict", { ...withoutIt, items: [item] });
    const parts = await storyOf(you, item);
    if (signal.aborted) return;
    shape.replaceChildren(bigShape(scale, expected, "belief"),
      h("p", { class: "big-words" }, h("span", { class: "figure" }, scale.mean(expected.mean)),
        ` ${words(scale, expected)}`),
      chanceLine(expected));
    keepingFocus(yourPart, () => yourPart.replaceChildren(
      h("h3", {}, "Your rating"),
      h("div", { class: "own-line", "data-hold": "own" }, ratingControl({ scale, title,
        rating: you.ratingOf(item), rate: (level) => you.rate(item, title, level) })),
      h("p", { class: "quiet" }, you.ratingOf(item) === null
        ? "Once given, it moves everything else the machine believes of you."
        : "The picture is without your own rating of it."),
      h("button", { type: "button", class: "plain small", onclick: suppose }, "What if I rated it…")));
    story.replaceChildren(h("h2", {}, "Where that comes from"), storyTable(scale, parts));
  }

  function suppose() {
    const given = you.ratingOf(item);
    const guess = scale.levels ? scale.levels.at(-1) : scale.range[1];
    you.suppose({ item, title, rating: given === guess ? (scale.levels?.[0] ?? scale.range[0]) : guess });
    location.hash = "#/";
  }

  you.addEventListener("change", ({ detail }) => {
    if (detail.step) speak(`${short(title)}: ${you.ratingOf(item) === null ? "not rated" : "rated"}`);
    refresh().catch(complain);
  }, { signal });
  await refresh();
}

function featuresOf({ features }) {
  return Object.entries(features ?? {}).map(([name, value]) =>
    ` · ${name}: ${Array.isArray(value) ? value.join(", ") : value}`);
}

function chanceLine({ p_rated: chance }) {
  return chance === null ? null
    : h("p", { class: "quiet" }, `Chance that you come across it and rate it: ${percent(chance)} %.`);
}

/** Bars with the levels below them. */
function bigShape(scale, expected, kind, label) {
  const [width, height] = [360, 120];
  const names = scale.levels && scale.levels.length <= 12 ? scale.levels : null;
  const step = names ? width / names.length : 0;
  const ends = names ? [] : scale.range;
  return h("figure", {},
    picture(scale, expected, { width, height, kind, label }),
    svg("svg", { viewBox: `0 0 ${width} 18`, class: "ticks", "aria-hidden": "true" },
      ...(names ?? []).map((level, at) => svg("text", { x: (at + 0.5) * step, y: 13,
        "text-anchor": "middle" }, scale.shown(level).slice(0, Math.max(2, step / 7)))),
      ...ends.map((value, at) => svg("text", { x: at ? width : 0, y: 13,
        "text-anchor": at ? "end" : "start" }, scale.shown(Number(value.toPrecision(4)))))));
}

function peopleShape(scale, levels) {
  if (!levels) return h("p", { class: "quiet" }, "The model has learnt no rating of it.");
  const total = levels.counts.reduce((sum, one) => sum + one, 0);
  const values = levels.levels ? scale.values
    : levels.counts.map((_, at) => (levels.edges[at] + levels.edges[at + 1]) / 2);
  const mean = values.reduce((sum, value, at) => sum + value * levels.counts[at], 0) / total;
  let upTo = 0;
  const median = values[levels.counts.findIndex((one) => (upTo += one) >= total / 2)];
  const expected = { distribution: levels.counts.map((one) => one / total), mean, median };
  const most = levels.counts.indexOf(Math.max(...levels.counts));
  const label = `${total} ratings, on average ${scale.mean(mean)}, most often ${
    scale.shown(levels.levels ? levels.levels[most] : values[most])}`;
  return h("div", {}, bigShape(scale, expected, "people", label),
    h("p", { class: "big-words" }, h("span", { class: "figure people-figure" }, scale.mean(mean)),
      ` on average, ${total.toLocaleString("en")} ratings`));
}

function listCard(title, about, lines) {
  if (!lines?.length) return null;
  const most = Math.max(...lines.map((one) => Math.abs(one.weight)));
  return h("section", { class: "card", "aria-label": title },
    h("h2", {}, title), h("p", { class: "quiet" }, about),
    h("ol", { class: "near" }, lines.map((one) => h("li", {},
      titleLink(one), weightBar(one.weight / most),
      h("span", { class: "weight" }, one.weight.toFixed(2).replace("-", "−"))))));
}

function weightBar(share) {
  const width = Math.abs(share) * 56;
  return svg("svg", { viewBox: "0 0 56 6", width: 56, height: 6, "aria-hidden": "true",
    class: `weight-bar ${share < 0 ? "against" : ""}` },
  svg("rect", { x: 0, y: 0, width: Math.max(1, width), height: 6, rx: 2 }));
}

// Where an expected rating comes from: what it was before anything was said, and what each rating
// changed, in the order they were given. Every line is the difference of two predictions, so the
// lines add up to what is shown.

import { ask, keyOf } from "./api.js";
import { h, svg } from "./dom.js";
import { short, signed } from "./movement.js";

const MOST_STEPS = 24; // of ratings told one by one; the ones before them count together

/** [{title, rating, mean}], the first of nothing said. */
export async function storyOf(person, item) {
  const all = [...person.ratings.values()].filter((one) => keyOf(one.item) !== keyOf(item));
  const early = Math.max(0, all.length - MOST_STEPS);
  const steps = [{ count: 0, told: null }];
  if (early) steps.push({ count: early, told: { early } });
  for (let at = early; at < all.length; at += 1) steps.push({ count: at + 1, told: all[at] });
  const said = all.map((one) => ({ item: one.item, rating: one.rating }));
  const { answers } = await ask("/v1/predict/batch", {
    questions: steps.map(({ count }) => ({ ratings: said.slice(0, count), items: [item] })),
  });
  return steps.map(({ told }, at) => ({ told, mean: answers[at].predictions[0].mean }));
}

/** The story as a table, with a bar for each line. */
export function storyTable(scale, parts) {
  const means = parts.map((part) => Number(part.mean.toFixed(scale.digits)));
  const start = means[0];
  const end = means.at(-1);
  const low = Math.min(...means);
  const high = Math.max(...means);
  if (parts.length === 1) {
    return h("p", { class: "quiet" },
      `${start.toFixed(scale.digits)} is what is expected of somebody who has rated nothing. `
      + "Rate a few titles, and this shows what each of them changed.");
  }
  const place = (value) => (high > low ? 4 + ((value - low) / (high - low)) * 232 : 120);
  return h("table", { class: "story-table" },
    h("caption", { class: "unseen" }, "What each rating changed; the lines add up"),
    h("thead", { class: "unseen" }, h("tr", {}, ...["Because", "", "Change"].map((one) =>
      h("th", { scope: "col" }, one || "Picture")))),
    h("tbody", {},
      row("Before you said anything", dot(place(start)), start.toFixed(scale.digits), "end"),
      ...parts.slice(1).map(({ told }, at) => row(lineWords(scale, told),
        bar(place(means[at]), place(means[at + 1])), signed(scale, means[at + 1] - means[at]),
        means[at + 1] > means[at] ? "more" : "")),
      row("Now", dot(place(end), true), end.toFixed(scale.digits), "end now")));
}

function lineWords(scale, told) {
  if (told.early) return `Your first ${told.early} ratings`;
  return `Because you rated ${short(told.title)} ${scale.shown(told.rating)}`;
}

const row = (words, drawn, figure, kind) => h("tr", { class: kind },
  h("th", { scope: "row" }, words), h("td", {}, drawn), h("td", { class: "number" }, figure));

const strip = (...parts) => svg("svg", { viewBox: "0 0 240 12", width: 240, height: 12,
  "aria-hidden": "true", class: "strip" }, ...parts);

const dot = (x, isNow = false) => strip(svg("circle", { cx: x, cy: 6, r: 4,
  class: isNow ? "now" : "" }));

const bar = (from, to) => strip(svg("rect", { x: Math.min(from, to), y: 3, height: 6, rx: 1.5,
  width: Math.max(1, Math.abs(to - from)), class: to > from ? "more" : "less" }));

// Beside every title: the machine's belief as a picture, in words, and as a number.

import { written } from "./api.js";
import { picture, words } from "./distribution.js";
import { h } from "./dom.js";

export function belief(scale, expected, size = { width: 128, height: 34 }) {
  return h("div", { class: "belief-box" },
    picture(scale, expected, size),
    h("span", { class: "figure", title: "expected rating" }, scale.mean(expected.mean)),
    h("p", { class: "belief-words" }, words(scale, expected)));
}

/** A title, or the id where there is none. */
export function called(one) {
  const id = one.item ?? one.id;
  return one.title ?? `Item ${typeof id === "object" ? written(id) : id}`;
}

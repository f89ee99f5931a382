// The slider from "sure to like" to "surprise me": how well known a title may be.

import { fresh, h } from "./dom.js";

const DECILES = [10, 7, 5, 3, 1]; // of all ratings, the share that titles so little known have
const DIVERSITY = [0, 0, 0.05, 0.1, 0.15];

/** What a stop of the slider asks of a list. */
export function wish(stop, deciles) {
  if (stop === 0) return {};
  return { most_ratings: deciles[DECILES[stop]], diversity: DIVERSITY[stop] };
}

function inWords(stop, deciles) {
  return stop === 0 ? "any title, however well known"
    : `titles that at most ${deciles[DECILES[stop]].toLocaleString("en")} people rated`;
}

export function surpriseSlider({ page, chosen }) {
  const id = fresh("surprise");
  const told = h("output", { class: "quiet", for: id });
  const input = h("input", { type: "range", id, min: 0, max: DECILES.length - 1, step: 1,
    value: page.surprise, list: `${id}-stops` });
  const say = () => {
    const text = inWords(Number(input.value), page.model.popularity_deciles);
    told.textContent = text;
    input.setAttribute("aria-valuetext", text);
  };
  input.addEventListener("input", () => {
    page.surprise = Number(input.value);
    say();
    chosen();
  });
  say();
  return h("div", { class: "surprise" },
    h("label", { for: id }, h("span", {}, "Sure to like"), h("span", { class: "unseen" }, " to "),
      h("span", {}, "Surprise me")),
    input, told);
}

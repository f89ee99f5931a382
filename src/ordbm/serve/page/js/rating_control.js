// How somebody says a rating: native radios as stars or choices, or a slider for many levels.
//
// A click rates at once. With the keys a rating is chosen first and given by Enter or the button
// that appears, or else an arrow key on the way to four stars would have rated one.

import { fresh, h, svg } from "./dom.js";

const STAR = "M12 2.6l2.9 6 6.6.9-4.8 4.6 1.2 6.5L12 17.5l-5.9 3.1 1.2-6.5L2.5 9.5l6.6-.9z";

/** A control for `title`; `rate(level)` is called with a level, or null to take it back. */
export function ratingControl({ scale, title, rating, rate, supposed = false, legend }) {
  const words = legend ?? (supposed ? `What if: rating of ${title}` : `Your rating of ${title}`);
  const control = scale.control === "slider"
    ? slider(scale, words, rating, rate)
    : radios(scale, words, rating, rate);
  control.classList.toggle("supposed", supposed);
  return control;
}

function radios(scale, words, rating, rate) {
  const name = fresh("rating");
  const stars = scale.control === "stars";
  const give = h("button", { type: "button", class: "give", hidden: true, onclick: commit });
  const choices = scale.levels.map((level) => choice(scale, name, level, stars, level === rating));
  const clear = rating === null ? null : h("button", {
    type: "button", class: "clear", "aria-label": `Take back: ${words}`, title: "Take back",
    onclick: () => rate(null),
  }, "×");
  const group = h("fieldset", { class: stars ? "stars" : "choices" },
    h("legend", { class: "unseen" }, words),
    h("span", { class: "levels" }, choices), give, clear);
  let byPointer = false;
  const chosen = () => {
    const at = [...group.querySelectorAll("input")].findIndex((one) => one.checked);
    return at < 0 ? null : scale.levels[at];
  };
  function commit() {
    const level = chosen();
    if (level !== null && level !== rating) rate(level);
  }
  group.addEventListener("pointerdown", () => { byPointer = true; });
  group.addEventListener("keydown", (event) => {
    byPointer = false;
    if (event.key === "Enter" && event.target.matches("input")) commit();
  });
  group.addEventListener("change", () => {
    if (byPointer) commit();
    else if (chosen() !== rating) {
      give.hidden = false;
      give.textContent = `Rate ${scale.shown(chosen())}`;
    } else give.hidden = true;
    byPointer = false;
  });
  return group;
}

function choice(scale, name, level, stars, checked) {
  const input = h("input", { type: "radio", name, value: level, checked,
    "aria-label": scale.spoken(level) });
  input.checked = checked;
  if (!stars) return h("label", {}, input, h("span", {}, scale.shown(level)));
  const half = scale.levels[0] === 0.5;
  const side = !half ? "whole" : Number.isInteger(level) ? "right" : "left";
  const view = { whole: "0 0 24 24", left: "0 0 12 24", right: "12 0 12 24" }[side];
  return h("label", { class: side, title: scale.spoken(level) }, input,
    svg("svg", { viewBox: view, "aria-hidden": "true" }, svg("path", { d: STAR })));
}

function slider(scale, words, rating, rate) {
  const id = fresh("rating");
  const levels = scale.levels;
  const [low, high] = levels ? [0, levels.length - 1] : scale.range;
  const start = rating === null
    ? (levels ? Math.round(levels.length / 2) : (low + high) / 2)
    : (levels ? levels.indexOf(rating) : rating);
  const input = h("input", { type: "range", id, min: low, max: high, value: start,
    step: levels ? 1 : (high - low) / 200 });
  const at = () => (levels ? levels[Number(input.value)] : Number(input.value));
  const shown = h("output", { for: id }, rating === null ? "–" : scale.shown(rating));
  const give = h("button", { type: "button", class: "give", hidden: true,
    onclick: () => rate(at()) });
  const moved = () => {
    const words = scale.shown(at());
    shown.textContent = words;
    input.setAttribute("aria-valuetext", words);
    give.textContent = `Rate ${words}`;
    give.hidden = at() === rating;
  };
  input.setAttribute("aria-valuetext", rating === null ? "not rated" : scale.shown(rating));
  input.addEventListener("input", moved);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") rate(at());
  });
  const clear = rating === null ? null : h("button", {
    type: "button", class: "clear", "aria-label": `Take back: ${words}`, title: "Take back",
    onclick: () => rate(null),
  }, "×");
  return h("fieldset", { class: "slider" },
    h("legend", { class: "unseen" }, words),
    h("label", { for: id, class: "unseen" }, words), input, shown, give, clear);
}

/** A rating that was given, to look at: never a control. */
export function givenRating(scale, rating) {
  if (scale.control !== "stars") return h("span", { class: "given" }, scale.shown(rating));
  return h("span", { class: "given" }, `${scale.shown(rating)}\u202f★`);
}

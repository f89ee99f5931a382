// What somebody has said: their ratings, the latest first; every one can be changed or taken back.

import { keyOf } from "./api.js";
import { called } from "./belief.js";
import { h, keepingFocus, speak } from "./dom.js";
import { exportRatings } from "./keep.js";
import { ratingControl } from "./rating_control.js";
import { titleLink } from "./rows.js";

export function yours({ page, person = page.you, signal, heading = "Your ratings", whatIf = true }) {
  const list = h("ul", { class: "given-list" });
  const count = h("span", { class: "count" });
  const empty = h("p", { class: "quiet" }, "Nothing yet.");
  const foot = h("div", { class: "keep" },
    h("button", { type: "button", class: "plain", onclick: () => exportRatings(person) }, "Export"),
    h("button", { type: "button", class: "plain", onclick: forget }, "Forget all"));

  function forget() {
    person.forget();
    speak("All ratings are forgotten.");
  }

  function draw() {
    const all = [...person.ratings.values()].reverse();
    count.textContent = all.length ? String(all.length) : "";
    empty.hidden = all.length > 0;
    foot.hidden = all.length === 0;
    keepingFocus(list, () => list.replaceChildren(...all.map(line)));
  }

  function line(one) {
    const key = keyOf(one.item);
    const title = called(one);
    return h("li", {},
      titleLink({ ...one, title }),
      h("div", { class: "given-line", "data-hold": `yours ${key}` },
        ratingControl({ scale: page.scale, title, rating: one.rating,
          legend: `${heading === "Your ratings" ? "Your rating" : "Rating"} of ${title}`,
          rate: (level) => person.rate(one.item, title, level) }),
        whatIf ? h("button", {
          type: "button", class: "plain small", "aria-label": `What if ${title} were rated otherwise?`,
          onclick: () => suppose(one, title),
        }, "What if…") : null));
  }

  function suppose(one, title) {
    const { scale } = page;
    const low = scale.levels ? scale.levels[Math.min(3, Math.floor(scale.levels.length / 3))]
      : scale.range[0];
    const high = scale.levels ? scale.levels.at(-1) : scale.range[1];
    person.suppose({ item: one.item, title, rating: one.rating === low ? high : low });
  }

  person.addEventListener("change", draw, { signal });
  draw();
  const isWide = matchMedia("(min-width: 66rem)").matches;
  return h("section", { class: "yours", "aria-label": heading },
    h("details", { open: isWide || person.ratings.size < 3 },
      h("summary", {}, h("h2", {}, heading, " ", count)), empty, list, foot));
}

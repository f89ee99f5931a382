// A title in a list: what the machine believes beside what the person says.

import { belief, called } from "./belief.js";
import { h } from "./dom.js";
import { keyOf, segment } from "./api.js";
import { percent, signed } from "./movement.js";
import { ratingControl } from "./rating_control.js";

/** A link to the page of an item. */
export function titleLink(one, told = {}) {
  return h("a", { class: "title", href: `#/item/${segment(one.item ?? one.id)}`, ...told },
    called(one));
}

/** A row; `change` is what the last step did to it, `reason` because of what. */
export function titleRow({ scale, person, line, rank, change, reason, note, hold,
  heading = "h2" }) {
  const title = called(line);
  const supposed = person.supposed && keyOf(person.supposed.item) === keyOf(line.item);
  return h("li", { class: "row" },
    h("div", { class: "rank" },
      rank === undefined ? null : h("span", { class: "place" }, String(rank)),
      change ? badge(change) : null),
    h("div", { class: "what" },
      h(heading, {}, titleLink({ ...line, title }, { "data-hold": `title ${hold}` })),
      change && reason ? whyLine(scale, change, reason) : null,
      note ? h("p", { class: "note" }, note) : null),
    belief(scale, line),
    h("div", { class: "mine", "data-hold": `rate ${hold}` }, ratingControl({
      scale, title, rating: supposed ? person.supposed.rating : person.ratingOf(line.item),
      supposed: Boolean(supposed),
      rate: (level) => (supposed
        ? person.suppose(level === null ? null : { ...person.supposed, rating: level })
        : person.rate(line.item, title, level)),
    })));
}

function badge({ isNew, climbed }) {
  if (isNew) return h("span", { class: "badge new" }, "new");
  if (climbed === 0) return null;
  const [sign, way] = climbed > 0 ? ["▲", "up"] : ["▼", "down"];
  const places = Math.abs(climbed);
  return h("span", { class: `badge ${way}` },
    h("span", { "aria-hidden": "true" }, `${sign} ${places}`),
    h("span", { class: "unseen" }, `${way} ${places} ${places === 1 ? "place" : "places"}`));
}

/**
 * "+0.02 from 4.17 because you rated Heat 4½": with the figure beside it, a sum that is right. Where
 * the rating does not say why the rank changed, the chance of coming across it does.
 */
function whyLine(scale, { before, after, climbed, isNew, chances }, reason) {
  const parts = [];
  const change = before === null ? 0 : after - before;
  if (change) {
    parts.push(h("b", { class: change > 0 ? "more" : "less" }, signed(scale, change)),
      ` from ${before.toFixed(scale.digits)} ${reason}`);
  }
  const unsaid = isNew ? change <= 0 : climbed !== 0 && Math.sign(climbed) !== Math.sign(change);
  if (unsaid && chances && percent(chances[0]) !== percent(chances[1])) {
    const [was, is] = chances.map(percent);
    parts.push(parts.length ? "; " : "Chance to come across it ", parts.length
      ? `chance to come across it ${was} → ${is} %` : `${was} → ${is} % ${reason}`);
  }
  return parts.length ? h("p", { class: "why" }, parts) : null;
}

// The map: the most rated titles along the two main axes of the hidden space, shaded by what is
// expected of you, and your own place among them, which moves as you rate.

import { ask, get, keyOf, segment } from "./api.js";
import { called } from "./belief.js";
import { h, isCalm, speak, svg } from "./dom.js";
import { short } from "./movement.js";
import { complain } from "./notice.js";
import { titleLink } from "./rows.js";
import { searchBox } from "./search.js";
import { yours } from "./yours.js";

const ON_MAP = 250;
const isNarrow = matchMedia("(max-width: 40rem)").matches;
const SIZE = isNarrow ? [360, 420] : [680, 560];
const LABELS = isNarrow ? 11 : 26;
const DOT = isNarrow ? 0.75 : 1;
const NEAREST = 8;

export async function mapView({ page, place, signal }) {
  const { you, scale } = page;
  page.map ??= (await get(`/v1/map?n=${ON_MAP}`)).items;
  page.trail ??= [];
  const items = spread(page.map);
  const frame = svg("svg", { viewBox: `0 0 ${SIZE.join(" ")}`, class: "map", role: "img" });
  const near = h("ol", { class: "near" });
  const told = h("p", { class: "quiet" });
  place.append(
    h("header", { class: "intro" }, h("h1", {}, "A map of taste"),
      h("p", { class: "lead" }, "Titles near each other are alike to the machine. The stronger a "
        + "dot, the more it expects you to like it; the ring is you, and moves as you rate."),
      searchBox({ page, signal })),
    h("div", { class: "columns" },
      h("section", { class: "main-column", "aria-label": "Map" }, frame, told),
      h("aside", { class: "side" },
        h("section", { "aria-label": "Nearest to you" }, h("h2", {}, "Nearest to you"), near),
        yours({ page, signal, whatIf: false }))));
  const dots = items.map((one) => svg("circle", { cx: one.px, cy: one.py,
    r: DOT * (2.5 + 4.5 * Math.sqrt(one.n_ratings / items[0].n_ratings)), class: "dot",
    onclick: () => { location.hash = `#/item/${segment(one.item)}`; } },
  svg("title", {}, called(one))));
  const path = svg("polyline", { class: "trail" });
  const ring = svg("g", { class: "you" }, svg("circle", { r: 11 }), svg("circle", { r: 3.5 }),
    svg("text", { y: -17, "text-anchor": "middle" }, "you"));
  frame.append(...dots, ...labels(items), path, ring);

  async function refresh() {
    const found = await ask(`/v1/map/place?n=${ON_MAP}`, you.question());
    if (signal.aborted) return;
    const here = placed(found);
    const last = page.trail.at(-1);
    if (!last || last.px !== here.px || last.py !== here.py) page.trail.push(here);
    shade(found.expected);
    path.setAttribute("points", page.trail.map(({ px, py }) => `${px},${py}`).join(" "));
    ring.setAttribute("transform", `translate(${here.px} ${here.py})`);
    if (last && !isCalm()) {
      ring.animate([{ transform: `translate(${last.px}px, ${last.py}px)` },
        { transform: `translate(${here.px}px, ${here.py}px)` }],
      { duration: 600, easing: "cubic-bezier(.2,.8,.2,1)" });
    }
    const closest = items.map((one, at) => ({ one, mean: found.expected[at],
      far: Math.hypot(one.px - here.px, one.py - here.py) }))
      .sort((a, b) => a.far - b.far).slice(0, NEAREST);
    near.replaceChildren(...closest.map(({ one, mean }) => h("li", {}, titleLink(one),
      h("span", { class: "figure" }, scale.mean(mean)))));
    const names = closest.slice(0, 3).map(({ one }) => short(called(one))).join(", ");
    frame.setAttribute("aria-label", `Map of ${items.length} titles. You are near ${names}.`);
    told.textContent = you.ratings.size ? ""
      : "You have rated nothing yet, so you are in the middle of everything.";
    return names;
  }

  function shade(expected) {
    const low = Math.min(...expected);
    const high = Math.max(...expected);
    dots.forEach((dot, at) => {
      const share = high > low ? (expected[at] - low) / (high - low) : 0.5;
      dot.setAttribute("fill-opacity", (0.08 + 0.92 * share ** 2.2).toFixed(3));
      dot.classList.toggle("mine", you.ratings.has(keyOf(items[at].item)));
    });
  }

  you.addEventListener("change", () => {
    refresh().then((names) => speak(`You moved: near ${names}.`), complain);
  }, { signal });
  await refresh();
}

/** Half by coordinates, half by ranks along each axis, so that the crowd in the middle is legible. */
function spread(items) {
  placed.axes = ["x", "y"].map((name) => {
    const order = items.map((one) => one[name]).sort((a, b) => a - b);
    const [low, high] = [order[0], order.at(-1)];
    return order.map((raw, rank) => [raw, 0.5 * ((raw - low) / (high - low || 1))
      + 0.5 * (rank / Math.max(1, order.length - 1))]);
  });
  return items.map((one) => ({ ...one, ...placed(one) }));
}

/** A point of the hidden space on the sheet: along each axis between its neighbours there. */
function placed(point) {
  const margin = 34;
  const along = (value, axis) => {
    const after = axis.findIndex(([raw]) => raw >= value);
    if (after <= 0) return axis.at(after)[1];
    const [[low, from], [high, to]] = [axis[after - 1], axis[after]];
    return high > low ? from + ((value - low) / (high - low)) * (to - from) : to;
  };
  const [px, py] = [along(point.x, placed.axes[0]), 1 - along(point.y, placed.axes[1])]
    .map((share, which) => Number((margin + share * (SIZE[which] - 2 * margin)).toFixed(1)));
  return { px, py };
}

/** Names of the best known titles that do not run into each other. */
function labels(items) {
  const taken = [];
  const found = [];
  for (const one of items) {
    const whole = short(called(one));
    const text = whole.length > 24 ? `${whole.slice(0, 22).trim()}…` : whole;
    const wide = text.length * 5.6 + 8;
    const left = Math.min(SIZE[0] - wide, Math.max(0, one.px - wide / 2));
    const box = [left, one.py - 22, left + wide, one.py - 6];
    const clashes = taken.some(([l, t, r, b]) => l < box[2] && box[0] < r && t < box[3] && box[1] < b);
    if (clashes) continue;
    taken.push(box);
    found.push(svg("text", { x: left + wide / 2, y: one.py - 10, class: "name",
      "text-anchor": "middle" }, text));
    if (found.length >= LABELS) break;
  }
  return found;
}

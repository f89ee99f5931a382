// The operator's pictures: calibration, and levels then and now.

import { h, svg } from "./dom.js";

const SIDE = 260;

/** Predicted against observed; on the line, chances mean what they say. */
export function calibrationChart(bins) {
  const most = Math.max(...bins.map((one) => one.n));
  const place = (share) => 20 + share * (SIDE - 40);
  const label = bins.map((one) =>
    `predicted ${percent(one.predicted)}, seen ${percent(one.observed)}`).join("; ");
  const ticks = [0, 0.5, 1].flatMap((share) => [
    svg("text", { x: place(share), y: SIDE - 3, "text-anchor": "middle" }, percent(share)),
    svg("text", { x: 15, y: SIDE - place(share) + 3, "text-anchor": "end" }, `${100 * share}`)]);
  return h("figure", {},
    svg("svg", { viewBox: `-12 0 ${SIDE + 12} ${SIDE}`, class: "chart square", role: "img",
      "aria-label": `Calibration: ${label}` },
    svg("line", { class: "diagonal", x1: place(0), y1: SIDE - place(0), x2: place(1),
      y2: SIDE - place(1) }),
    ...bins.map((one) => svg("circle", { cx: place(one.predicted), cy: SIDE - place(one.observed),
      r: 3 + 6 * Math.sqrt(one.n / most) })),
    ...ticks),
    h("figcaption", { class: "quiet" }, "Across: predicted chance of a level or more. "
      + "Up: how often it came true."));
}

/** Two bars a level: learnt in grey, new in the accent. */
export function driftChart(scale, { learnt, new: now }) {
  const [width, height] = [360, 150];
  const step = width / learnt.length;
  const most = Math.max(...learnt, ...now);
  const bars = learnt.flatMap((_, at) => [[learnt[at], "then", 0.12], [now[at], "now", 0.5]]
    .map(([share, kind, from]) => {
      const tall = (share / most) * (height - 26);
      return svg("rect", { class: kind, x: (at + from) * step, width: step * 0.36, rx: 1.5,
        y: height - 18 - tall, height: tall });
    }));
  const names = learnt.length > 12 ? [] : scale.levels;
  const label = scale.levels.map((level, at) =>
    `${scale.shown(level)}: learnt ${percent(learnt[at])}, new ${percent(now[at])}`).join("; ");
  return h("figure", {},
    svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img",
      "aria-label": `Levels: ${label}` }, ...bars,
    ...names.map((level, at) => svg("text", { x: (at + 0.5) * step, y: height - 4,
      "text-anchor": "middle" }, scale.shown(level).slice(0, 8)))),
    h("figcaption", { class: "quiet" }, "Grey: shares of levels in what was learnt. "
      + "Coloured: in the newest ratings."));
}

const percent = (share) => `${Math.round(100 * share)} %`;

// What the machine believes: a small picture and the same in words.

import { svg } from "./dom.js";

/** "probably 4, quite sure": the median, and how narrow the middle four fifths are. */
export function words(scale, expected) {
  return `probably ${scale.shown(scale.nearest(expected.median))}, ${sureness(scale, expected)}`;
}

export function sureness(scale, { interval }) {
  const share = (interval.high - interval.low) / scale.span;
  if (share <= 0.2) return "very sure";
  if (share <= 0.35) return "quite sure";
  if (share <= 0.55) return "not so sure";
  return "mostly guessing";
}

/** The words with figures, as the picture is described to those who do not see it. */
export function described(scale, expected) {
  const { low, high, mass } = expected.interval;
  const range = low === high ? scale.shown(scale.nearest(low))
    : `between ${scale.shown(scale.nearest(low))} and ${scale.shown(scale.nearest(high))}`;
  return `${words(scale, expected)}: ${range} with ${Math.round(100 * mass)} %`;
}

/** Bars, one for each level; a filled curve where levels are many; a range where there are none. */
export function picture(scale, expected, { width = 96, height = 30, kind = "belief", label } = {}) {
  const told = { viewBox: `0 0 ${width} ${height}`, width, height, class: `shape ${kind}` };
  const about = label ?? described(scale, expected);
  const frame = svg("svg", { ...told, role: "img", "aria-label": about });
  const shares = expected.distribution;
  const base = height - 1;
  frame.append(svg("line", { class: "axis", x1: 0, x2: width, y1: base + 0.5, y2: base + 0.5 }));
  if (!shares) frame.append(...rangeParts(scale, expected, width, base));
  else if (shares.length > 24) frame.append(curve(shares, width, base));
  else {
    const named = scale.levels ? scale.levels.indexOf(scale.nearest(expected.median))
      : shares.indexOf(Math.max(...shares));
    frame.append(...bars(shares, named, width, base));
  }
  return frame;
}

/** One stands out: the level that the words name, or the highest bar of a continuous scale. */
function bars(shares, named, width, base) {
  const most = Math.max(...shares, 1e-9);
  const step = width / shares.length;
  const wide = Math.max(1.5, step - Math.min(3, step * 0.28));
  return shares.map((share, at) => {
    const tall = share > 0 ? Math.max(1, (share / most) * (base - 1)) : 0;
    return svg("rect", {
      class: at === named ? "most" : "", x: at * step + (step - wide) / 2, width: wide,
      y: base - tall, height: tall, rx: Math.min(1.5, wide / 4),
    });
  });
}

function curve(shares, width, base) {
  const most = Math.max(...shares, 1e-9);
  const step = width / (shares.length - 1);
  const points = shares.map((share, at) =>
    `${(at * step).toFixed(1)},${(base - (share / most) * (base - 1)).toFixed(1)}`);
  return svg("path", { class: "most", d: `M0,${base}L${points.join("L")}L${width},${base}Z` });
}

function rangeParts(scale, expected, width, base) {
  const place = (value) =>
    Math.min(1, Math.max(0, (value - scale.range[0]) / scale.span)) * (width - 4) + 2;
  const { low, high } = expected.interval;
  const middle = base * 0.55;
  return [
    svg("rect", { x: place(low), width: Math.max(2, place(high) - place(low)), y: middle - 4,
      height: 8, rx: 4 }),
    svg("circle", { class: "most", cx: place(expected.mean), cy: middle, r: 5 }),
  ];
}

// What a step did to a list: who moved, by how much, and because of what.

import { keyOf } from "./api.js";
import { isCalm } from "./dom.js";

/** The step in words: "you rated Heat 4½". */
export function because(scale, { step, isUndo, supposed }) {
  if (supposed) return `if ${short(supposed.title)} were ${scale.shown(supposed.rating)}`;
  if (!step) return "";
  const [before, after] = isUndo ? [step.after, step.before] : [step.before, step.after];
  if (after === null) return `because you took back ${short(step.title)}`;
  const how = `because you rated ${short(step.title)} ${scale.shown(after)}`;
  return before === null ? how : `${how} instead of ${scale.shown(before)}`;
}

/** A title without the year at its end. */
export const short = (title) => title.replace(/ \(\d{4}\)$/, "");

/** Of each line of a new list: the change of its rank, of its expected rating and of its chance. */
export function changes(scale, lines, oldLines, expectedBefore) {
  const rankBefore = new Map(oldLines.map((line, at) => [keyOf(line.item), at]));
  return lines.map((line, at) => {
    const was = rankBefore.get(keyOf(line.item));
    const before = expectedBefore.get(keyOf(line.item));
    return {
      isNew: was === undefined,
      climbed: was === undefined ? 0 : was - at,
      before: before === undefined ? null : rounded(scale, before.mean),
      after: rounded(scale, line.mean),
      chances: before?.p_rated === undefined || before.p_rated === null ? null
        : [before.p_rated, line.p_rated],
    };
  });
}

const rounded = (scale, number) => Number(number.toFixed(scale.digits));

/** A change with its sign; of rounded figures, so that what is shown adds up. */
export function signed(scale, change) {
  const told = Math.abs(change).toFixed(scale.digits);
  return Number(told) === 0 ? "±0" : `${change < 0 ? "−" : "+"}${told}`;
}

/** A chance as a percentage, with a digit more where it is small. */
export function percent(chance) {
  const share = 100 * chance;
  return share >= 10 || share === 0 ? share.toFixed(0) : share >= 0.1 ? share.toFixed(1) : "<0.1";
}

/** Rows glide from where they were; at once for those who asked for calm. */
export function glide(rows, tops) {
  if (isCalm()) return;
  for (const [key, row] of rows) {
    const moved = tops.get(key);
    if (moved === undefined) {
      row.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 350, easing: "ease-out" });
      continue;
    }
    const by = moved - row.getBoundingClientRect().top;
    if (Math.abs(by) > 1) {
      row.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }],
        { duration: 450, easing: "cubic-bezier(.2,.8,.2,1)" });
    }
  }
}

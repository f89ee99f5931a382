// Elements from plain values. Text is only ever set as text: no markup comes from data.

const SVG = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((one) => one !== null && one !== undefined));
  return element;
}

/** An HTML element; attributes that begin with "on" are listeners, children are nodes or text. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

let number = 0;

/** An id that no other element has. */
export function fresh(name) {
  number += 1;
  return `${name}-${number}`;
}

/** Say something to those who listen rather than look. */
export function speak(text) {
  document.getElementById("spoken").textContent = text;
}

export const isCalm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

/** Draw something anew; what had the focus has it again, or what came into its place (`data-hold`). */
export function keepingFocus(root, draw) {
  const active = document.activeElement;
  const held = root.contains(active) ? active.closest("[data-hold]")?.dataset.hold : undefined;
  draw();
  if (held === undefined) return;
  const place = root.querySelector(`[data-hold="${CSS.escape(held)}"]`)
    ?? root.querySelector("[data-hold]") ?? root;
  const inside = place.querySelector("input:checked, input, button, a");
  (place.matches("a, button, input") || !inside ? place : inside).focus({ preventScroll: true });
}

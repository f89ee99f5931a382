// What went wrong while something was done: told to those who look and to those who listen.

import { h } from "./dom.js";

let box = null;

export function complain(error) {
  box?.remove();
  const mine = h("div", { class: "notice", role: "alert" }, h("p", {}, error.message),
    h("button", { type: "button", onclick: () => mine.remove() }, "Close"));
  box = mine;
  document.body.append(mine);
}

/** Nothing is wrong any more. */
export function settled() {
  box?.remove();
}

// Where a service has keys: one is typed here, kept in memory, sent as a header, never in an address.

import { useKey } from "./api.js";
import { fresh, h } from "./dom.js";

export function keyForm(again) {
  const id = fresh("key");
  const input = h("input", { type: "password", id, autocomplete: "off", spellcheck: "false" });
  return h("form", {
    class: "key-form",
    onsubmit: (event) => {
      event.preventDefault();
      useKey(input.value);
      again();
    },
  },
  h("label", { for: id }, "Key of this service"), input,
  h("button", { type: "submit", class: "strong" }, "Use it"),
  h("p", { class: "quiet" }, "It is forgotten when this tab is closed or loaded anew."));
}

// Search by words of the title; what is found can be rated where it stands.

import { ask, get, keyOf } from "./api.js";
import { fresh, h, speak } from "./dom.js";
import { complain } from "./notice.js";
import { titleRow } from "./rows.js";

const SHOWN = 6;
const PATIENCE = 180; // milliseconds without a key

export function searchBox({ page, person = page.you, signal, label = "Search titles to rate",
  heading }) {
  const { scale } = page;
  const id = fresh("search");
  const input = h("input", { type: "search", id, placeholder: label, autocomplete: "off",
    spellcheck: "false" });
  const found = h("ol", { class: "rows found", "aria-label": "Found titles", hidden: true });
  const none = h("p", { class: "quiet none", hidden: true });
  let asked = 0;
  let timer = 0;

  async function look() {
    const text = input.value.trim();
    asked += 1;
    const mine = asked;
    if (!text) return clear();
    const { items } = await get(`/v1/items?limit=${SHOWN}&search=${encodeURIComponent(text)}`);
    const lines = items.length ? await expected(items) : [];
    if (mine !== asked || signal.aborted) return;
    found.replaceChildren(...lines.map((line, at) => titleRow({
      scale, person, line, heading, hold: `found ${at}`, note: raters(line.n_ratings),
    })));
    found.hidden = lines.length === 0;
    none.hidden = lines.length > 0;
    none.textContent = `No title has “${text}” in it.`;
    speak(lines.length ? `${lines.length} titles found` : none.textContent);
  }

  async function expected(items) {
    const { predictions } = await ask("/v1/predict",
      { ...person.question(), items: items.map((one) => one.item) });
    const by = new Map(predictions.map((one) => [keyOf(one.item), one]));
    return items.map((one) => ({ ...by.get(keyOf(one.item)), ...one }));
  }

  function clear() {
    found.hidden = true;
    none.hidden = true;
    found.replaceChildren();
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => look().catch(complain), PATIENCE);
  });
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    input.value = "";
    clear();
  });
  person.addEventListener("change", ({ detail }) => {
    if (detail.step && !detail.isUndo && found.contains(document.activeElement)) input.focus();
    if (input.value) look().catch(complain);
  }, { signal });
  return h("search", { class: "search" },
    h("label", { for: id, class: "unseen" }, label), input, found, none);
}

export const raters = (count) =>
  (count === 1 ? "1 person rated it" : `${count.toLocaleString("en")} people rated it`);

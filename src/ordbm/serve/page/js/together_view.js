// Two people, one evening: titles by the chance that both like them, of their joint prediction.

import { ask, keyOf } from "./api.js";
import { picture } from "./distribution.js";
import { fresh, h, keepingFocus, speak } from "./dom.js";
import { percent } from "./movement.js";
import { complain } from "./notice.js";
import { titleLink } from "./rows.js";
import { searchBox } from "./search.js";
import { yours } from "./yours.js";

const FROM_EACH = 40;
const ASKED_JOINTLY = 16;

export async function togetherView({ page, place, signal }) {
  const { you, companion, scale } = page;
  const rows = h("ol", { class: "rows pairs" });
  const told = h("p", { class: "quiet wait", hidden: true });
  place.append(
    h("header", { class: "intro" }, h("h1", {}, "What to watch tonight"),
      h("p", { class: "lead" }, "Titles that neither of you has rated, by the chance that both of you "
        + `rate them ${scale.liked === null ? "well" : `${scale.shown(scale.liked)} or more`}.`)),
    h("div", { class: "two" },
      h("section", { class: "card", "aria-label": "You" }, h("h2", {}, "You"),
        searchBox({ page, person: you, signal, label: "Search titles you know",
          heading: "h3" }),
        yours({ page, signal, whatIf: false })),
      h("section", { class: "card", "aria-label": "Your companion" }, h("h2", {}, "Your companion"),
        searchBox({ page, person: companion, signal, label: "Search titles they know",
          heading: "h3" }),
        yours({ page, person: companion, signal, heading: "Their ratings", whatIf: false }),
        storedForm(companion))),
    h("section", { "aria-label": "For both of you", class: "both" }, h("h2", {}, "For both of you"),
      told, rows));
  let turn = 0;

  async function refresh() {
    turn += 1;
    const mine = turn;
    if (!companion.ratings.size && companion.user === null) {
      rows.replaceChildren();
      told.hidden = false;
      told.textContent = "Rate a few titles for your companion: then this is for both of you.";
      return;
    }
    rows.setAttribute("aria-busy", "true");
    const found = await forBoth();
    if (mine !== turn || signal.aborted) return;
    rows.removeAttribute("aria-busy");
    told.hidden = true;
    keepingFocus(rows, () => rows.replaceChildren(...found.map((one, at) => row(one, at))));
    if (found.length) speak(`First for both of you: ${found[0].title ?? "a title"}`);
  }

  async function forBoth() {
    const people = [you.question(), companion.question()];
    const exclude = [you, companion].flatMap((one) =>
      [...one.ratings.values()].map(({ item }) => item));
    const lists = await Promise.all(people.map((one) =>
      ask("/v1/recommend", { ...one, n: FROM_EACH, exclude })));
    const titles = new Map(lists.flatMap((list) => list.items)
      .map((one) => [keyOf(one.item), one]));
    const items = [...titles.values()].map((one) => one.item);
    if (!items.length) return [];
    const alone = await Promise.all(people.map((one) => ask("/v1/predict", { ...one, items })));
    const [first, second] = alone.map((one) => one.predictions);
    const guess = items.map((item, at) => ({ item, worth: liking(first[at]) * liking(second[at]),
      expected: [first[at], second[at]] }))
      .sort((a, b) => b.worth - a.worth).slice(0, ASKED_JOINTLY);
    const { answers } = await ask("/v1/joint/batch",
      { questions: guess.map(({ item }) => ({ people, items: [item] })) });
    return guess.map((one, at) => ({ ...one, title: titles.get(keyOf(one.item)).title,
      both: answers[at].all_at_least?.p ?? null,
      means: answers[at].pairs.map((pair) => pair.mean) }))
      .sort((a, b) => (b.both ?? Math.min(...b.means)) - (a.both ?? Math.min(...a.means)));
  }

  /** P(liked) of one person; where there are no levels, how high the mean is. */
  function liking({ distribution, mean }) {
    if (!distribution) return Math.max(0, mean - scale.range[0]);
    const from = scale.levels.indexOf(scale.liked);
    return distribution.slice(from).reduce((sum, one) => sum + one, 0);
  }

  function row({ item, title, both, expected, means }, at) {
    const halves = ["You", "They"].map((who, number) => h("div", { class: "half" },
      h("span", { class: "quiet" }, who),
      picture(scale, expected[number], { width: 96, height: 26 }),
      h("span", { class: "figure" }, scale.mean(means[number]))));
    return h("li", { class: "row" },
      h("div", { class: "rank" }, h("span", { class: "place" }, String(at + 1))),
      h("div", { class: "what" }, h("h3", {}, titleLink({ item, title }, { "data-hold": at }))),
      h("div", { class: "halves" }, halves),
      h("div", { class: "chance" }, both === null ? scale.mean(Math.min(...means))
        : [h("span", { class: "figure" }, `${percent(both)} %`),
          h("span", { class: "quiet" }, "both like it")]));
  }

  for (const person of [you, companion]) {
    person.addEventListener("change", () => {
      refresh().catch(complain);
    }, { signal });
  }
  await refresh();
}

/** The companion may be somebody whom the service knows. */
function storedForm(companion) {
  const id = fresh("stored");
  const input = h("input", { type: "text", id, autocomplete: "off",
    value: companion.user === null ? "" : companion.user });
  return h("form", { class: "stored", onsubmit: (event) => {
    event.preventDefault();
    const text = input.value.trim();
    const number = Number(text);
    companion.user = text === "" ? null : Number.isSafeInteger(number) ? number : text;
    companion.tell({});
  } },
  h("label", { for: id }, "Or somebody this service knows, by id"),
  h("div", { class: "inline" }, input, h("button", { type: "submit" }, "Use")));
}

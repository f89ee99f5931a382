// Ratings out of the page: as a file of the visitor's own.

import { idOf, keyOf } from "./api.js";

/** The ratings as JSON that the service takes back: {"ratings": [{"item": …, "rating": …}]}. */
export function exportRatings(person) {
  const lines = [...person.ratings.values()].map((one) =>
    `  {"item": ${keyOf(one.item)}, "rating": ${JSON.stringify(one.rating)}, "title": ${
      JSON.stringify(one.title ?? null)}}`);
  const text = `{"ratings": [\n${lines.join(",\n")}\n]}\n`;
  idOf(text); // it can be read again
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = "ratings.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

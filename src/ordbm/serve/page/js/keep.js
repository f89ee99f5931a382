// Ratings out of the page: as a file of the visitor's own.

import { written } from "./api.js";

/** The ratings as JSON: {"ratings": [{"item": …, "rating": …, "title": …}]}. */
export function exportRatings(person) {
  const lines = [...person.ratings.values()].map(({ item, rating, title }) =>
    `  ${written({ item, rating, title: title ?? null })}`);
  const text = `{"ratings": [\n${lines.join(",\n")}\n]}\n`;
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = "ratings.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

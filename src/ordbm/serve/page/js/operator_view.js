// For whoever runs the service: which model answers, how well, how much it is asked, what drifts.

import { get } from "./api.js";
import { calibrationChart, driftChart } from "./charts.js";
import { h, speak } from "./dom.js";
import { keyForm } from "./key_form.js";
import { metricsOf, routesOf } from "./metrics_text.js";

const NEWEST = 200;

export async function operatorView({ page, place, signal, again }) {
  const asked = { model: "/v1/model", versions: "/v1/model/versions",
    quality: `/v1/model/quality?newest=${NEWEST}`, metrics: "/metrics" };
  const told = Object.fromEntries(await Promise.all(Object.entries(asked).map(
    async ([name, path]) => [name, await get(path).catch((error) => error)])));
  if (signal.aborted) return;
  const refused = Object.values(told).find((one) => one.status === 401 || one.status === 403);
  const card = (title, content, wide = false) => h("section",
    { class: `card ${wide ? "wide" : ""}`, "aria-label": title }, h("h2", {}, title), content);
  const of = (found, draw) => (found instanceof Error
    ? h("p", { class: "quiet" }, found.message) : draw(found));
  place.append(
    h("header", { class: "intro" }, h("h1", {}, "Operator"),
      h("div", { class: "steps" }, h("button", { type: "button", onclick: () => {
        again();
        speak("Figures are up to date.");
      } }, "Refresh"))),
    refused ? h("section", { class: "card key-card", "aria-label": "Key" },
      h("p", {}, `${refused.message}. An admin key shows all of this page.`), keyForm(again)) : "",
    h("div", { class: "cards" },
      card("Model", of(told.model, modelFacts)),
      card("Newest ratings", of(told.quality, qualityFacts)),
      card("Calibration", of(told.quality, ({ calibration }) => (calibration
        ? calibrationChart(calibration) : nothingYet()))),
      card("Drift", of(told.quality, (one) => (one.levels
        ? [driftChart(page.scale, one.levels)] : nothingYet()))),
      card("Versions", of(told.versions, versionTable), true),
      card("Requests", of(told.metrics, requestTable), true)));
}

const nothingYet = () => h("p", { class: "quiet" }, "No rating has been stored since the model was "
  + "learnt. Visitors' ratings stay in their tabs; PUT /v1/users/ID/ratings/ITEM stores one.");

const facts = (pairs) => h("dl", { class: "facts" }, pairs.flatMap(([name, value]) =>
  [h("dt", {}, name), h("dd", {}, value)]));

const count = (number) => number.toLocaleString("en");

function modelFacts(model) {
  return facts([["Version", model.version], ["Learnt", shortTime(model.learnt.time)],
    ["From", `${count(model.ratings)} ratings by ${count(model.users)} people of ${
      count(model.items)} titles`],
    ["Scale", model.scale.text], ["Machine", model.machine],
    ["Not in it yet", `${count(model.pending)} changes`]]);
}

const shortTime = (text) => (text ? text.replace("T", " ").slice(0, 16) : "–");

function qualityFacts(quality) {
  if (!quality.ratings) return nothingYet();
  const digits = (number) => number.toFixed(3).replace("-", "−");
  return facts([["Looked at", `${count(quality.ratings)} newest ratings, each left out of its own `
    + "prediction"], ["Log-loss", digits(quality.log_loss)], ["Root mean squared error",
    digits(quality.rmse)], ["Mean error", digits(quality.mean_error)],
  ["Of titles not learnt", `${Math.round(100 * quality.unknown_items)} %`]]);
}

function table(caption, heads, rows) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { class: "figures" }, h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, heads.map((one) => h("th", { scope: "col" }, one)))),
      h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((one, at) =>
        (at ? h("td", {}, one) : h("th", { scope: "row" }, one))))))));
}

function versionTable({ versions }) {
  return table("Table of versions", ["Version", "State", "Since", "Log-loss before", "After"],
    versions.map(({ version, state, time, report }) => [version, state,
      shortTime(new Date(1000 * time).toISOString()),
      report.log_loss_before?.toFixed(4) ?? "–", report.log_loss_after?.toFixed(4) ?? "–"]));
}

function requestTable(text) {
  const ms = (seconds) => (Number.isFinite(seconds) ? `${(1000 * seconds).toFixed(1)} ms` : "> 10 s");
  return table("Table of requests by route", ["Route", "Requests", "Refused", "Failed", "Mean", "95 % within"],
    routesOf(metricsOf(text)).map((one) => [one.name === "other" ? "other: the page's files, unknown addresses" : one.name,
      count(one.count), count(one.refused),
      count(one.failed), ms(one.mean), ms(one.most)]));
}

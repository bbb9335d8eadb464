// The live page: asks every two seconds, and draws.

import { bar, html, lines } from "./charts.js";
import { ask, Refused, setKey } from "./service.js";
import { openShop } from "./shop.js";

const EVERY = 2000, KEPT = 900, CURVE_EVERY = 30000;
const $ = (id) => document.getElementById(id);
let samples = [], curve = [], curveAt = 0, wholeDay = false, shopIsOpen = false;

const share = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));
const whole = (value) => (value === null || value === undefined ? "–" : Math.round(value).toLocaleString());
const few = (value) => (value >= 100 ? whole(value) : value.toFixed(value >= 10 ? 0 : 1));
const milliseconds = (value) => (value === null || value === undefined ? "–" : (1000 * value).toFixed(1));
// As many digits as tell two lines of a chart apart.
const digits = (value, gap) => value.toFixed([0, 1, 2, 3].find((n) => Math.abs(gap * 10 ** n - Math.round(gap * 10 ** n)) < 1e-6) ?? 3);

function ago(seconds) {
  if (seconds < 1) return "under 1 s";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

function tiles(stats) {
  const last = samples.at(-1), { model, latency } = stats, hour = model.hour.model;
  const rows = [
    ["HR@20 of an hour", share(hour.hit_rate)],
    ["MRR@20 of an hour", share(hour.reciprocal_rank)],
    ["Clicks", last ? few(last.clicks_per_second) : "–", "a second"],
    ["Recommendations", last ? few(last.recommendations_per_second) : "–", "a second"],
    ["Time: p50, p90, p99", ["p50", "p90", "p99"].map((p) => milliseconds(latency[p])).join(" · "), "ms", "wide"],
    ["Memory entries", whole(model.memory_entries)],
    ["Items", whole(model.items)],
    ["Open sessions", whole(stats.sessions)],
    ["Clicks kept", whole(stats.clicks)],
    ["To be learned", whole(stats.lag_clicks), "clicks"],
  ];
  $("tiles").replaceChildren(...rows.map(([name, value, unit, width]) =>
    html("div", width ? { class: width } : {}, html("dt", {}, name), html("dd", {}, value, unit ? html("small", {}, ` ${unit}`) : null))));
}

// The curve's minutes, several together where the day is long.
function minutes(field) {
  const size = Math.max(1, Math.ceil(curve.length / 120)), names = ["model", "neural", "memory"];
  const series = Object.fromEntries([...names, "shadow"].map((name) => [name, []]));
  for (let start = 0; start < curve.length; start += size) {
    const some = curve.slice(start, start + size), when = some[0].time;
    for (const name of names) series[name].push([when, mean(some.map((at) => at.quality[name]), field)]);
    series.shadow.push([when, mean(some.map((at) => at.shadow && at.shadow.model), field)]);
  }
  return series;
}

function mean(figures, field) {
  const known = figures.filter((each) => each && each[field] !== null);
  const tests = known.reduce((sum, each) => sum + each.tests, 0);
  return tests ? known.reduce((sum, each) => sum + each.tests * each[field], 0) / tests : null;
}

function recent(field) {
  const names = ["model", "neural", "memory", "shadow"];
  return Object.fromEntries(names.map((name) => [name, samples.map((at) => [at.time, at[field][name] ?? null])]));
}

function quality() {
  const names = { model: "the model", neural: "neural alone", memory: "memory alone", shadow: "shadow" };
  for (const [place, field, title] of [["hit-rate", "hit_rate", "HR@20"], ["reciprocal-rank", "reciprocal_rank", "MRR@20"]]) {
    const of = wholeDay ? minutes(field) : recent(field);
    const series = Object.entries(names).map(([part, name]) => ({ name, points: of[part] }));
    if (!series[3].points.some(([, value]) => value !== null)) series.pop();
    lines($(place), series, digits, `${title} over time`);
  }
  $("explained").textContent = "Every click tests what would have been recommended just before it. " +
    (wholeDay ? "Each point is a minute or more." : "Each point is the mean of the hour before it.");
}

// The same in figures: of the last hour, and since the model was loaded.
function figures(stats) {
  const { model, shadow } = stats;
  const rows = [["The model", model, "model"], ["Its neural part alone", model, "neural"],
    ["Its memory alone", model, "memory"], ["The model, on new items", model, "new"]];
  if (shadow) rows.push([`The shadow: ${shadow.label}`, shadow, "model"], ["The shadow, on new items", shadow, "new"]);
  $("figures").replaceChildren(...rows.filter(([, of, part]) => of.start[part]).map(([name, of, part]) => html("tr", {},
    html("th", { scope: "row" }, name),
    ...[of.hour, of.start].flatMap((over) => ["hit_rate", "reciprocal_rank"].map((field) => html("td", {}, share(over[part]?.[field])))),
    html("td", {}, whole(of.start[part].tests)))));
}

function traffic() {
  const of = (field) => samples.map((at) => [at.time, at[field]]);
  lines($("traffic"), [{ name: "clicks", points: of("clicks_per_second") },
    { name: "recommendations", points: of("recommendations_per_second") }], digits, "Clicks and recommendations a second");
  const times = (field) => samples.map((at) => [at.time, at[field] === null ? null : 1000 * at[field]]);
  lines($("latency"), ["p50", "p90", "p99"].map((name) => ({ name, points: times(name) })), digits, "Latency percentiles");
}

function summary(clicked, soon) {
  if (!clicked) return "No item was clicked for the first time.";
  const first = clicked === 1 ? "One item was clicked for the first time" : `${clicked.toLocaleString()} items were clicked for the first time`;
  if (!soon.length) return `${first}; none was recommended yet.`;
  if (clicked === 1) return `${first}, and recommended ${ago(soon[0])} after that click.`;
  const since = soon.length === 1 ? "one of them was" : `${soon.length.toLocaleString()} of them were`;
  return `${first}; ${since} recommended since, ${soon.length === 1 ? "" : "half of these "}within ${ago(soon[soon.length >> 1])} of that click.`;
}

function newItems(stats) {
  const soon = stats.new_items.map((item) => item.seconds_to_recommended).filter((value) => value !== null).sort((a, b) => a - b);
  $("new-summary").textContent = summary(stats.new_items.length, soon);
  $("new-items").closest(".scrolls").hidden = !stats.new_items.length;
  $("new-items").replaceChildren(...stats.new_items.slice(0, 50).map((item) => html("tr", {},
    html("td", {}, item.title || item.id), html("td", {}, `${ago(stats.time - item.first_clicked)} ago`),
    html("td", {}, item.seconds_to_recommended === null ? "not yet" : `after ${ago(item.seconds_to_recommended)}`))));
}

function gate(stats) {
  const { weight_old: old, weight_new: fresh } = stats.model.hour;
  const rows = [["Old items", old], ["New items", fresh]].filter(([, weight]) => weight !== null);
  $("gate").replaceChildren(...(rows.length ? rows.flatMap(([name, weight]) => [html("dt", {}, name),
    html("dd", { class: "gate" }, bar(weight, 1 - weight, ["neural", "memory"])),
    html("dd", {}, weight.toFixed(3))]) : [html("dt", {}, "Nothing tested yet, or no gate.")]));
  const wrong = [...stats.defects, stats.learning_error && `Learning stopped: ${stats.learning_error}`,
    stats.writing_error && `No clicks are taken: ${stats.writing_error}`, ...stats.problems].filter(Boolean);
  $("problems").replaceChildren(...wrong.map((text) => html("p", {}, text)));
}

function show(stats) {
  samples = [...samples, ...stats.history].slice(-KEPT);
  $("subtitle").textContent = `${stats.model.label}, version ${stats.model_version}` + (stats.demo ? " · a synthetic shop with simulated visitors" : "");
  $("foot").textContent = `nextclick ${stats.version}, up for ${ago(stats.up_seconds)}`;
  $("all").hidden = false;
  for (const draw of [tiles, quality, figures, traffic, newItems, gate]) draw(stats);
  if (!shopIsOpen) { shopIsOpen = true; openShop(); }
}

function notice(text) {
  $("notice").hidden = !text;
  $("notice").textContent = text || "";
}

async function look() {
  try {
    const wantCurve = wholeDay && Date.now() - curveAt > CURVE_EVERY;
    const since = samples.length ? samples.at(-1).time : 0;
    const stats = await ask("GET", `/v1/stats?since=${since}&curve=${wantCurve}`);
    if (wantCurve) { curve = stats.curve; curveAt = Date.now(); }
    $("unlock").hidden = true;
    notice("");
    show(stats);
  } catch (error) {
    if (error instanceof Refused && (error.status === 401 || error.status === 403)) {
      $("unlock").hidden = false;
      notice(error.code === "no_key" && !sessionStorage.getItem("key") ? "" : error.message);
    } else notice(error instanceof Refused && error.code === "starting" ? "The service is starting; this page goes on by itself." : error.message);
  }
}

async function forEver() {
  if (!document.hidden) await look();
  setTimeout(forEver, EVERY);
}

$("unlock").addEventListener("submit", (event) => { event.preventDefault(); setKey($("key").value.trim()); look(); });
for (const [id, day] of [["recent", false], ["day", true]]) {
  $(id).addEventListener("click", () => {
    wholeDay = day;
    $("recent").setAttribute("aria-pressed", String(!day));
    $("day").setAttribute("aria-pressed", String(day));
    look();
  });
}
document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
forEver();

// The shop window: click items as a visitor would, and see what is recommended, and why.

import { bar, html } from "./charts.js";
import { ask } from "./service.js";

const K = 12;
const $ = (id) => document.getElementById(id);
let visit, path = [], titles = {}, turn = Promise.resolve();

const named = (id) => titles[id] || id;
const percent = (value) => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;

function beginVisit() {
  visit = `page ${crypto.randomUUID ? crypto.randomUUID() : Math.random().toString(36).slice(2)}`;
  path = [];
  remember();
}

function remember() {
  sessionStorage.setItem("visit", JSON.stringify({ visit, path, titles }));
}

function comeBack() {
  try {
    ({ visit, path, titles } = JSON.parse(sessionStorage.getItem("visit")));
  } catch { beginVisit(); }
}

function when(seconds) {
  if (seconds === undefined) return ", before this service began";
  if (seconds < 90) return `, ${Math.max(1, Math.round(seconds))} s ago`;
  if (seconds < 5400) return `, ${Math.round(seconds / 60)} min ago`;
  return `, ${Math.round(seconds / 3600)} h ago`;
}

function strongest(item) {
  return (item.voters || []).find((each) => each.items);
}

// Past visits were on items that no answer has named yet.
async function learnTitles(answer) {
  const ids = answer.items.flatMap((item) => strongest(item)?.items.slice(-3) || []);
  const unknown = [...new Set(ids)].filter((id) => !(id in titles));
  const items = await Promise.all(unknown.map((id) => ask("GET", `/v1/items/${encodeURIComponent(id)}`).catch(() => null)));
  for (const item of items) if (item) titles[item.item_id] = item.title;
  return items.some((item) => item && item.title);
}

function why(item) {
  if (item.memory === undefined) return null;
  const total = item.neural + item.memory;
  if (!item.sessions || item.memory <= 0) return html("small", {}, "All of it from the neural part.");
  const told = html("small", {}, `${percent(total ? item.memory / total : 0)} from memory: ${item.sessions} past ${item.sessions === 1 ? "visit" : "visits"} went on to it.`);
  const voter = strongest(item);
  if (voter) told.append(html("br"), `The strongest: ${voter.items.slice(-3).map(named).join(" → ")}${when(voter.seconds)}.`);
  return told;
}

function show(answer) {
  for (const item of answer.items) if (item.title) titles[item.item_id] = item.title;
  const best = Math.max(...answer.items.map((item) => item.score), 1e-12);
  $("offer").textContent = answer.cold ? "Popular now" : "Recommended next";
  const basis = $("basis");
  if (answer.cold) basis.replaceChildren(path.length ? "Nothing of this visit is known to the model yet." : "The visit has no clicks yet.");
  else {
    const weight = answer.weight === undefined ? "" : ` The gate gives the neural part ${percent(answer.weight)}.`;
    basis.replaceChildren(html("span", { class: "mark neural" }), "neural part ", html("span", { class: "mark memory" }), `memory.${weight}`);
  }
  const focused = document.activeElement && document.activeElement.closest("#recommended") !== null;
  $("recommended").replaceChildren(...answer.items.map((item) => {
    const parts = item.neural === undefined || answer.cold ? [item.score, 0] : [item.neural, item.memory];
    const button = html("button", { type: "button", "data-item": item.item_id },
      html("strong", {}, item.title || item.item_id),
      html("span", { class: "bar" }, bar(parts[0] / best, parts[1] / best, ["neural", "memory"])),
      answer.cold ? html("small", {}, item.category || item.item_id) : why(item));
    button.addEventListener("click", () => click(item.item_id));
    return html("li", {}, button);
  }));
  if (focused) $("recommended").querySelector("button")?.focus();
  $("path").replaceChildren(...path.map((id) => html("li", {}, named(id))));
}

// One after the other: what is clicked meanwhile waits for its turn.
function act(work) {
  turn = turn.then(async () => {
    try {
      const answer = await work();
      show(answer);
      refused("");
      if (await learnTitles(answer)) show(answer);
    } catch (error) { refused(error.message); }
  });
  return turn;
}

function click(item) {
  const address = `/v1/sessions/${encodeURIComponent(visit)}/clicks?recommend=${K}&exclude_seen=true&explain=true`;
  return act(async () => {
    const told = await ask("POST", address, { item_id: item });
    path.push(item);
    remember();
    return told.recommendations;
  });
}

function look() {
  const address = `/v1/sessions/${encodeURIComponent(visit)}/recommendations?k=${K}&exclude_seen=true&explain=true`;
  return act(() => ask("GET", address));
}

function refused(why) {
  $("refused").hidden = !why;
  $("refused").textContent = why;
}

export function openShop() {
  comeBack();
  $("afresh").addEventListener("click", () => { beginVisit(); look(); });
  $("find").addEventListener("submit", (event) => {
    event.preventDefault();
    click($("item").value.trim());
    $("item").value = "";
  });
  look();
}

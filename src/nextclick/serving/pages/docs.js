// Shows the OpenAPI document, and lets one try every request.

import { html } from "./charts.js";
import { ask, send, setKey } from "./service.js";

const $ = (id) => document.getElementById(id);
let schemas;

function resolved(schema, depth = 0) {
  if (!schema || depth > 6) return {};
  if (schema.$ref) return resolved(schemas[schema.$ref.split("/").at(-1)], depth + 1);
  return schema;
}

// An example that a schema allows.
function example(schema, depth = 0) {
  const known = resolved(schema);
  if (known.anyOf) return example(known.anyOf.find((each) => each.$ref) || known.anyOf[0], depth);
  if (known.default !== undefined && known.default !== null) return known.default;
  if (known.type === "object") {
    return Object.fromEntries(Object.entries(known.properties || {})
      .filter(([name]) => depth > 0 || (known.required || []).includes(name) || name === "items")
      .map(([name, property]) => [name, example(property, depth + 1)]));
  }
  if (known.type === "array") return known.items ? [example(known.items, depth + 1)] : [];
  return { string: "red shoes", integer: 1, number: 0.5, boolean: false }[known.type] ?? null;
}

function field(name, note) {
  const input = html("input", { name, autocomplete: "off" });
  return [html("label", {}, `${name}${note ? ` (${note})` : ""}`, input), input];
}

function trial(method, path, operation) {
  const inputs = operation.parameters.map((parameter) => {
    const { schema } = parameter;
    const [label, input] = field(parameter.name, parameter.in === "path" ? "needed" : schema.type || "");
    if (parameter.in === "path") input.value = parameter.name === "name" ? "style.css" : "red shoes";
    return { parameter, label, input };
  });
  const content = operation.requestBody && Object.entries(operation.requestBody.content)[0];
  const area = content && html("textarea", { "aria-label": "Body", spellcheck: "false" });
  if (area) area.value = content[0] === "application/json" ? JSON.stringify(example(content[1].schema), null, 1)
    : '{"session_id": "visit 1", "item_id": "red shoes"}\n';
  const told = html("pre", { "aria-live": "polite", hidden: "" });
  const form = html("form", {}, ...inputs.map(({ label }) => label), area, html("span", { class: "row" }, html("button", {}, "Try it")), told);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    let address = path;
    const query = new URLSearchParams();
    for (const { parameter, input } of inputs) {
      if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value) query.append(parameter.name, input.value);
    }
    if ([...query].length) address += `?${query}`;
    told.hidden = false;
    told.textContent = "…";
    told.textContent = await answerTo(method, address, area, content).catch((error) => error.message);
  });
  return form;
}

async function answerTo(method, address, area, content) {
  const headers = {};
  const key = sessionStorage.getItem("key");
  if (key) headers.authorization = `Bearer ${key}`;
  if (content) headers["content-type"] = content[0];
  const answer = content
    ? await fetch(address, { method, headers, body: area.value })
    : await send(method, address);
  const text = await answer.text();
  let shown = text;
  try { shown = JSON.stringify(JSON.parse(text), null, 1); } catch { /* not JSON: as it is */ }
  return `${answer.status} ${method} ${address}\n\n${shown.slice(0, 20000)}`;
}

function describe(schema) {
  const known = resolved(schema);
  return JSON.stringify(example(schema, 1), null, 1) + (known.description ? `\n\n${known.description}` : "");
}

function show(path, method, operation) {
  const answers = Object.entries(operation.responses).filter(([status]) => status !== "200");
  const good = Object.values(operation.responses["200"].content || {})[0];
  return html("details", { class: "endpoint" },
    html("summary", {}, html("span", { class: "method" }, method), html("code", {}, path), ` ${operation.summary}`),
    html("div", {},
      operation.description ? html("p", { class: "note" }, operation.description.replaceAll("`", "")) : null,
      trial(method, path, operation),
      good && good.schema ? html("p", { class: "note" }, "The answer looks like this:") : null,
      good && good.schema ? html("pre", {}, describe(good.schema)) : null,
      html("dl", { class: "facts" }, ...answers.flatMap(([status, { description }]) =>
        [html("dt", {}, status), html("dd", {}, description.replaceAll("`", ""))]))));
}

const document_ = await ask("GET", "/openapi.json");
schemas = document_.components.schemas;
$("subtitle").textContent = `version ${document_.info.version}`;
$("limits").textContent = document_.info.description.split("\n").slice(2).map((line) => line.replaceAll("`", "").slice(2)).join("\n");
$("endpoints").replaceChildren(...Object.entries(document_.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => {
    const section = show(path, method.toUpperCase(), operation);
    return html("section", { class: "endpoint" }, section);
  })));
$("unlock").addEventListener("submit", (event) => { event.preventDefault(); setKey($("key").value.trim()); });

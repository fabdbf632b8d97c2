/* Filters: all views show only the items of one folder, time or value of a column. */

import { get } from "./api.js";
import { $, count, el } from "./dom.js";
import { on, put, say, state } from "./store.js";
import { resort } from "./views.js";

let fields = null, run = "";

const option = (field, { name, values }) =>
  values.map(([value, n], place) => el("option", { value: `${field} ${place}` }, `${name}: ${value} (${count(n)})`));

function draw() {
  const groups = fields.map((field, i) => el("optgroup", { label: field.name }, option(i, field)));
  $("filter").replaceChildren(el("option", { value: "" }, "All items"), ...groups);
  $("filter").hidden = !fields.length;
}

async function load() {
  if (run === state.project.run) return;
  run = state.project.run;
  try {
    fields = await get("api/fields");
    draw();
  } catch (error) {
    say(error.message, { error: true });
  }
}

function choose() {
  const [field, place] = $("filter").value.split(" ").map(Number);
  const codes = fields[field]?.codes;
  put({ filter: $("filter").value ? (row) => codes[row] === place : null });
  $("filter").classList.toggle("on", state.filter !== null);
  resort();
}

export function init() {
  $("filter").addEventListener("change", choose);
  on("project", load);
}

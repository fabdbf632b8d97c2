/* The left part: the classes with key, mark, counts, share and expected accuracy; find, add, and change them. */

import { addClass, addClasses, labelAs } from "./actions.js";
import { editClass } from "./dialogs.js";
import { $, count, el, name, refill, settled, share } from "./dom.js";
import { keyOf, mark } from "./labels.js";
import { meant } from "./spelling.js";
import { NONE, on, state } from "./store.js";
import { show } from "./views.js";

/** Numbers of a class in columns: its items, those that you labelled, and the share expected to be right. */
function numbers(group) {
  const number = (text, title) => el("span", { class: "number", title }, text);
  const right = group.accuracy === null ? "" : share(group.accuracy);
  const wrong = group.accuracy === null ? "All its items were labelled by you" : `${right} of its items are expected to be right`;
  return [number(count(state.counts.get(group.id) || 0), "Items"), number(count(group.examples), "Labelled by you"), number(right, wrong)];
}

function row(group) {
  const key = keyOf(group);
  const shown = state.view.id === "class" && state.view.param === group.id;
  const words = { "aria-label": `Label the selection ${group.name}${key && `, key ${key}`}`, title: `Label the selection${key && `, key ${key}`}` };
  const press = { class: "key", onclick: () => labelAs(group.id), ...words };
  const label = el("button", press, mark(group.id), el("kbd", {}, key));
  const about = { "aria-current": shown ? "true" : null, "data-key": `show ${group.id}` };
  const look = el(
    "button",
    { class: "look", onclick: () => show("class", group.id), ...about },
    name(group.name),
    ...(group.needs ? [el("span", { class: "needs", title: group.needs }, "needs an example")] : numbers(group)),
  );
  const change = { "aria-label": `Change ${group.name}`, title: "Rename, key, merge, delete" };
  const edit = el("button", { class: "quiet edit", onclick: () => editClass(group), ...change }, "⋯");
  return el("li", { class: "class" }, label, look, edit);
}

function noneRow() {
  const label = el("span", { class: "key" }, mark(NONE), el("kbd", {}, "N"));
  const look = el(
    "button",
    { class: "look", onclick: () => show("none") },
    el("span", { class: "name" }, "None of these"),
    el("span", { class: "number" }, count(state.counts.get(NONE) || 0)),
    el("span", { class: "number" }),
    el("span", { class: "number" }),
  );
  return el("li", { class: "class fixed" }, label, look);
}

const matching = (text) => [...state.classes.values()].filter((group) => group.name.toLowerCase().includes(text.toLowerCase()));

function draw() {
  if (!state.project) return;
  const text = $("find-class").value.trim();
  const groups = matching(text);
  const exact = groups.some((group) => group.name === text);
  refill($("class-list"), [...groups.map(row), ...(text ? [] : [noneRow()])]);
  $("add-class").hidden = !text || exact;
  $("class-count").textContent = state.classes.size ? count(state.classes.size) : "";
  const hint = text ? `No class has “${text}” in its name. Enter adds it.` : "Type a name above, or select items and press L.";
  $("class-head").hidden = !groups.length;
  $("class-hint").textContent = hint;
  $("class-hint").hidden = text ? groups.length > 0 : state.classes.size > 0;
}

async function add(event) {
  event.preventDefault();
  const text = $("find-class").value.trim();
  if (!text) return;
  const meaning = await meant(text);
  if (!meaning) return;
  const known = [...state.classes.values()].find((group) => group.name === meaning);
  if (known) show("class", known.id);
  else if (!(await addClass(meaning))) return;
  $("find-class").value = "";
  draw();
}

/** A pasted list becomes one class a line. */
function paste(event) {
  const lines = event.clipboardData.getData("text").split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
  if (lines.length < 2) return;
  event.preventDefault();
  addClasses(lines);
}

export function init() {
  $("class-form").addEventListener("submit", add);
  $("find-class").addEventListener("input", draw);
  $("find-class").addEventListener("paste", paste);
  on("project view", draw);
  on("answers", settled(draw, 30));
}

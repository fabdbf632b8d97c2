/* The right part: the current item, its probabilities, nearest examples and history. */

import { labelAs, moveTo } from "./actions.js";
import { get } from "./api.js";
import { $, el, name, refill, settled, share } from "./dom.js";
import { badge, isHidden, mark, percentOf, shownLabel, stateWords, thumb, verdict } from "./labels.js";
import { on, state, UNREADABLE, want } from "./store.js";

let shown = null; // the details of the cursor's row, once fetched

function probabilityRow([id, p]) {
  const bar = el("i", { class: "fill" });
  bar.style.width = `${100 * p}%`;
  const group = state.classes.get(id);
  if (!group) return null;
  const props = { class: "probability", onclick: () => labelAs(id), title: `Label it ${group.name}` };
  return el("li", {}, el("button", props, mark(id), name(group.name), el("b", {}, share(p)), bar));
}

function nearestRow([row, id, cosine]) {
  const item = state.items.get(row);
  const face =
    state.project.kind === "picture"
      ? el("img", { src: thumb(row), alt: "", loading: "lazy" })
      : el("span", { class: "excerpt", dir: "auto" }, item ? item.text || item.name : `item ${row + 1}`);
  const label = state.classes.get(id)?.name ?? "";
  const near = cosine.toFixed(2);
  const props = { class: "near", onclick: () => moveTo(row), "aria-label": `Example ${label}, similarity ${near}` };
  return el("li", {}, el("button", props, face, el("span", { class: "caption" }, mark(id), name(label), el("b", {}, near))));
}

function historyRow({ time, words }) {
  const when = new Date(1000 * time);
  const short = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const clock = el("time", { dateTime: when.toISOString(), title: when.toLocaleString() }, short);
  return el("li", {}, el("span", { dir: "auto" }, words), " ", clock);
}

/** The classes worth reading: the first three, and all above half a percent. */
const likely = (probabilities) => (probabilities.length < 2 ? [] : probabilities.filter(([, p], place) => place < 3 || p >= 0.005));

const part = (title, rows, className) =>
  rows.length ? [el("h3", {}, title), el("ul", { class: className }, rows)] : [];

function face(row) {
  if (state.flags[row] & UNREADABLE) return el("p", { class: "problem" }, shown.problem || "This item cannot be read.");
  if (state.project.kind === "picture") return el("img", { src: `api/picture/${row}?v=${state.project.run}`, alt: shown.name });
  return shown.text ? el("p", { class: "whole", dir: "auto" }, shown.text) : null;
}

function draw() {
  const row = state.cursor;
  $("item-empty").hidden = row >= 0;
  $("item-body").hidden = row < 0 || !shown;
  if (row < 0 || !shown || shown.row !== row) return;
  const words = [percentOf(row), stateWords(row), verdict(row) && `answer ${verdict(row)}`].filter(Boolean).join(" · ");
  const picture = $("item-face").dataset.row === String(row) ? $("item-face").firstChild : face(row);
  $("item-face").dataset.row = row;
  $("item-face").replaceChildren(...(picture ? [picture] : []));
  $("item-name").replaceChildren(name(shown.name));
  $("item-label").replaceChildren(badge(shownLabel(row)), el("span", { class: "muted" }, words));
  const why = isHidden(row) ? [] : [
    ...part("Probabilities", likely(shown.probabilities).map(probabilityRow).filter(Boolean)),
    ...part("Nearest examples", shown.nearest.map(nearestRow), "nearest"),
  ];
  refill($("item-more"), [...why, ...part("History", shown.history.map(historyRow), "history")]);
}

async function load() {
  const row = state.cursor;
  if (row < 0) return draw();
  const details = await get(`api/item/${row}`).catch(() => null);
  if (row !== state.cursor || !details) return;
  shown = details;
  if (state.project.kind !== "picture") want(shown.nearest.map(([near]) => near));
  draw();
}

export function init() {
  const reload = settled(load, 60); // while arrows run, only where they stop
  let last = -1;
  on("selection", () => {
    if (state.cursor === last) return;
    last = state.cursor;
    reload();
  });
  on("answers", () => {
    draw();
    settledReload();
  });
  on("project items view", draw);
  const settledReload = settled(load, 250);
}

/* The right part: the current item, its probabilities, nearest examples and history. */

import { clear, confirm, labelAs, moveTo, noneOfThese } from "./actions.js";
import { get } from "./api.js";
import { button } from "./dialog.js";
import { $, count, el, name, refill, sentence, settled, share } from "./dom.js";
import { isSplit, matesOf, sizeOf } from "./events.js";
import { badge, isHidden, mark, shownLabel, stateWords, thumb, verdict } from "./labels.js";
import { on, state, UNREADABLE, want } from "./store.js";
import { look } from "./viewer.js";
import { show, splitEvents } from "./views.js";

let shown = null; // the details of the cursor's row, once fetched

function probabilityRow([id, p]) {
  const bar = el("i", { class: "fill" });
  bar.style.width = `${100 * p}%`;
  const group = state.classes.get(id);
  if (!group) return null;
  const props = { class: "probability", onclick: () => labelAs(id), title: `Label it ${group.name}` };
  return el("li", {}, el("button", props, mark(id), name(group.name), el("b", {}, share(p)), bar));
}

function nearestRow([row, id]) {
  const item = state.items.get(row);
  const face =
    state.project.shows === "image"
      ? el("img", { src: thumb(row), alt: "", loading: "lazy" })
      : el("span", { class: "excerpt", dir: "auto" }, item ? item.text || item.name : `item ${row + 1}`);
  const label = state.classes.get(id)?.name ?? "";
  const props = { class: "near", onclick: () => moveTo(row), "aria-label": state.project.shows === "image" ? `Example of ${label}` : null };
  return el("li", {}, el("button", props, face, el("span", { class: "caption" }, mark(id), name(label))));
}

const cell = ([column, value]) => el("div", { class: "fact" }, el("dt", {}, column), el("dd", { dir: "auto" }, value));

/** Walk along the view, one item at a time; what a phone has instead of arrow keys. */
function step(by) {
  const { place, order } = state.view;
  const row = order[(place[state.cursor] ?? -1) + by];
  if (row !== undefined) moveTo(row);
}

/** All that can be done with one item, for fingers: the likeliest classes first. */
function drawActs(row) {
  const { place, order } = state.view, at = place[row] ?? -1;
  const ranked = isHidden(row) ? [] : shown.probabilities.map(([id]) => id).filter((id) => state.classes.has(id));
  const ids = [...new Set([...ranked, ...state.classes.keys()])].slice(0, 40);
  const chip = (id) => el("button", { class: "chip", type: "button", onclick: () => labelAs(id) }, mark(id), name(state.classes.get(id).name));
  const walk = [
    el("button", { type: "button", onclick: () => step(-1), disabled: at < 1, "aria-label": "Previous item" }, "‹"),
    el("span", { class: "muted" }, at < 0 ? "" : `${count(at + 1)} of ${count(order.length)}`),
    el("button", { type: "button", onclick: () => step(1), disabled: at < 0 || at + 1 >= order.length, "aria-label": "Next item" }, "›"),
  ];
  refill($("item-acts"), [
    el("div", { class: "walk" }, walk),
    el("div", { class: "chips" }, ids.map(chip)),
    el("div", { class: "walk" }, button("Confirm", confirm), button("None of these", noneOfThese), button("Clear", clear)),
  ]);
}

function historyRow({ time, words }) {
  const when = new Date(1000 * time);
  const short = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const clock = el("time", { dateTime: when.toISOString(), title: when.toLocaleString() }, short);
  return el("li", {}, el("span", { dir: "auto" }, sentence(words.replace(" 1 item", ""))), " ", clock);
}

/** The classes worth reading: the first three, and all above half a percent. */
const likely = (probabilities) => (probabilities.length < 2 ? [] : probabilities.filter(([, p], place) => place < 3 || p >= 0.005));

const part = (title, rows, className) =>
  rows.length ? [el("h3", {}, title), el("ul", { class: className }, rows)] : [];

const player = (row) => el("audio", { src: `api/sound/${row}`, controls: true, preload: "none", "aria-label": `Play ${shown.name}` });

/** Play the current item from its beginning, or stop it. */
export function play() {
  const audio = $("item-face").querySelector("audio");
  if (!audio) return;
  if (!audio.paused) return audio.pause();
  audio.currentTime = 0;
  audio.play().catch(() => {}); // the player itself shows what cannot be played
}

function face(row) {
  if (state.flags[row] & UNREADABLE) return el("p", { class: "problem" }, shown.problem || "This item cannot be read.");
  if (state.project.shows === "image") {
    const image = el("img", { src: `api/picture/${row}?v=${state.project.run}`, alt: shown.name });
    const large = el("button", { type: "button", class: "large", onclick: () => look([row]), title: "Look at it large: zoom and move", "aria-label": `Look at ${shown.name} large` }, image);
    return state.project.plays ? el("div", { class: "played" }, large, player(row)) : large;
  }
  return shown.text ? el("p", { class: "whole", dir: "auto" }, shown.text) : null;
}

function draw() {
  const row = state.cursor;
  $("item-empty").hidden = row >= 0;
  $("item-body").hidden = row < 0 || !shown;
  if (row < 0 || !shown || shown.row !== row) return;
  const words = [stateWords(row), verdict(row) && `answer ${verdict(row)}`].filter(Boolean).join(" · ");
  const picture = $("item-face").dataset.row === String(row) ? $("item-face").firstChild : face(row);
  $("item-face").dataset.row = row;
  $("item-face").replaceChildren(...(picture ? [picture] : []));
  $("item-name").replaceChildren(name(shown.name));
  $("item-label").replaceChildren(badge(shownLabel(row)), el("span", { class: "muted" }, words));
  const why = isHidden(row) ? [] : [
    ...part("It looks like", likely(shown.probabilities).map(probabilityRow).filter(Boolean)),
    ...part("Your examples most like it", shown.nearest.map(nearestRow), "nearest"),
  ];
  const cells = shown.columns.length ? [el("h3", {}, "In the table"), el("dl", {}, shown.columns.map(cell))] : [];
  const alike = button("Show items like this one", () => show("like", row));
  refill($("item-more"), [...eventParts(row), ...why, el("p", { class: "alike" }, alike), ...cells, ...part("History", shown.history.map(historyRow), "history")]);
  drawActs(row);
}

/** The pictures of an event as a strip, and the way to take it apart; nothing for an item by itself. */
function eventParts(row) {
  if (state.project.shows !== "image" || sizeOf(row) < 2) return [];
  const frames = matesOf(row).map((mate) => el("li", {}, el("img", { src: thumb(mate), alt: "", loading: "lazy" })));
  const words = isSplit(row) ? "Join the event’s pictures again" : "Split the event into its pictures";
  const strip = isSplit(row) ? [] : [el("h3", {}, `Event of ${count(frames.length)} pictures, labelled together`), el("ul", { class: "frames" }, frames)];
  return [...strip, el("p", { class: "alike" }, button(words, splitEvents))];
}

async function load() {
  const row = state.cursor;
  if (row < 0) return draw();
  const details = await get(`api/item/${row}`).catch(() => null);
  if (row !== state.cursor || !details) return;
  shown = details;
  if (state.project.shows !== "image") want(shown.nearest.map(([near]) => near));
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

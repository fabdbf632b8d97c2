/* How a label looks and is called: key, colour, shape, words. */

import { el, name, share } from "./dom.js";
import { ACCEPTED, CHECKED, FOREIGN, NONE, READY, state, UNANSWERED, UNREADABLE } from "./store.js";

export const N_COLOURS = 7;
const N_SHAPES = 8;
// 1 to 9, then the letters that no command uses (L label as, N none, R re-sort, U undo).
const CLASS_KEYS = "123456789abcdefghijkmopqstvwxyz";

export const keyOf = (group) => CLASS_KEYS[group.index] || "";
export const classOfKey = (key) => [...state.classes.values()][CLASS_KEYS.indexOf(key)];

/** Neighbours in the list differ in colour and in shape; a pair repeats after 56 classes. */
export const colourOf = (id) => id % N_COLOURS;
export const shapeOf = (id) => id % N_SHAPES;

export function markClass(label) {
  if (label === NONE) return "mark none";
  if (label === UNANSWERED || !state.classes.has(label)) return "mark open";
  return `mark k${colourOf(label)} s${shapeOf(label)}`;
}

export const mark = (label) => el("i", { class: markClass(label), "aria-hidden": "true" });

export function labelName(label) {
  if (label === NONE) return "none of these";
  return state.classes.get(label)?.name ?? "";
}

/** Mark and name, as one inline thing. */
export const badge = (label) => el("span", { class: "badge" }, mark(label), name(labelName(label) || "not labelled"));

export function percentOf(row) {
  return state.label[row] === UNANSWERED || state.label[row] === NONE ? "" : share(state.confidence[row] / 255);
}

/** Address of an item's small picture; the run's mark lets the browser keep it. */
export const thumb = (row) => `/api/thumb/${row}?v=${state.project.run}`;

export function stateWords(flags) {
  if (flags & UNREADABLE) return "cannot be read";
  if (flags & CHECKED) return "given by you";
  if (flags & ACCEPTED) return "accepted in bulk";
  if (flags & FOREIGN) return "looks like none of the classes";
  return flags & READY ? "" : "not read yet";
}

/** What a screen reader says of an item: its name, its label and the probability of the label. */
export function spoken(row) {
  const item = state.items.get(row);
  const called = item ? item.text || item.name : `item ${row + 1}`;
  const label = labelName(state.label[row]) || "not labelled";
  return [called, label, percentOf(row), stateWords(state.flags[row])].filter(Boolean).join(", ");
}

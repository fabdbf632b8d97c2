/* How a label looks and is called: key, colour, shape, words. */

import { el, name, percent } from "./dom.js";
import { matesOf } from "./events.js";
import { ACCEPTED, CHECKED, FOREIGN, GIVEN, NONE, READY, state, UNANSWERED, UNREADABLE } from "./store.js";

export const N_COLOURS = 7;
const N_SHAPES = 8;

/** A class keeps its key when others are deleted; the session knows it. */
export const keyOf = (group) => group.key.toUpperCase();
export const classOfKey = (key) => [...state.classes.values()].find((group) => group.key && group.key === key);

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

/** In an audit an answer is hidden until the person has said theirs: to see it would bias them. */
export const isHidden = (row) => state.view.id === "audit" && !(state.flags[row] & GIVEN) && drawn(row) >= 0;

/** Place of a row in the sample of the audit; -1 where it is not in it, or nothing was drawn. */
const drawn = (row) => state.project?.audit?.rows.indexOf(row) ?? -1;

export const shownLabel = (row) => (isHidden(row) ? UNANSWERED : state.label[row]);

/** Probability of the label shown, in whole percents that are never 100; none where a person gave it. */
export function percentOf(row) {
  const label = shownLabel(row);
  return label === UNANSWERED || label === NONE || state.flags[row] & CHECKED ? "" : percent(Math.min(state.confidence[row] / 255, 0.99));
}

/** In an audit, once the person has said theirs: the answer that the item had. */
export function verdict(row) {
  if (state.view.id !== "audit" || isHidden(row) || drawn(row) < 0) return "";
  const guess = state.project.audit.answered[drawn(row)];
  return guess === state.label[row] ? "was right" : `was ${labelName(guess) || "a class that is gone"}`;
}

/** Address of an item's small picture; the run's mark lets the browser keep it. */
export const thumb = (row) => `api/thumb/${row}?v=${state.project.run}`;

export function stateWords(row) {
  const flags = state.flags[row];
  if (isHidden(row)) return "answer hidden";
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
  const label = labelName(shownLabel(row)) || "not labelled";
  const n = matesOf(row).length;
  return [called, n > 1 ? `event of ${n} pictures` : "", label, percentOf(row), verdict(row), stateWords(row)].filter(Boolean).join(", ");
}

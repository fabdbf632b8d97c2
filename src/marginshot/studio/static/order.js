/* The order of items in a view, from the answers: {order, sections}. Pure, and linear in the number of items. */

import { FOREIGN, GIVEN, NONE, SAID_NONE, state, UNANSWERED, UNREADABLE } from "./store.js";

/** Rows by ascending confidence, ties by row: a counting sort, since there are 256 values. */
function byDoubt(rows) {
  const starts = new Uint32Array(257);
  for (const row of rows) starts[state.confidence[row] + 1]++;
  for (let value = 0; value < 256; value++) starts[value + 1] += starts[value];
  const sorted = new Int32Array(rows.length);
  for (const row of rows) sorted[starts[state.confidence[row]]++] = row;
  return sorted;
}

function rowsWhere(test) {
  const rows = new Int32Array(state.n);
  let n = 0;
  for (let row = 0; row < state.n; row++) if (test(row)) rows[n++] = row;
  return rows.subarray(0, n);
}

/** Join parts [{title, label?, rows, …}] to one order; empty parts are left out. */
export function joined(parts) {
  const filled = parts.filter((part) => part.rows.length);
  const order = new Int32Array(filled.reduce((sum, part) => sum + part.rows.length, 0));
  let start = 0;
  const sections = filled.map(({ rows, ...section }) => {
    order.set(rows, start);
    start += rows.length;
    return { ...section, start: start - rows.length, stop: start };
  });
  return { order, sections };
}

const UNREAD = -1;

/** Answers may arrive before the project: a class not heard of yet labels nothing. */
function labelOf(row) {
  const label = state.label[row];
  return label === NONE || state.classes.has(label) ? label : UNANSWERED;
}

/** How many of the items that can be read have an answer: 0 none, 1 some, 2 all. */
export function answered() {
  const open = rowsWhere((row) => !(state.flags[row] & (GIVEN | UNREADABLE)));
  const has = (row) => labelOf(row) !== UNANSWERED;
  return open.some(has) ? 1 + open.every(has) : 0;
}

/** All rows in groups: not labelled, each class, none of these, unreadable; within a class the doubtful first. */
export function grouped(rows) {
  const groups = new Map();
  for (const row of byDoubt(rows)) {
    const key = state.flags[row] & UNREADABLE ? UNREAD : labelOf(row);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(row);
  }
  const part = (key, title) => ({ title, label: key, rows: groups.get(key) || [] });
  return joined([
    part(UNANSWERED, "Not labelled yet"),
    ...[...state.classes.values()].map((group) => part(group.id, group.name)),
    part(NONE, "None of these"),
    { ...part(UNREAD, "Cannot be read"), label: UNANSWERED },
  ]);
}

export const everything = () => grouped(rowsWhere(() => true));

export const oneClass = (id) =>
  joined([{ title: state.classes.get(id)?.name ?? "", label: id, rows: byDoubt(rowsWhere((row) => state.label[row] === id)) }]);

/** The least certain first; what a person has given and what has no answer comes last. */
export function doubtful() {
  const open = (row) => !(state.flags[row] & GIVEN) && state.label[row] !== UNANSWERED;
  return joined([
    { title: "Least certain first", rows: byDoubt(rowsWhere(open)) },
    { title: "Given, or without an answer", rows: rowsWhere((row) => !open(row)) },
  ]);
}

/** Proposed groups, then what was said to be none, then what only looks like it. */
export function noneOfThese(groups) {
  const proposed = new Set(groups.flatMap((group) => group.rows));
  return joined([
    ...groups.map((group, i) => ({ title: `Proposed group ${i + 1}`, rows: group.rows, proposal: i })),
    { title: "You said: none of these", label: NONE, rows: rowsWhere((row) => state.flags[row] & SAID_NONE && !proposed.has(row)) },
    {
      title: "Look like none of the classes",
      rows: byDoubt(rowsWhere((row) => state.flags[row] & FOREIGN && !(state.flags[row] & GIVEN) && !proposed.has(row))),
    },
  ]);
}

/** A view without the rows that a filter hides. */
export function filtered(view, shows) {
  if (!shows) return view;
  return { ...view, ...joined(view.sections.map(({ start, stop, ...section }) => ({ ...section, rows: view.order.subarray(start, stop).filter(shows) }))) };
}

export function placesOf(order, n) {
  const place = new Int32Array(n).fill(-1);
  order.forEach((row, i) => (place[row] = i));
  return place;
}

/** For every row the number of its section's title and its place within the section; -1 where it is not in the view. */
function homes({ order, sections }, numbers) {
  const section = new Int32Array(state.n).fill(-1), place = new Int32Array(state.n);
  for (const { title, start, stop } of sections) {
    if (!numbers.has(title)) numbers.set(title, numbers.size);
    const number = numbers.get(title);
    for (let at = start; at < stop; at++) {
      section[order[at]] = number;
      place[order[at]] = at - start;
    }
  }
  return { section, place };
}

/** How many rows would be in another section, or at least `far` places away within it, in the new order. */
export function moved(view, fresh, far) {
  const numbers = new Map();
  const before = homes(view, numbers), after = homes(fresh, numbers);
  let n = 0;
  for (let row = 0; row < state.n; row++) {
    if (before.section[row] !== after.section[row] || Math.abs(before.place[row] - after.place[row]) >= far) n++;
  }
  return n;
}

/* Events: pictures that one camera took shortly after each other are one cell, a strip, until somebody splits it. */

import { together } from "./api.js";
import { joined } from "./order.js";
import { say, state } from "./store.js";

let numbers = new Int32Array(0); // of the event of every row; none where every row is its own
const split = new Set(); // events that are shown picture by picture
let run = "";

/** Ask for the events of this run; resolves to whether there are any. */
export async function load() {
  if (run === state.project.run) return false;
  run = state.project.run;
  split.clear();
  numbers = await together().catch((error) => (say(error.message, { error: true }), new Int32Array(0)));
  return numbers.length > 0;
}

/** A view with one cell an event in each section: its first row stands for the others there. */
export function merged(view) {
  const mates = new Map();
  if (numbers.length !== state.n) return { ...view, mates };
  const parts = view.sections.map(({ start, stop, ...section }) => {
    const leads = new Map(), rows = [];
    for (const row of view.order.subarray(start, stop)) {
      const event = numbers[row], lead = leads.get(event);
      if (lead === undefined || split.has(event)) rows.push(row);
      else mates.set(lead, [...(mates.get(lead) ?? [lead]), row]);
      if (lead === undefined) leads.set(event, row);
    }
    return { ...section, rows: Int32Array.from(rows) };
  });
  for (const rows of mates.values()) rows.sort((a, b) => a - b); // as they were taken
  return { ...view, ...joined(parts), mates };
}

/** The rows that a cell stands for, in the order in which they were taken. */
export const matesOf = (row) => state.view.mates?.get(row) ?? [row];

/** Number of pictures of the row's event in all views; 1 where it is alone. */
export const sizeOf = (row) => (numbers.length ? numbers.reduce((n, event) => n + (event === numbers[row]), 0) : 1);

export const isSplit = (row) => split.has(numbers[row]);

/** Show the events of these rows picture by picture, or as strips again. */
export function toggleSplit(rows) {
  const events = new Set(rows.filter((row) => sizeOf(row) > 1).map((row) => numbers[row]));
  const apart = [...events].every((event) => split.has(event));
  for (const event of events) {
    if (apart) split.delete(event);
    else split.add(event);
  }
  return events.size > 0;
}

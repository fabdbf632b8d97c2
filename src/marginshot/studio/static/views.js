/* Which items the middle shows, in which order. A view is a snapshot: once touched, it changes only when asked. */

import { get } from "./api.js";
import { percent, settled } from "./dom.js";
import * as events from "./events.js";
import * as grid from "./grid.js";
import { recall, remember } from "./memory.js";
import { answered, doubtful, everything, filtered, grouped, joined, moved, noneOfThese, oneClass, placesOf } from "./order.js";
import { on, put, say, state, tell } from "./store.js";

const list = (title, rows) => joined([{ title, rows: Int32Array.from(rows) }]);

export const BATCH = 12; // items to label next at once

/** Share of all items that are to be right. */
export const target = () => recall().target ?? 0.95;
/** "95 %", "99.5 %" */
export const targetWords = () => percent(target(), Math.round(1000 * target()) % 10 ? 1 : 0);

async function worklist(wanted = target()) {
  remember({ target: wanted });
  if (!state.project.expected) return { ...list("", []), target: wanted, reached: false, expected: [] };
  const { rows, reached, expected } = await get(`api/worklist?target=${wanted}`);
  return { ...list("The answers most likely wrong", rows), target: wanted, reached, expected };
}

function audit() {
  const drawn = state.project.audit;
  return list("Random sample", drawn ? drawn.rows : []);
}

async function none() {
  const groups = await get("api/groups");
  return { ...noneOfThese(groups), groups };
}

/** Labels that look wrong, by the class that the other labels make of the item. */
async function doubted() {
  const rows = new Map();
  for (const { row, other } of await get("api/doubts")) rows.set(other, [...(rows.get(other) ?? []), row]);
  return joined([...rows].map(([id, found]) => ({ title: `By the other labels: ${state.classes.get(id)?.name ?? ""}`, rows: Int32Array.from(found) })));
}

/** Items that hold the words of a query, then those that are like it in meaning where the encoder reads words. */
async function search(query) {
  const q = encodeURIComponent(query);
  const isCode = /\d/.test(query) && !query.includes(" "); // an id means nothing
  const [found, meant] = await Promise.all([get(`api/search?q=${q}`), state.project.reads_words && !isCode ? get(`api/meaning?q=${q}`) : []]);
  const there = new Set(found);
  return joined([
    { title: `Found: ${query}`, rows: Int32Array.from(found) },
    { title: `Like “${query}” in meaning`, rows: Int32Array.from(meant.filter((row) => !there.has(row))) },
  ]);
}

/** `live` views can say at any time how they would be ordered now; the others are asked of the server. `step`s are lists over all items, whatever is filtered. */
const VIEWS = {
  classes: { title: "By class", build: everything, live: true },
  doubt: { title: "By doubt", build: doubtful, live: true },
  next: { title: "Label next", step: true, build: async () => list("Label these next", await get(`api/next?n=${BATCH}`)) },
  worklist: { title: "Check list", step: true, build: worklist },
  audit: { title: "Random check", step: true, build: audit },
  changed: { title: "Changed", build: () => grouped(state.changed) },
  none: { title: "None of these", build: none },
  map: { title: "Map", build: () => joined([]) },
  class: { title: "One class", build: oneClass, live: true },
  search: { title: "Search", build: search },
  like: { title: "Like this one", build: async (row) => list("Most alike first", await get(`api/like?rows=${row}`)) },
  new: { title: "New", build: async () => list("New since last time", await get("api/new")) },
  doubted: { title: "Labels that look wrong", step: true, build: doubted },
  unlike: { title: "Unlike the examples", step: true, build: async () => list("Unlike all your examples", await get("api/unlike")) },
  selected: { title: "Selected", build: (rows) => grouped(rows) },
};

/** Ways to look, which have a tab of their own; the others are steps, or entered from a class, an item or the search box. */
export const TABS = ["classes", "doubt", "none", "map", "changed", "new"];
/** Views that a page opens with again; the others depend on what was selected or typed. */
const LASTING = [...TABS, "next", "worklist", "audit"];
export const titleOf = (id) => VIEWS[id].title;
export const ignoresFilter = ({ id }) => state.filter !== null && Boolean(VIEWS[id].step);

/** A key acts on the selection: what a new view does not show is no longer selected. The map shows everything. */
function forgetHidden() {
  const seen = [...state.selection].filter((row) => state.view.place[row] >= 0);
  if (seen.length === state.selection.size) return;
  put({ selection: new Set(seen) });
  tell("selection");
}

const SLOW = 300; // milliseconds after which a view that the server still computes is announced
let asked = 0, ended = 0;

/** Show a view; on a phone the page turns to it, unless it is only sorted anew. */
export async function show(id, param, turn = true) {
  const mine = ++asked;
  const waiting = setTimeout(() => say(`${titleOf(id)}: waiting for the answers …`), SLOW);
  try {
    const built = events.merged(filtered(await VIEWS[id].build(param), VIEWS[id].step ? null : state.filter));
    if (mine !== asked) return; // another view was asked for meanwhile
    if (state.status.words.startsWith(`${titleOf(id)}: `)) say("");
    put({ view: { id, param, ...built, place: placesOf(built.order, state.n), answered: answered(), moved: 0 } });
    if (state.view.place[state.cursor] === undefined || state.view.place[state.cursor] < 0) put({ anchor: -1 });
    if (id !== "map") forgetHidden();
    if (LASTING.includes(id)) remember({ view: id });
    tell("view");
    if (turn) tell("turn");
  } catch (error) {
    say(error.message, { error: true });
  } finally {
    clearTimeout(waiting);
    if (mine === asked) ended = mine;
  }
}

/** Build the present view anew. */
export const resort = () => show(state.view.id, state.view.param, false);

const countMoved = settled(() => {
  const { view } = state;
  if (!VIEWS[view.id].live) return;
  const fresh = events.merged(filtered(VIEWS[view.id].build(view.param), state.filter));
  view.moved = moved(view, fresh, grid.perScreen());
  tell("status");
}, 120);

/** Show the events of the selection picture by picture, or as strips again. */
export function splitEvents() {
  const rows = state.selection.size ? [...state.selection] : [state.cursor].filter((row) => row >= 0);
  if (events.toggleSplit(rows)) resort();
  else say("There is no event to split here: each of these pictures is by itself.", { error: true });
}

on("project", async () => (await events.load()) && resort());

/** Nobody has looked at an item or scrolled: nobody loses their place. */
const untouched = () => state.cursor < 0 && !grid.isScrolled();

let restored = false; // the view that the page had when it was last closed

/** The first answers sort an untouched view, and once more when all items have answers. */
on("answers project", () => {
  const { id, order, answered: before } = state.view;
  if (!state.n || !state.project) return;
  if (!restored) {
    restored = true;
    const last = recall().view;
    if (last && last !== id && VIEWS[last]) {
      show(last, undefined, false);
      return;
    }
  }
  if (!VIEWS[id].live || asked !== ended) return;
  if (!order.length || (untouched() && answered() > before)) resort();
  else countMoved();
});

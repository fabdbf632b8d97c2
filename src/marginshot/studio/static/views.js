/* Which items the middle shows, in which order. A view is a snapshot: once touched, it changes only when asked. */

import { get } from "./api.js";
import { settled } from "./dom.js";
import * as grid from "./grid.js";
import { answered, doubtful, everything, grouped, joined, moved, noneOfThese, oneClass, placesOf } from "./order.js";
import { on, say, state, tell } from "./store.js";

const list = (title, rows) => joined([{ title, rows: Int32Array.from(rows) }]);

async function worklist(target = 0.95) {
  const { rows, reached, expected } = await get(`api/worklist?target=${target}`);
  return { ...list(`To be ${Math.round(100 * target)} % right, check these`, rows), target, reached, expected };
}

function audit() {
  const drawn = state.project.audit;
  return list("Random sample", drawn ? drawn.rows : []);
}

async function none() {
  const groups = await get("api/groups");
  return { ...noneOfThese(groups), groups };
}

/** `live` views can say at any time how they would be ordered now; the others are asked of the server. */
const VIEWS = {
  classes: { title: "By class", build: everything, live: true },
  doubt: { title: "By doubt", build: doubtful, live: true },
  next: { title: "Next", build: async () => list("Label these next", await get("api/next?n=40")) },
  worklist: { title: "Worklist", build: worklist },
  audit: { title: "Audit", build: audit },
  changed: { title: "Changed", build: () => grouped(state.changed) },
  none: { title: "None of these", build: none },
  map: { title: "Map", build: () => joined([]) },
  class: { title: "One class", build: oneClass, live: true },
  search: {
    title: "Search",
    build: async (query) => list(`Found: ${query}`, await get(`api/search?q=${encodeURIComponent(query)}`)),
  },
  selected: { title: "Selected", build: (rows) => grouped(rows) },
};

/** Views with a tab of their own; the others are entered from a class, the search box or the map. */
export const TABS = ["classes", "doubt", "next", "worklist", "audit", "changed", "none", "map"];
export const titleOf = (id) => VIEWS[id].title;

/** A key acts on the selection: what a new view does not show is no longer selected. The map shows everything. */
function forgetHidden() {
  const seen = [...state.selection].filter((row) => state.view.place[row] >= 0);
  if (seen.length === state.selection.size) return;
  state.selection = new Set(seen);
  tell("selection");
}

const SLOW = 300; // milliseconds after which a view that the server still computes is announced
let asked = 0, ended = 0;

/** Show a view; on a phone the page turns to it, unless it is only sorted anew. */
export async function show(id, param, turn = true) {
  const mine = ++asked;
  const waiting = setTimeout(() => say(`${titleOf(id)}: waiting for the answers …`), SLOW);
  try {
    const built = await VIEWS[id].build(param);
    if (mine !== asked) return; // another view was asked for meanwhile
    if (state.status.words.startsWith(`${titleOf(id)}: `)) say("");
    state.view = { id, param, ...built, place: placesOf(built.order, state.n), answered: answered(), moved: 0 };
    if (state.view.place[state.cursor] === undefined || state.view.place[state.cursor] < 0) state.anchor = -1;
    if (id !== "map") forgetHidden();
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
  const fresh = VIEWS[view.id].build(view.param);
  view.moved = moved(view, fresh, grid.perScreen());
  tell("status");
}, 120);

/** Nobody has looked at an item or scrolled: nobody loses their place. */
const untouched = () => state.cursor < 0 && !grid.isScrolled();

/** The first answers sort an untouched view, and once more when all items have answers. */
on("answers project", () => {
  const { id, order, answered: before } = state.view;
  if (!VIEWS[id].live || !state.n || asked !== ended) return;
  if (!order.length || (untouched() && answered() > before)) resort();
  else countMoved();
});

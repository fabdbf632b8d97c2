/* The keyboard. Arrows only move; letters and digits are classes; the commands are in the help, from this same table. */

import * as actions from "./actions.js";
import { isOpen } from "./dialog.js";
import { $ } from "./dom.js";
import * as grid from "./grid.js";
import { play } from "./item.js";
import { classOfKey } from "./labels.js";
import { range, toggle } from "./select.js";
import { state } from "./store.js";
import { look } from "./viewer.js";
import { resort, splitEvents } from "./views.js";

export const HELP = [
  ["1 … 9, a … z", "Label the selection with the class of that key, and go on to the next item"],
  ["L", "Label as …: type a name, of a class or of a new one"],
  [".", "Do the next step that is recommended"],
  ["Enter", "Confirm the labels shown"],
  ["N", "None of these"],
  ["Delete", "Remove the label"],
  ["U or Ctrl Z", "Undo; works for bulk acts and after a restart too"],
  ["Ctrl Shift Z", "Redo"],
  ["← → ↑ ↓", "Move; with Shift extend the selection, with Ctrl keep it"],
  ["Page ↑ ↓, Home, End", "Move far"],
  ["[ and ]", "Previous and next group"],
  ["Space", "Select or deselect this item"],
  ["Ctrl A", "Select all of the view"],
  ["Esc", "Select nothing"],
  ["+", "The picture large; with two selected, both side by side"],
  [",", "Play the sound, or stop it"],
  ["−", "Split an event into its pictures, or join them again"],
  ["R", "Sort again, or ask for a new list"],
  ["On the map", "Arrows move a frame, with Shift they change its size; Enter selects what is in it; + and − zoom"],
  ["/", "Search"],
  ["?", "This help"],
];

const MOVES = {
  ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down",
  PageUp: "pageup", PageDown: "pagedown", Home: "home", End: "end", "[": "[", "]": "]",
};

function move(event) {
  const { order, place } = state.view;
  if (!order.length) return;
  const here = state.cursor >= 0 ? place[state.cursor] : -1;
  const row = order[grid.step(here, MOVES[event.key])];
  if (event.ctrlKey || event.metaKey) actions.select(state.selection, row, state.anchor);
  else if (event.shiftKey && place[state.anchor] >= 0) actions.select(range(state.anchor, row), row, state.anchor);
  else actions.select([row], row);
  grid.reveal(row);
}

const COMMANDS = {
  l: () => $("label-as").focus(),
  n: actions.noneOfThese,
  u: actions.undo,
  r: resort,
  Delete: actions.clear,
  Backspace: actions.clear,
  Escape: () => actions.select([]),
  ",": play,
  ".": () => $("advice-buttons").querySelector("button")?.click(),
  "-": splitEvents,
  "+": () => look(state.selection.size === 2 ? [...state.selection] : [state.cursor].filter((row) => row >= 0)),
  "/": () => $("search").focus(),
  "?": () => $("help").click(),
};

const WITH_CONTROL = {
  z: actions.undo,
  Z: actions.redo,
  y: actions.redo,
  a: () => actions.selectAll(),
};

const IN_GRID = { Enter: actions.confirm, " ": () => state.cursor >= 0 && toggle(state.cursor) };

function commandOf(event, inGrid) {
  const control = event.ctrlKey || event.metaKey;
  if (MOVES[event.key]) return inGrid || "[]".includes(event.key) ? () => move(event) : null;
  if (control) return WITH_CONTROL[event.key];
  if (inGrid && IN_GRID[event.key]) return IN_GRID[event.key];
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (COMMANDS[key]) return COMMANDS[key];
  const group = classOfKey(key);
  return group && key.length === 1 ? () => actions.labelAs(group.id) : null;
}

export function init() {
  document.addEventListener("keydown", (event) => {
    if (isOpen()) return; // what is behind a dialog is out of reach, wherever the focus is
    const typing = event.target.matches("input, textarea, select");
    if (typing || event.altKey || event.isComposing || event.repeat && !MOVES[event.key]) return;
    const inGrid = event.target === document.body || event.target === $("grid");
    const command = commandOf(event, inGrid);
    if (!command) return;
    event.preventDefault();
    command();
  });
}

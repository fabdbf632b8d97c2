/* Acts on items and classes. Each is shown at once, then sent; the answers of the server follow. */

import { post } from "./api.js";
import { items, labels, sentence } from "./dom.js";
import * as grid from "./grid.js";
import { isHidden, shownLabel } from "./labels.js";
import { anticipate, CHECKED, fetchProject, NONE, SAID_NONE, say, state, tell, UNANSWERED, withdraw } from "./store.js";

let queue = Promise.resolve(); // acts reach the server in the order in which they were done
const past = []; // selections before the acts that hold, so that undo gives them back
const undone = [];

async function send(action, body, shown, note, before) {
  try {
    const { version, words } = await post("api/act", { action, ...body });
    if (action === "undo") undone.push(past.pop());
    else past.push(action === "redo" ? undone.pop() : before);
    if (shown) shown.version = version;
    state.newest = Math.max(state.newest, version);
    fetchProject();
    say(words ? sentence(words) : "", { note, changed: state.version >= version ? state.changed.length : null });
    return true;
  } catch (error) {
    if (shown) withdraw(shown);
    say(error.message, { error: true });
    return false;
  }
}

/** Send one act; resolves to whether the server took it. `late` adds what is known only once earlier acts are sent. */
function act(action, body = {}, { entry, late = () => ({}), note = "", before = body.rows } = {}) {
  before &&= { rows: before, cursor: state.cursor };
  const shown = entry && anticipate({ version: null, ...entry });
  const sent = queue.then(() => send(action, { ...body, ...late() }, shown, note, before));
  queue = sent;
  return sent;
}

export function select(rows, cursor = state.cursor, anchor = cursor) {
  Object.assign(state, { selection: new Set(rows), cursor, anchor });
  tell("selection");
}

/** Look at a row and select it alone. */
export function moveTo(row) {
  select([row], row);
  grid.reveal(row);
}

/** The rows an act is about: the selection, else the item that is looked at. */
function targets() {
  if (state.selection.size) return [...state.selection];
  return state.cursor >= 0 ? [state.cursor] : [];
}

/** After an act the cursor moves to the next item: one key press an item. */
function advance(rows) {
  const { place, order } = state.view;
  const last = rows.reduce((most, row) => Math.max(most, place[row] ?? -1), -1);
  if (last >= 0 && last + 1 < order.length) moveTo(order[last + 1]);
  else select([], state.cursor);
}

/** Sentence on how many labels given by the user an act on several items replaces; empty for a single item. */
function replaced(rows, label) {
  const own = rows.filter((row) => state.flags[row] & (CHECKED | SAID_NONE) && state.label[row] !== label).length;
  if (rows.length < 2 || !own) return "";
  return `It ${label === UNANSWERED ? "takes away" : "replaces"} ${labels(own)} that you gave.`;
}

function onItems(action, body, label, flag) {
  const rows = targets();
  if (!rows.length) {
    say("Select items first: click, drag a frame, or move with the arrows.", { error: true });
    return;
  }
  act(action, { rows, ...body }, { entry: { rows, label, flag }, note: replaced(rows, label) });
  advance(rows);
}

export const labelAs = (id) => onItems("label", { class_id: id }, id, CHECKED);
export const noneOfThese = () => onItems("none", {}, NONE, SAID_NONE);
export const clear = () => onItems("clear", {}, UNANSWERED, 0);

export function labelAsNew(name) {
  const rows = targets();
  if (!rows.length) return addClass(name);
  const sent = act("label", { rows, name }, { note: replaced(rows, null) });
  advance(rows);
  return sent;
}

/** Confirm the labels shown. Items of one label are sent with it, so that answers that arrive now change nothing. */
export function confirm() {
  const rows = targets().filter((row) => shownLabel(row) !== UNANSWERED && !(state.flags[row] & SAID_NONE));
  if (!rows.length) {
    const hidden = targets().some(isHidden);
    say(hidden ? "The audit hides the answer: press the key of the class that you see, or N." : "There is no label to confirm here yet.", { error: true });
    return;
  }
  const label = state.label[rows[0]];
  const entry = { rows, label: null, flag: CHECKED };
  if (rows.every((row) => state.label[row] === label)) act("label", { rows, class_id: label }, { entry });
  else act("confirm", { rows, answers_number: state.number }, { entry });
  advance(rows);
}

/** Accept in bulk what was previewed with the answers of that number. */
export const accept = (level, number) => act("accept", { at_least: level, answers_number: number });

const seen = () => ({ version: state.newest });

export async function undo() {
  const before = (await act("undo", {}, { late: seen })) && undone.at(-1);
  if (before) {
    select(before.rows, before.cursor);
    grid.reveal(before.cursor);
  }
}

export const redo = () => act("redo", {}, { late: seen });

/** Make a class of a proposed group. */
export const acceptGroup = (rows, name) => act("label", { rows, name }, { before: null });

export const addClass = (name) => act("add_class", { name });
export const rename = (id, name) => act("rename", { class_id: id, name });
export const merge = (id, into) => act("merge", { class_id: id, into });
export const deleteClass = (id) => act("delete_class", { class_id: id });
export const drawAudit = (n) => act("audit", { n });

/** Select every item of the view, or of one section of it. */
export function selectAll({ start, stop } = { start: 0, stop: state.view.order.length }) {
  const rows = state.view.order.subarray(start, stop);
  select(rows, rows.includes(state.cursor) ? state.cursor : rows[0] ?? -1);
  say(`${items(rows.length)} selected.`);
}

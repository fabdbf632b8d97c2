/* Acts on items and classes. Each is shown at once, then sent; the answers of the server follow. */

import { post } from "./api.js";
import { ask } from "./dialog.js";
import { items, labels, sentence } from "./dom.js";
import { matesOf } from "./events.js";
import * as grid from "./grid.js";
import { isHidden, labelName, shownLabel } from "./labels.js";
import { meant } from "./spelling.js";
import { anticipate, CHECKED, fetchProject, NONE, SAID_NONE, say, state, tell, UNANSWERED, withdraw } from "./store.js";

let queue = Promise.resolve(); // acts reach the server in the order in which they were done
const past = []; // selections before the acts that hold, so that undo gives them back
const undone = [];

/** Show a label whose class the act has made: only now has the class an id. */
async function showNamed({ rows, name }, version) {
  await fetchProject();
  const made = [...state.classes.values()].find((known) => known.name === name);
  if (made) anticipate({ version, rows, label: made.id, flag: CHECKED });
}

async function send(action, body, shown, { named, note, said, before }) {
  try {
    const { version, words } = await post("api/act", { action, run: state.project.run, ...body });
    if (action === "undo") undone.push(past.pop());
    else past.push(action === "redo" ? undone.pop() : before);
    if (shown) shown.version = version;
    state.newest = Math.max(state.newest, version);
    if (named) await showNamed(named, version);
    else fetchProject();
    say(said || (words ? sentence(words) : ""), { note, changed: state.version >= version ? state.changed.length : null });
    return true;
  } catch (error) {
    if (shown) withdraw(shown);
    say(error.message, { error: true });
    return false;
  }
}

/** Send one act; resolves to whether the server took it. `late` adds what is known only once earlier acts are sent. */
function act(action, body = {}, { entry, named, late = () => ({}), note = "", said = "", before = body.rows } = {}) {
  before &&= { rows: before, cursor: state.cursor };
  const shown = entry && anticipate({ version: null, ...entry });
  const sent = queue.then(() => send(action, { ...body, ...late() }, shown, { named, note, said, before }));
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

/**
 * The rows an act is about: the selection, else the item that is looked at, if it is in the view: a key must not change
 * an item that was left open from another view. Of an event all that its cell stands for.
 */
function targets() {
  const rows = state.selection.size ? [...state.selection] : [state.cursor].filter((row) => state.view.place[row] >= 0);
  return [...new Set(rows.flatMap(matesOf))];
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

const MANY = 100; // items at once from which on an act is asked about first

/** Do `work` on rows; a key pressed by mistake must not label hundreds of items unasked. */
async function asked(rows, question, answer, work) {
  const own = replaced(rows, undefined);
  const yes = rows.length < MANY || (await ask(question, own || "One undo takes it back.", [[answer, true], ["Cancel", false]]));
  if (!yes) return false;
  const sent = work();
  advance(rows);
  return sent;
}

/** `ask(n)` is the question about n items, `said(n)` what was done to them. */
function onItems(action, body, entry, { ask: question, said }) {
  const rows = targets();
  if (!rows.length) {
    say("Select items first: click, drag a frame, or move with the arrows.", { error: true });
    return;
  }
  const send = () => act(action, { rows, ...body }, { entry: { rows, ...entry }, note: replaced(rows, entry.label), said: said(rows.length) });
  asked(rows, question(rows.length), `Yes, ${items(rows.length)}`, send);
}

const labelling = (name) => ({
  ask: (n) => `Label ${items(n)} “${name}”?`,
  said: (n) => (n === 1 ? `Labelled “${name}”.` : `Labelled ${items(n)} “${name}”.`),
});
const NO_CLASS = {
  ask: (n) => `Mark ${items(n)} as none of the classes?`,
  said: (n) => (n === 1 ? "Marked as none of the classes." : `Marked ${items(n)} as none of the classes.`),
};
const CLEARED = {
  ask: (n) => `Take the labels from ${items(n)}?`,
  said: (n) => (n === 1 ? "The label is taken away." : `The labels of ${items(n)} are taken away.`),
};

export const labelAs = (id) => onItems("label", { class_id: id }, { label: id, flag: CHECKED }, labelling(labelName(id)));
export const noneOfThese = () => onItems("none", {}, { label: NONE, flag: SAID_NONE }, NO_CLASS);
export const clear = () => onItems("clear", {}, { label: UNANSWERED, flag: 0 }, CLEARED);

/** Label with a class that may be new; a name one typing error away from a known class is asked about. */
export async function labelAsNew(typed) {
  const rows = targets();
  const name = await meant(typed);
  if (!name) return false;
  if (!rows.length) return addClass(name);
  const words = labelling(name);
  const send = () => act("label", { rows, name }, { named: { rows, name }, note: replaced(rows, null), said: words.said(rows.length) });
  return asked(rows, words.ask(rows.length), `Yes, ${items(rows.length)}`, send);
}

/** Confirm the labels shown. Items of one label are sent with it, so that answers that arrive now change nothing. */
export function confirm() {
  const rows = targets().filter((row) => shownLabel(row) !== UNANSWERED && !(state.flags[row] & SAID_NONE));
  if (!rows.length) {
    const hidden = targets().some(isHidden);
    say(hidden ? "The random check hides the answer: press the key of the class that you see, or N." : "There is no label to confirm here yet.", { error: true });
    return;
  }
  const label = state.label[rows[0]], number = state.number;
  const entry = { rows, label: null, flag: CHECKED };
  const said = rows.length === 1 ? `Confirmed “${labelName(label)}”.` : `Confirmed ${items(rows.length)}.`;
  const alike = rows.every((row) => state.label[row] === label);
  const send = () => (alike ? act("label", { rows, class_id: label }, { entry, said }) : act("confirm", { rows, answers_number: number }, { entry, said }));
  asked(rows, `Confirm the labels of ${items(rows.length)}?`, `Yes, ${items(rows.length)}`, send);
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
export async function acceptGroup(rows, typed) {
  const name = await meant(typed);
  return name && act("label", { rows, name }, { named: { rows, name }, before: null });
}

/** Add the classes of a list that are new; each name one typing error away from a known class is asked about. */
export async function addClasses(typed) {
  const names = new Set();
  for (const each of new Set(typed)) names.add(await meant(each));
  for (const known of [null, ...[...state.classes.values()].map(({ name }) => name)]) names.delete(known);
  return names.size > 0 && act("add_class", { classes: [...names] });
}

export const addClass = (name) => act("add_class", { classes: [name] });
export const setKey = (id, key) => act("key", { name: id, key });
export const rename = (id, name) => act("rename", { old: id, new: name });
export const merge = (id, into) => act("merge", { old: id, into });
export const deleteClass = (id) => act("delete_class", { name: id });
/** Draw a random sample; resolves once the page knows it, to whether it was drawn. */
export const drawAudit = async (n) => (await act("audit", { n })) && (await fetchProject(), true);

/** Select every item of the view, or of one section of it. */
export function selectAll({ start, stop } = { start: 0, stop: state.view.order.length }) {
  const rows = state.view.order.subarray(start, stop);
  select(rows, rows.includes(state.cursor) ? state.cursor : rows[0] ?? -1);
  say(`${items(rows.length)} selected.`);
}

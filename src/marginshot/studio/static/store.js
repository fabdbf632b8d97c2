/* The state of the page. Parts read `state` and redraw on events; only this file and actions.js write it, others by `put`. */

import * as api from "./api.js";
import { settled } from "./dom.js";

export const NONE = 0xfffe; // a person said "none of these"
export const UNANSWERED = 0xffff;
export const READY = 1, CHECKED = 2, ACCEPTED = 4, SAID_NONE = 8, FOREIGN = 16, UNREADABLE = 32;
export const GIVEN = CHECKED | ACCEPTED | SAID_NONE;

export const state = {
  project: null,
  classes: new Map(), // id -> {id, name, index, …} in order of creation
  n: 0,
  version: 0, // of the solve that the answers come from
  number: 0, // of the answers; a complete fit gives others of the same version
  newest: 0, // version of the newest act that the page has heard of
  label: new Uint16Array(0), // class id, NONE or UNANSWERED
  confidence: new Uint8Array(0),
  flags: new Uint8Array(0),
  counts: new Map(), // label -> number of items
  items: new Map(), // row -> {name, text}, as far as fetched
  changed: new Int32Array(0), // rows whose label the last act changed elsewhere
  status: { words: "", note: "", changed: null, error: false },
  connected: true,
  rescanning: false, // this page asked for the source to be read again, and loads anew by itself
  filter: null, // row -> whether views show it; null shows all
  view: { id: "classes", order: new Int32Array(0), sections: [], place: new Int32Array(0) },
  selection: new Set(),
  cursor: -1, // row that is looked at
  anchor: -1, // where a range began
};

const listeners = new Map();

/** Topics: project, answers, items, view, turn, selection, status. */
export function on(topics, listener) {
  for (const topic of topics.split(" ")) {
    if (!listeners.has(topic)) listeners.set(topic, []);
    listeners.get(topic).push(listener);
  }
}

/** Write parts of the state; who does tells the topics. */
export const put = (parts) => Object.assign(state, parts);

export function tell(topic) {
  for (const listener of listeners.get(topic) || []) listener();
}

export function say(words, { note = "", changed = null, error = false } = {}) {
  state.status = { words, note, changed, error };
  tell("status");
}

/** Labels given here that no answers contain yet: {version, rows, label, flag}. */
let pending = [];

function overlay({ rows, label, flag }) {
  for (const row of rows) {
    if (label !== null) state.label[row] = label;
    state.confidence[row] = label === UNANSWERED ? 0 : 255;
    state.flags[row] = (state.flags[row] & ~(GIVEN | FOREIGN)) | flag;
  }
}

function countLabels() {
  const counts = new Uint32Array(0x10000);
  for (const label of state.label) counts[label]++;
  state.counts = new Map();
  counts.forEach((n, label) => n && state.counts.set(label, n));
}

/** Show labels before answers contain them. Returns the entry, which gets a version or is withdrawn. */
export function anticipate(entry) {
  if (entry.version !== null && entry.version <= state.version) return entry; // the answers were faster
  pending.push(entry);
  overlay(entry);
  countLabels();
  tell("answers");
  return entry;
}

export function withdraw(entry) {
  pending = pending.filter((other) => other !== entry);
  fetchAnswers();
}

/** Rows whose label the answers changed, without labels given by a person and items read for the first time. */
function changedRows(before, flagsBefore) {
  const rows = [];
  for (let row = 0; row < state.n; row++) {
    const fresh = !(flagsBefore[row] & READY);
    if (state.label[row] !== before[row] && !(state.flags[row] & GIVEN) && !fresh) rows.push(row);
  }
  return Int32Array.from(rows);
}

function receive(answers) {
  const { label: before, flags: flagsBefore, number: numberBefore, n: nBefore } = state;
  const label = new Uint16Array(answers.code);
  answers.flags.forEach((flags, row) => {
    if (flags & SAID_NONE) label[row] = NONE;
  });
  Object.assign(state, { n: answers.n, version: answers.version, number: answers.number, label });
  state.confidence = answers.confidence;
  state.flags = answers.flags;
  pending = pending.filter((entry) => entry.version === null || entry.version > answers.version);
  pending.forEach(overlay);
  countLabels();
  if (nBefore === state.n && numberBefore !== state.number) {
    state.changed = changedRows(before, flagsBefore);
    if (state.status.words && !state.status.error) state.status.changed = state.changed.length;
    tell("status");
  }
  tell("answers");
}

/** Run `work` once at a time. Calls during a run lead to one more run after it, and wait for that one. */
function coalesced(work) {
  let running = null, following = null;
  return function run() {
    if (running) {
      following ??= running.then(() => {
        following = null;
        return run();
      });
      return following;
    }
    running = work()
      .catch((error) => say(error.message, { error: true }))
      .finally(() => (running = null));
    return running;
  };
}

export const fetchAnswers = coalesced(async () => receive(await api.answers()));

/** In another run a row may be another item. */
export const isOtherRun = (run) => Boolean(state.project) && run !== state.project.run && !state.rescanning;

export const fetchProject = coalesced(async () => {
  const project = await api.get("api/project");
  if (isOtherRun(project.run)) return location.reload();
  state.project = project;
  state.newest = Math.max(state.newest, state.project.version);
  state.classes = new Map(state.project.classes.map((group, index) => [group.id, { ...group, index }]));
  tell("project");
});

export const refresh = () => Promise.all([fetchProject(), fetchAnswers()]);

let wanted = new Set();
const fetchItems = settled(async () => {
  const rows = [...wanted];
  wanted = new Set();
  for (let start = 0; start < rows.length; start += 400) {
    const part = rows.slice(start, start + 400);
    try {
      const found = await api.get(`api/items?rows=${part.join(",")}`);
      found.forEach((item, i) => state.items.set(part[i], item));
    } catch (error) {
      say(error.message, { error: true });
    }
  }
  tell("items");
}, 40);

/** Request names and texts of the rows on screen; topic `items` follows when they have arrived. */
export function want(rows) {
  for (const row of rows) if (!state.items.has(row)) wanted.add(row);
  if (wanted.size) fetchItems();
}

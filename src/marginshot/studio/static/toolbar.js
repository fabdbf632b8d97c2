/* Above the grid: which view, what it is for, and its own controls. */

import { acceptGroup, drawAudit, selectAll } from "./actions.js";
import { button, editClass } from "./dialogs.js";
import { $, count, el, items, percent, refill, settled } from "./dom.js";
import { setHeads, setSize } from "./grid.js";
import { estimate } from "./progress.js";
import { GIVEN, on, state } from "./store.js";
import { resort, show, TABS, titleOf } from "./views.js";

const AUDIT_SIZE = 30;
const EMPTY = {
  next: "There is nothing to label next yet. First give examples of two classes.",
  worklist: "There is nothing on the list.",
  audit: "No audit is running. An audit draws random items; your labels for them give an unbiased estimate of the accuracy.",
  changed: "The last act changed no other labels.",
  none: "No item is marked as none of these, and none looks like it.",
  class: "No item has this label.",
  search: "Nothing found.",
  selected: "Nothing is selected.",
};

const handled = (order) => order.reduce((n, row) => n + ((state.flags[row] & GIVEN) > 0), 0);

function nextControls({ order }) {
  const done = handled(order);
  const words = `${done} of ${count(order.length)} done. Labels for these improve the others most.`;
  return [el("span", {}, words), button("Next 40", resort, done === order.length ? "main" : "")];
}

/** How far the worklist is, and what was reached: [words, whether a new list is needed]. */
function worklistWords({ order, target, reached, expected }) {
  const now = state.project.expected?.[0] ?? 0, done = handled(order), all = `of all ${items(state.n)}`;
  const today = `${percent(now, 1)} ${all} are expected to be right now`;
  if (done < order.length) {
    const then = `${reached ? "" : "only "}${percent(expected.at(-1), 1)}`;
    return [`${count(done)} of ${items(order.length)} checked. ${today}; when all are checked, ${then}.`, false];
  }
  if (state.newest > state.version) return ["All are checked. Answers follow …", false];
  if (now >= target - 1e-9) return [`Done: ${today}.`, false];
  const why = done ? "Your corrections lowered the probabilities of other items" : "No more items can be checked";
  return [`${done ? `${items(done)} checked, but o` : "O"}nly ${today}. ${why}.`, done > 0];
}

function worklistControls(view) {
  const input = el("input", { type: "number", min: 50, max: 100, step: 0.5, value: 100 * view.target, "aria-label": "Target in percent" });
  input.onchange = () => show("worklist", Math.min(1, Math.max(0.5, input.value / 100)));
  const [words, more] = worklistWords(view);
  return [el("label", {}, "To be ", input, " % right, check these."), el("span", {}, words), button("New list", resort, more ? "main" : "")];
}

function auditControls() {
  const { audit } = state.project;
  const words = [];
  if (audit) words.push(`${audit.done} of ${audit.rows.length} checked. Press the key of the class that you see, or N; the answer is shown afterwards.`);
  if (audit?.result) words.push(`Accuracy ${estimate(audit.result)} of all ${items(state.n)}.`);
  const running = audit && audit.done < audit.rows.length;
  const draw = async () => (await drawAudit(AUDIT_SIZE)) && setTimeout(resort, 150);
  return [el("span", {}, words.join(" ")), running ? null : button(`Draw ${AUDIT_SIZE} random items`, draw, "main")];
}

const back = () => [button("← All classes", () => show("classes"))];

function classControls({ param }) {
  const group = state.classes.get(param);
  return [...back(), group ? button("Change …", () => editClass(group)) : null];
}

const note = (words) => el("span", { class: "muted" }, words);

const CONTROLS = {
  classes: () => (state.classes.size < 2 ? [] : [note("In each class, the least certain items come first.")]),
  doubt: () => [note("The least certain items come first.")],
  changed: () => [note("Items whose label the last act changed, by their new label.")],
  next: nextControls,
  worklist: worklistControls,
  audit: auditControls,
  class: classControls,
  none: () => [el("span", {}, "Groups that may be new classes come first."), button("Look again", resort)],
  search: back,
  selected: back,
  map: () => [note(`Draw around points to select them${innerWidth > 720 ? ", or move a frame with the arrow keys. The wheel zooms" : "; two fingers zoom"}.`)],
};

function startHint() {
  if (state.classes.size >= 2 || state.view.id !== "classes") return [];
  const names = state.project.kind === "text" ? " Or type the names of the classes on the left: names alone label texts." : "";
  const words = state.classes.size
    ? "Now give an example of a second class. Then all items are labelled at once."
    : `Click an item, press L, type the name of its class, and Enter. With two classes, all items are labelled at once.${names}`;
  return [el("span", { class: "hint" }, words)];
}

function tab(id) {
  const here = state.view.id === id;
  const reached = here || (id === "classes" && !TABS.includes(state.view.id)); // one of them is in the Tab order
  const props = { role: "tab", id: `tab-${id}`, "aria-selected": String(here), "aria-controls": "stage" };
  return el("button", { ...props, tabIndex: reached ? 0 : -1, onclick: () => show(id) }, titleOf(id));
}

function drawControls() {
  if (!state.project) return;
  const controls = CONTROLS[state.view.id]?.(state.view) || [];
  refill($("controls"), [...startHint(), ...controls.filter(Boolean)]);
  const isMap = state.view.id === "map";
  $("empty").hidden = isMap || state.view.order.length > 0;
  $("empty").textContent = state.n ? EMPTY[state.view.id] ?? "There are no items yet." : "";
}

/** Arrow keys walk along the tabs, as in every tab list. */
function walk(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const at = TABS.indexOf(event.target.id.replace("tab-", ""));
  const id = TABS[(at + step + TABS.length) % TABS.length];
  show(id).then(() => $(`tab-${id}`).focus());
}

/** Head of a section: select it; a proposed group also becomes a class with one click. */
function headControls(section) {
  const controls = [button("Select", () => selectAll(section), "quiet")];
  if (section.proposal === undefined) return controls;
  const number = section.proposal + 1;
  const input = el("input", { value: `New class ${number}`, dir: "auto", "aria-label": `Name for group ${number}` });
  const { rows } = state.view.groups[section.proposal];
  const make = () => input.value.trim() && acceptGroup(rows, input.value.trim());
  return [...controls, input, button("Make it a class", make, "main")];
}

export function init() {
  setHeads(headControls);
  $("tabs").addEventListener("keydown", walk);
  if (innerWidth < 500) $("size").value = 110; // three columns on a phone
  setSize(Number($("size").value));
  $("size").addEventListener("input", () => setSize(Number($("size").value)));
  const query = () => $("search").value.trim();
  $("search").addEventListener("input", settled(() => query() && show("search", query()), 250));
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") $("grid").focus();
    if (event.key === "Escape") {
      $("search").value = "";
      show("classes").then(() => $("grid").focus());
    }
  });
  on("view", () => {
    refill($("tabs"), TABS.map(tab));
    drawControls();
  });
  on("project answers", settled(() => {
    if (!$("controls").querySelector("input:focus")) drawControls(); // else a number is being typed
  }, 30));
}

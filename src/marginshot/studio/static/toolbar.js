/* Above the grid: which view, what it is for, and its own controls. */

import { acceptGroup, drawAudit, selectAll } from "./actions.js";
import { post } from "./api.js";
import { button } from "./dialog.js";
import { editClass } from "./dialogs.js";
import { $, count, el, items, percent, refill, settled } from "./dom.js";
import { setHeads, setSize } from "./grid.js";
import { estimate } from "./progress.js";
import { recall, remember } from "./memory.js";
import { GIVEN, on, put, say, state } from "./store.js";
import { BATCH, ignoresFilter, resort, show, TABS, titleOf } from "./views.js";

const EMPTY = {
  next: "There is nothing to label next yet: items are still being read.",
  worklist: "Nothing is on this list.",
  audit: "A random check draws items by chance. Your labels for them show how many of all labels are right, independently of the probabilities.",
  changed: "Your last label changed no other.",
  none: "No item is marked as none of these, and none looks like it.",
  class: "No item has this label.",
  search: "Nothing found.",
  selected: "Nothing is selected.",
  doubted: "No label looks wrong.",
  unlike: "Nothing looks unlike your examples.",
  new: "Nothing is new. “Look for new items” reads the folder or the table again.",
};

const AUDIT_SIZE = 30;

const handled = (order) => order.reduce((n, row) => n + ((state.flags[row] & GIVEN) > 0), 0);

const nextControls = ({ order }) => [
  el("span", {}, `${count(handled(order))} of ${count(order.length)} done.`),
  note("Press the key of a class, Enter where the label is right, or L and a name."),
  button(`Next ${BATCH}`, resort),
];

/** How far the check list is, and what was reached: [words, whether a new list is needed]. */
function worklistWords({ order, target, reached, expected }) {
  const now = state.project.expected?.[0] ?? 0, done = handled(order), all = `of all ${items(state.n)}`;
  const today = `${percent(now, 1)} ${all} are expected to be right`;
  if (done < order.length) {
    const then = percent(expected.at(-1), 1);
    const after = then === percent(now, 1) ? "Each one checked makes that surer" : `After all of these it is ${reached ? "" : "only "}${then}`;
    return [`${count(done)} of ${items(order.length)} checked. Now ${today}. ${after}.`, false];
  }
  if (state.newest > state.version) return ["All are checked. Answers follow …", false];
  if (now >= target - 1e-9) return [`Reached: ${today}.`, false];
  const why = done ? "Your corrections made other answers less sure" : "No more items can be checked";
  return [`${done ? `${items(done)} checked. ` : ""}Only ${today}. ${why}.`, done > 0];
}

const tooEarly = () => [note("First give examples of two classes: then there are answers to check.")];

function worklistControls(view) {
  if (!state.project.expected) return tooEarly();
  const input = el("input", { type: "number", min: 50, max: 100, step: 0.5, value: 100 * view.target, "aria-label": "Target in percent" });
  input.onchange = () => show("worklist", Math.min(1, Math.max(0.5, input.value / 100)));
  const [words, more] = worklistWords(view);
  return [el("label", {}, "To be right: ", input, " %"), el("span", {}, words), button("New list", resort, more ? "main" : "")];
}

function auditControls() {
  const { audit, expected } = state.project;
  if (!audit && !expected) return tooEarly();
  const words = [];
  if (audit) words.push(`${audit.done} of ${audit.rows.length} checked. Press the key of the class that you see, or N; the answer is shown afterwards.`);
  if (audit?.result) words.push(`Accuracy ${estimate(audit.result)} of all ${items(state.n)}, by the answers before this check.`);
  const running = audit && audit.done < audit.rows.length;
  const draw = async () => (await drawAudit(AUDIT_SIZE)) && resort();
  return [el("span", {}, words.join(" ")), running || !expected ? null : button(`Draw ${AUDIT_SIZE} random items`, draw)];
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
  none: () => [note("Groups that may be new classes come first."), button("Look again", resort)],
  doubted: () => [...back(), note("Press the key of the right class, or Enter where the label is right.")],
  unlike: back,
  search: back,
  selected: back,
  like: back,
  new: () => [button("Look for new items", rescan)],
  map: () => [note(`Draw around points to select them${innerWidth > 720 ? ", or move a frame with the arrow keys. The wheel zooms" : "; two fingers zoom"}.`)],
};

/** Read the source again; the page loads anew, and shows what is new. */
async function rescan() {
  try {
    say("Looking for new items …");
    put({ rescanning: true });
    const found = await post("api/rescan", {});
    remember({ view: found.new ? "new" : recall().view, news: found });
    location.reload();
  } catch (error) {
    put({ rescanning: false });
    say(error.message, { error: true });
  }
}

/** What the last look for new items found, said once. */
export function sayNews() {
  const { news } = recall();
  if (!news) return;
  remember({ news: null });
  const gone = news.gone ? ` ${items(news.gone)} gone; their labels are kept.` : "";
  say(`${news.new ? `${items(news.new)} new.` : "Nothing new."}${gone}`);
}

function tab(id) {
  const here = state.view.id === id;
  const reached = here || (id === "classes" && !TABS.includes(state.view.id)); // one of them is in the Tab order
  const props = { role: "tab", id: `tab-${id}`, "aria-selected": String(here), "aria-controls": "stage" };
  return el("button", { ...props, tabIndex: reached ? 0 : -1, onclick: () => show(id) }, titleOf(id));
}

/** "New" is there once something is. */
function drawTabs() {
  const tabs = TABS.filter((id) => id !== "new" || state.project?.n_new || state.view.id === "new");
  refill($("tabs"), tabs.map(tab));
  $("rescan").hidden = !state.project?.can_rescan;
}

function drawControls() {
  if (!state.project) return;
  const whole = ignoresFilter(state.view) && note("The filter does not apply here: these are chosen among all items.");
  const controls = [...(CONTROLS[state.view.id]?.(state.view) || []), whole];
  refill($("controls"), controls.filter(Boolean));
  const isMap = state.view.id === "map";
  $("empty").hidden = isMap || state.view.order.length > 0;
  $("empty").textContent = state.n ? EMPTY[state.view.id] ?? "There are no items yet." : "";
}

/** Arrow keys walk along the tabs, as in every tab list. */
function walk(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const ids = [...$("tabs").children].map((node) => node.id.replace("tab-", ""));
  const id = ids[(ids.indexOf(event.target.id.replace("tab-", "")) + step + ids.length) % ids.length];
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
  $("rescan").onclick = rescan;
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
    drawTabs();
    drawControls();
  });
  on("project", drawTabs);
  on("project answers", settled(() => {
    if (!$("controls").querySelector("input:focus")) drawControls(); // else a number is being typed
  }, 30));
}

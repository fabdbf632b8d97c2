/* The way from nothing to a result: five steps, and always one sentence with what to do next. */

import { drawAudit } from "./actions.js";
import { get } from "./api.js";
import { button } from "./dialog.js";
import { nameClasses } from "./dialogs.js";
import { $, count, el, items, labels, refill, settled, share } from "./dom.js";
import { exportAll } from "./export.js";
import { recall, remember } from "./memory.js";
import { estimate } from "./progress.js";
import { FOREIGN, GIVEN, on, state } from "./store.js";
import { BATCH, resort, show, target, targetWords } from "./views.js";

const SAMPLE = 30; // items of a random check
const QUICK = 30; // items on a check list that are sooner checked than learned from
const UNSURE = 0.1; // how far below the target the interval may begin where the target counts as reached
const MUCH = 0.1; // share of the items that look like no class, from which on a class may be missing

const STEPS = [
  { id: "classes", title: "Name classes", go: nameClasses },
  { id: "next", title: "Label next", go: () => show("next") },
  { id: "worklist", title: "Check list", go: () => show("worklist") },
  { id: "audit", title: "Random check", go: () => show("audit") },
  { id: "export", title: "Export", go: exportAll },
];

let todo = null; // {rows, reached} of the check list for the present target
let askedFor = "";

const handled = (order) => order.reduce((n, row) => n + ((state.flags[row] & GIVEN) > 0), 0);

/** Items that look like none of the classes and have no label of a person. */
function strangers() {
  let n = 0;
  for (let row = 0; row < state.n; row++) n += (state.flags[row] & FOREIGN) > 0 && !(state.flags[row] & GIVEN);
  return n;
}

const listed = (names) => names.slice(0, 3).join(", ") + (names.length > 3 ? ` and ${count(names.length - 3)} more` : "");

/** What to do while there are not enough classes, or some have no example: {step, words, buttons}, or null. */
function beginning() {
  const groups = [...state.classes.values()];
  const naming = button("Name your classes …", nameClasses, "main");
  if (!groups.length) {
    const more = state.project.reads_words ? "Names alone label items." : "Then give one example of each.";
    return { step: "classes", words: `What kinds of items are there? Name your classes. ${more}`, buttons: [naming, button("Begin with examples", () => show("next"))] };
  }
  const lacking = groups.filter((group) => group.needs).map(({ name }) => name);
  if (lacking.length) {
    const many = groups.length > 1 ? `One example of each class is enough to begin. Still without: ${listed(lacking)}.` : `Find one item that is ${lacking[0]}, and press its key.`;
    return { step: "next", words: many, buttons: looking("next", "Show typical items") };
  }
  if (groups.length === 1) {
    return { step: "classes", words: "There is one class. Add a second one: then everything is labelled at once.", buttons: [naming, ...looking("next", "Show typical items", "")] };
  }
  return null;
}

const looking = (id, words, className = "main") => (state.view.id === id ? [] : [button(words, () => show(id), className)]);

/** Whether a class is missing, where much of the folder looks like none. */
function missing() {
  const n = strangers(), groups = state.classes.size;
  if (n < Math.max(5, MUCH * state.n) || recall().complete === groups) return null;
  const words = `Are these all your classes? ${items(n)} of ${count(state.n)} ${n === 1 ? "looks" : "look"} like none of them.`;
  const all = () => {
    remember({ complete: groups });
    draw();
  };
  return { step: "classes", words, buttons: [...looking("none", "Look at them"), button("Yes, these are all", all)] };
}

/** Items of another camera or light without an example: the accuracy of their labels is unknown. */
function unseen() {
  const n = state.project.n_unlike;
  if (!n || state.view.id === "unlike") return null;
  const words = `${items(n)} ${n === 1 ? "looks" : "look"} unlike all your examples, as by another camera or light, or from another source. Give some examples of them.`;
  return { step: "next", words, buttons: looking("unlike", "Look at them") };
}

/** Labels that look wrong are asked about once, until there are more; a random check finds what is left of them. */
function doubts() {
  const n = state.project.n_doubts;
  if (state.project.audit?.result) return null;
  if (n < (recall().doubts ?? 0)) remember({ doubts: n });
  if (n === (recall().doubts ?? 0)) return null;
  const later = () => {
    remember({ doubts: n });
    draw();
  };
  const words = `${labels(n)} ${n === 1 ? "looks" : "look"} wrong by all the others.`;
  return { step: "worklist", words, buttons: [...looking("doubted", "Look at them"), button(state.view.id === "doubted" ? "Done" : "Not now", later)] };
}

/** While a list is being worked on, nothing else is recommended. */
function working(id, title) {
  const { order } = state.view;
  return state.view.id === id && handled(order) < order.length ? { step: id, words: title(order.length), buttons: [] } : null;
}

const NEXT = (n) => `Label these ${count(n)}: they tell most about all others.`;

function teaching(now) {
  if (now >= target()) return null;
  if (todo && todo.reached && todo.rows.length <= QUICK && todo.rows.length) {
    const these = todo.rows.length === 1 ? "this item" : `these ${items(todo.rows.length)}`;
    const words = `Check ${these}: then ${targetWords()} of all are expected to be right.`;
    return working("worklist", () => words) ?? { step: "worklist", words, buttons: [button(`Check ${items(todo.rows.length)}`, () => show("worklist"), "main")] };
  }
  const finished = state.view.id === "next" && state.view.order.length > 0;
  return working("next", NEXT) ?? { step: "next", words: finished ? `Good. ${share(now)} of all items are expected to be right now.` : NEXT(BATCH), buttons: [button(finished ? `Next ${BATCH}` : `Label ${BATCH}`, () => (finished ? resort() : show("next")), "main")] };
}

async function sample() {
  if (await drawAudit(SAMPLE)) show("audit");
}

function checking(now) {
  const { audit } = state.project, exporting = button("Export …", exportAll);
  const running = audit && audit.done < audit.rows.length;
  if (running) {
    const words = `Random check: say of each what it is; the answer is shown afterwards. ${count(audit.done)} of ${count(audit.rows.length)} done.`;
    return { step: "audit", words, buttons: [...looking("audit", "Go on"), exporting] };
  }
  if (!audit?.result) {
    const words = `${targetWords()} reached: ${estimate(state.project.expected)} of all items are expected to be right. Make sure with ${SAMPLE} random ones.`;
    return { step: "audit", words, buttons: [button(`Draw ${SAMPLE} random items`, sample, "main"), exporting], reached: state.project.expected[1] >= target() - UNSURE };
  }
  if (audit.result[2] < target()) {
    const words = `The random check found ${share(audit.result[0])} right, less than ${targetWords()}. Label ${BATCH} more.`;
    return working("next", NEXT) ?? { step: "next", words, buttons: [button(`Label ${BATCH}`, () => show("next"), "main"), button("Check again", sample), exporting] };
  }
  return null;
}

function finished(now) {
  const words = [
    el("strong", {}, "Done."),
    ` All ${items(state.n)} have a label. ${share(now)} are expected to be right; the random check found ${estimate(state.project.audit.result)} before the labels that came with it and since.`,
  ];
  return { step: "export", words, buttons: [button("Export …", exportAll, "main"), button("Check again", sample)], done: true };
}

function advice() {
  const { expected, encoding } = state.project;
  if (encoding.error) return { step: "", words: "", buttons: [] };
  const first = beginning();
  if (first) return first;
  if (!expected) return { step: "next", words: encoding.phase ? "Items are being read; answers follow." : "Answers follow …", buttons: [] };
  return missing() ?? unseen() ?? working("next", NEXT) ?? teaching(expected[0]) ?? doubts() ?? checking(expected[0]) ?? finished(expected[0]);
}

function stepItem({ id, title, go }, i, step) {
  const at = STEPS.findIndex((other) => other.id === step), here = state.view.id === id && id !== "classes";
  const className = i === at ? "now" : i < at ? "past" : "";
  const mark = el("span", { class: "dot", "aria-hidden": "true" }, i < at ? "✓" : i + 1);
  const about = { "aria-current": i === at ? "step" : null, "aria-pressed": String(here), "data-key": `step ${id}` };
  return el("li", { class: className }, el("button", { type: "button", onclick: go, ...about }, mark, el("span", {}, title)));
}

export function draw() {
  if (!state.project) return;
  const { step, words, buttons, done, reached } = advice();
  $("guide").hidden = !step;
  $("guide").className = done ? "done" : reached ? "reached" : "";
  refill($("steps"), STEPS.map((each, i) => stepItem(each, i, step)));
  $("advice-words").replaceChildren(...[words].flat());
  refill($("advice-buttons"), buttons);
}

/** The check list is asked for once for every state of the labels. */
const lookAhead = settled(async () => {
  if (!state.project?.expected) return;
  const wanted = `${state.number} ${target()}`;
  if (wanted === askedFor) return;
  askedFor = wanted;
  todo = await get(`api/worklist?target=${target()}`).catch(() => null);
  draw();
}, 300);

export function init() {
  const later = settled(draw, 40);
  on("project answers view", () => {
    if ($("guide").hidden) draw(); // before the first items: they must not move under the pointer
    else later();
    lookAhead();
  });
}

/* Dialogs. Native ones keep the keyboard inside, and Escape closes them. */

import { accept, deleteClass, merge, rename } from "./actions.js";
import { get } from "./api.js";
import { count, el, items, settled } from "./dom.js";
import { HELP } from "./keys.js";
import { state } from "./store.js";

/** Open a dialog with a title and content; `close()` closes it. It leaves the page when closed. */
export function open(title, content) {
  const dialog = el("dialog", { "aria-label": title });
  const close = () => dialog.close();
  const leave = el("button", { class: "quiet", type: "button", onclick: close, "aria-label": "Close" }, "✕");
  dialog.append(el("header", {}, el("h2", {}, title), leave), ...content(close));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

export const button = (text, onclick, className = "") => el("button", { type: "button", class: className, onclick }, text);

/** A form whose submit does `work` and closes. */
function form(work, close, ...children) {
  const onsubmit = (event) => {
    event.preventDefault();
    work();
    close();
  };
  return el("form", { onsubmit }, ...children);
}

const NOTES = [
  "With the pointer: click, Shift-click for a range, Ctrl-click to add, drag a frame. The mark beside a class labels the " +
    "selection with it; its name shows its items.",
  "✓ given by you · ✓✓ accepted in bulk · ? looks like none of the classes. The order of what you see changes only when " +
    "you ask for it.",
];

export function help() {
  open("Keys", () => [
    el("dl", { class: "keys" }, HELP.flatMap(([keys, words]) => [el("dt", {}, el("kbd", {}, keys)), el("dd", {}, words)])),
    ...NOTES.map((words) => el("p", { class: "muted" }, words)),
  ]);
}

export function editClass(group) {
  open(`Class ${group.name}`, (close) => {
    const text = el("input", { value: group.name, dir: "auto", required: true, maxLength: 200, "aria-label": "New name" });
    const others = [...state.classes.values()].filter((other) => other.id !== group.id);
    const into = el("select", { "aria-label": "Merge into" }, others.map((other) => el("option", { value: other.id }, other.name)));
    const toRename = [el("label", {}, "Name ", text), el("button", { class: "main" }, "Rename")];
    const toMerge = [el("label", {}, "All its labels become ", into), el("button", {}, "Merge")];
    const lost = `Take the label from ${items(group.examples)}. It can be undone.`;
    return [
      form(() => rename(group.id, text.value.trim()), close, ...toRename),
      ...(others.length ? [form(() => merge(group.id, Number(into.value)), close, ...toMerge)] : []),
      form(() => deleteClass(group.id), close, el("span", {}, lost), el("button", { class: "danger" }, "Delete")),
    ];
  });
}

/** The number of items and of expected errors is shown before anything is accepted. */
export function acceptAll() {
  open("Accept answers in bulk", (close) => {
    const level = el("input", { type: "range", min: 50, max: 99, value: 95, "aria-label": "At least, in percent" });
    const words = el("p", { class: "large-words", role: "status" }, "…");
    const go = el("button", { class: "main", disabled: true }, "Accept");
    let number;
    const ask = async () => {
      number = state.number;
      const asked = level.value;
      try {
        const { n_items, wrong } = await get(`api/accept?at_least=${asked / 100}`);
        if (asked !== level.value) return;
        const about = wrong < 0.5 && n_items ? "less than one of them" : `about ${count(Math.round(wrong))} of them`;
        words.textContent = `Accept all at ${asked} % and above: ${items(n_items)}, ${about} wrong.`;
        go.disabled = !n_items;
      } catch (error) {
        words.textContent = error.message;
        go.disabled = true;
      }
    };
    const later = settled(ask, 80);
    level.oninput = () => {
      go.disabled = true;
      later();
    };
    ask();
    return [
      form(() => accept(level.value / 100, number), close, words, level, go),
      el("p", { class: "muted" }, "Accepted labels count as answers that nobody has looked at. One undo takes all of them back."),
    ];
  });
}

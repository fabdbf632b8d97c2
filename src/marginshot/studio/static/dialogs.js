/* What the dialogs of the page hold: help, names of classes, one class, accepting in bulk. */

import { accept, addClasses, deleteClass, merge, rename, setKey } from "./actions.js";
import { get } from "./api.js";
import { form, open } from "./dialog.js";
import { count, el, items, settled } from "./dom.js";
import { HELP } from "./keys.js";
import { meant } from "./spelling.js";
import { state } from "./store.js";

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

/** Many classes at once: one a line, or with commas between. */
export function nameClasses() {
  open("Name your classes", (close) => {
    const text = el("textarea", { rows: 8, dir: "auto", placeholder: "heron\ngull\ntern", "aria-label": "Names of classes, one a line" });
    const add = () => {
      addClasses(text.value.split(text.value.includes("\n") ? /\n/ : /[,;\n]/).map((line) => line.trim()).filter(Boolean));
    };
    return [
      el("p", {}, "One a line. You can add, rename, merge and delete classes at any time."),
      form(add, close, text, el("button", { class: "main" }, "Add them")),
    ];
  }).querySelector("textarea").focus();
}

/** "12 % (9–15) of all items" */
function shareOf([low, middle, high]) {
  const digits = (p) => (100 * p).toFixed(high < 0.095 ? 1 : 0);
  return `${digits(middle)} % (${digits(low)}–${digits(high)}) of all items`;
}

export function editClass(group) {
  open(`Class ${group.name}`, (close) => {
    const text = el("input", { value: group.name, dir: "auto", required: true, maxLength: 200, "aria-label": "New name" });
    const others = [...state.classes.values()].filter((other) => other.id !== group.id);
    const into = el("select", { "aria-label": "Merge into" }, others.map((other) => el("option", { value: other.id }, other.name)));
    const owner = new Map(others.map((other) => [other.key, other.name]));
    const keyName = (key) => `${key.toUpperCase()}${owner.has(key) ? ` (now ${owner.get(key)})` : ""}`;
    const keys = [...state.project.class_keys].map((key) => el("option", { value: key, selected: key === group.key }, keyName(key)));
    const none = group.key ? [] : [el("option", { value: "", selected: true }, "none")];
    const key = el("select", { "aria-label": "Key" }, [...none, ...keys]);
    const renamed = async () => {
      const name = await meant(text.value.trim(), group.id);
      if (name) rename(group.id, name);
    };
    const lost = `Take the label from ${items(group.examples)}. It can be undone.`;
    return [
      ...(group.share ? [el("p", { class: "muted" }, `Its estimated share: ${shareOf(group.share)}.`)] : []),
      form(renamed, close, el("label", {}, "Name ", text), el("button", { class: "main" }, "Rename")),
      form(() => key.value && key.value !== group.key && setKey(group.id, key.value), close, el("label", {}, "Key ", key), el("button", {}, "Use this key")),
      ...(others.length
        ? [form(() => merge(group.id, Number(into.value)), close, el("label", {}, "All its labels become ", into), el("button", {}, "Merge"))]
        : []),
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

/* Modal dialogs: the keyboard stays inside, Escape closes, and the focus goes back to where it was. */

import { $, el, focusLike, sameAs } from "./dom.js";

export const isOpen = () => document.querySelector("dialog[open]") !== null;

export const button = (text, onclick, className = "") => el("button", { type: "button", class: className, onclick }, text);

/** Open a dialog with a title and content; `close()` closes it. It leaves the page when closed. */
export function open(title, content, className = "") {
  const before = sameAs(document.activeElement);
  const dialog = el("dialog", { "aria-label": title, class: className, tabIndex: -1 });
  const close = () => dialog.close();
  const leave = el("button", { class: "quiet", type: "button", onclick: close, "aria-label": "Close" }, "✕");
  dialog.append(el("header", {}, el("h2", {}, title), leave), ...content(close));
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (!isOpen() && document.activeElement === document.body) focusLike(document.body, before) || $("grid").focus();
  });
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  // What had the focus may be taken out of the page: it must not fall to what is behind the dialog.
  dialog.addEventListener("focusout", () => setTimeout(() => dialog.open && !dialog.contains(document.activeElement) && dialog.focus()));
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** A form whose submit does `work` and closes. */
export function form(work, close, ...children) {
  const onsubmit = (event) => {
    event.preventDefault();
    close();
    work();
  };
  return el("form", { onsubmit }, ...children);
}

/** Ask with one button a choice, [[text, value], …], the first of which is the main one; null where it is closed. */
export function ask(title, words, choices) {
  return new Promise((resolve) => {
    let chosen = null;
    const dialog = open(title, (close) => {
      const choose = (value) => () => {
        chosen = value;
        close();
      };
      const buttons = choices.map(([text, value], i) => button(text, choose(value), i ? "" : "main"));
      return [el("p", { class: "large-words" }, words), el("div", { class: "buttons" }, buttons)];
    });
    dialog.querySelector(".main").focus();
    dialog.addEventListener("close", () => resolve(chosen));
  });
}

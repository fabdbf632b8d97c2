/* Below the grid: what just happened, and what can be done with the selection. */

import * as actions from "./actions.js";
import { $, count, el, items, name } from "./dom.js";
import { keyOf, mark } from "./labels.js";
import { NONE, on, state } from "./store.js";
import { look } from "./viewer.js";
import { resort, show } from "./views.js";

function drawStatus() {
  const { words, note, changed, error } = state.status;
  const parts = words ? [el("span", { class: error ? "problem" : "", dir: "auto" }, words)] : [];
  if (note) parts.push(el("span", { class: "problem" }, note));
  if (changed && !error) parts.push(el("span", {}, `${changed === 1 ? "1 other item has" : `${count(changed)} other items have`} a new label.`));
  else if (words && changed === null && state.newest > state.version) parts.push(el("span", { class: "muted" }, "Answers follow …"));
  $("status").replaceChildren(...parts);
  $("take-back").hidden = !note;
  $("look-changed").hidden = !changed || state.view.id === "changed";
  const { moved } = state.view;
  $("resort").hidden = !moved;
  $("resort").textContent = `Sort again: ${items(moved || 0)} ${moved === 1 ? "belongs" : "belong"} elsewhere`;
}

const CHIPS = 40;

function chips() {
  const chip = ({ id, name: text }) => el("button", { class: "chip", onclick: () => actions.labelAs(id) }, mark(id), name(text));
  return [...state.classes.values()].slice(0, CHIPS).map(chip);
}

function drawSelection() {
  const n = state.selection.size;
  document.body.toggleAttribute("data-selected", n > 0);
  $("selected").textContent = n ? `${count(n)} selected` : "Nothing selected";
  for (const button of $("acts").querySelectorAll("button")) button.disabled = !n && state.cursor < 0;
  $("show-selected").hidden = n < 2;
  $("compare").hidden = n !== 2 || state.project?.shows !== "image";
}

const shownClass = (group) => [mark(group.id), name(group.name), el("kbd", {}, keyOf(group))];

/** Type to find a class, or to name a new one for the selection. */
function combobox(input, listbox) {
  let options = [], active = 0;

  function choices() {
    const text = input.value.trim(), low = text.toLowerCase();
    if (!text) return [];
    const groups = [...state.classes.values()].filter((group) => group.name.toLowerCase().includes(low));
    const rank = (group) => (group.name === text ? 0 : group.name.toLowerCase().startsWith(low) ? 1 : 2);
    const known = groups.sort((a, b) => rank(a) - rank(b)).slice(0, 8);
    const found = known.map((group) => ({ group, choose: () => actions.labelAs(group.id) }));
    if (known[0]?.name === text || low === "none of these") return found.length ? found : [{ text, choose: actions.noneOfThese, none: true }];
    return [...found, { text, choose: () => actions.labelAsNew(text) }];
  }

  function draw() {
    listbox.replaceChildren(
      ...options.map((option, i) =>
        el(
          "li",
          { role: "option", id: `${listbox.id}-${i}`, "aria-selected": String(i === active), onpointerdown: (event) => take(event, i) },
          ...(option.group ? shownClass(option.group) : option.none ? [mark(NONE), "None of these"] : ["New class ", name(option.text)]),
        ),
      ),
    );
    listbox.hidden = !options.length;
    input.setAttribute("aria-expanded", String(options.length > 0));
    input.setAttribute("aria-activedescendant", options.length ? `${listbox.id}-${active}` : "");
  }

  function close() {
    options = [];
    input.value = "";
    draw();
  }

  function take(event, i) {
    event.preventDefault();
    const option = options[i];
    close();
    $("grid").focus();
    option?.choose();
  }

  input.addEventListener("input", () => {
    options = choices();
    active = 0;
    draw();
  });
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      active = (active + (event.key === "ArrowDown" ? 1 : options.length - 1)) % Math.max(1, options.length);
      draw();
    } else if (event.key === "Enter") take(event, active);
    else if (event.key === "Escape") {
      close();
      $("grid").focus();
    }
  });
  input.addEventListener("blur", close);
}

export function init() {
  combobox($("label-as"), $("label-options"));
  combobox($("item-as"), $("item-options")); // of a phone, where the other is on another page
  $("confirm").onclick = actions.confirm;
  $("none").onclick = actions.noneOfThese;
  $("clear").onclick = actions.clear;
  $("show-selected").onclick = () => show("selected", Int32Array.from(state.selection));
  $("compare").onclick = () => look([...state.selection]);
  $("look-changed").onclick = () => show("changed");
  $("take-back").onclick = actions.undo;
  $("resort").onclick = resort;
  on("status view", drawStatus);
  on("selection", drawSelection);
  on("project", () => {
    $("chips").replaceChildren(...chips());
    drawSelection();
  });
  $("select-all").onclick = () => actions.selectAll();
}

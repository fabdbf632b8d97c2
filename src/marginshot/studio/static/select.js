/* Selecting with the pointer: click, shift-click, control-click, a frame; a tap adds or takes away. */

import { moveTo, select } from "./actions.js";
import { el } from "./dom.js";
import * as grid from "./grid.js";
import { state } from "./store.js";

const START = 5; // pixels that turn a click into a frame
const EDGE = 40; // from here on the grid scrolls under the frame

export function range(from, to) {
  const { place, order } = state.view;
  const [a, b] = [place[from], place[to]].sort((x, y) => x - y);
  return order.subarray(a, b + 1);
}

export function toggle(row) {
  const rows = new Set(state.selection);
  if (!rows.delete(row)) rows.add(row);
  select(rows, row);
}

function click(row, event) {
  if (event.shiftKey && state.view.place[state.anchor] >= 0) select(range(state.anchor, row), row, state.anchor);
  else if (event.ctrlKey || event.metaKey || event.pointerType === "touch") toggle(row);
  else moveTo(row);
}

export function init(root) {
  const frame = el("div", { class: "frame", hidden: true });
  root.after(frame);
  let drag = null;

  const at = (event) => {
    const box = root.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top + root.scrollTop };
  };

  function stretch() {
    const { from, to, base } = drag;
    const [x0, x1] = [from.x, to.x].sort((a, b) => a - b), [y0, y1] = [from.y, to.y].sort((a, b) => a - b);
    frame.hidden = false;
    const box = { left: x0, top: y0 - root.scrollTop, width: x1 - x0, height: y1 - y0 };
    for (const [side, pixels] of Object.entries(box)) frame.style[side] = `${pixels}px`;
    const rows = grid.rowsInFrame(x0, y0, x1, y1);
    select([...base, ...rows], rows[0] ?? state.cursor);
  }

  function scrollAtEdge() {
    if (!drag?.framing) return;
    const y = drag.to.y - root.scrollTop;
    const pull = y < EDGE ? y - EDGE : Math.max(0, y - root.clientHeight + EDGE);
    if (pull) {
      const before = root.scrollTop;
      root.scrollTop += pull / 3;
      drag.to.y += root.scrollTop - before;
      stretch();
    }
    requestAnimationFrame(scrollAtEdge);
  }

  root.addEventListener("pointerdown", (event) => {
    const onScrollbar = event.clientX - root.getBoundingClientRect().left > root.clientWidth;
    if (event.button || onScrollbar || event.target.closest("button, input")) return;
    const base = event.shiftKey || event.ctrlKey || event.metaKey ? [...state.selection] : [];
    drag = { from: at(event), to: at(event), base, row: grid.rowAt(event.target), framing: false };
  });
  root.addEventListener("pointermove", (event) => {
    if (!drag || event.pointerType === "touch") return;
    drag.to = at(event);
    if (!drag.framing && Math.hypot(drag.to.x - drag.from.x, drag.to.y - drag.from.y) > START) {
      drag.framing = true;
      root.setPointerCapture(event.pointerId);
      scrollAtEdge();
    }
    if (drag.framing) stretch();
  });
  root.addEventListener("pointerup", (event) => {
    if (drag && !drag.framing) {
      if (drag.row < 0) select([]);
      else click(drag.row, event);
    }
    end();
  });
  root.addEventListener("pointercancel", end);

  function end() {
    drag = null;
    frame.hidden = true;
  }
}

/* Pictures as large as the window, one or two side by side: the wheel or + and − zoom, dragging or the arrows move. */

import { button, open } from "./dialog.js";
import { el, name } from "./dom.js";
import { badge, shownLabel } from "./labels.js";
import { state, want } from "./store.js";

const STEP = 1.3, MOST = 12, MOVE = 60; // factor and pixels of a key press, largest zoom

/** All pictures of a viewer share one zoom and one place, so that two can be compared spot by spot. */
function stage(frames) {
  const at = { zoom: 1, x: 0, y: 0 };

  function place() {
    const { clientWidth: width, clientHeight: height } = frames[0];
    const [limitX, limitY] = [(width * (at.zoom - 1)) / 2, (height * (at.zoom - 1)) / 2];
    at.x = Math.max(-limitX, Math.min(limitX, at.x));
    at.y = Math.max(-limitY, Math.min(limitY, at.y));
    for (const frame of frames) frame.firstChild.style.transform = `translate(${at.x}px, ${at.y}px) scale(${at.zoom})`;
  }

  /** Zoom by a factor around a point, given from the middle of the frame. */
  function zoom(factor, x = 0, y = 0) {
    const before = at.zoom;
    at.zoom = Math.max(1, Math.min(MOST, at.zoom * factor));
    at.x = x - ((x - at.x) * at.zoom) / before;
    at.y = y - ((y - at.y) * at.zoom) / before;
    place();
  }

  function move(x, y) {
    at.x += x;
    at.y += y;
    place();
  }

  function fit() {
    Object.assign(at, { zoom: 1, x: 0, y: 0 });
    place();
  }

  return { zoom, move, fit };
}

function fromMiddle(frame, { clientX, clientY }) {
  const box = frame.getBoundingClientRect();
  return [clientX - box.left - box.width / 2, clientY - box.top - box.height / 2];
}

/** Wheel, dragging, and two fingers on one frame. */
function pointers(frame, view) {
  const down = new Map();
  const apart = () => {
    const [a, b] = [...down.values()];
    return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  };
  frame.addEventListener("wheel", (event) => {
    event.preventDefault();
    view.zoom(event.deltaY < 0 ? STEP : 1 / STEP, ...fromMiddle(frame, event));
  }, { passive: false });
  frame.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, event);
    frame.setPointerCapture(event.pointerId);
  });
  frame.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return;
    const wide = down.size === 2 ? apart() : 0;
    down.set(event.pointerId, event);
    if (wide) view.zoom(apart() / wide, ...fromMiddle(frame, event));
    else view.move(event.clientX - before.clientX, event.clientY - before.clientY);
  });
  for (const end of ["pointerup", "pointercancel"]) frame.addEventListener(end, (event) => down.delete(event.pointerId));
  frame.addEventListener("dblclick", view.fit);
}

function keys(dialog, view) {
  const moves = { ArrowLeft: [MOVE, 0], ArrowRight: [-MOVE, 0], ArrowUp: [0, MOVE], ArrowDown: [0, -MOVE] };
  dialog.addEventListener("keydown", (event) => {
    if (moves[event.key]) view.move(...moves[event.key]);
    else if ("+=".includes(event.key)) view.zoom(STEP);
    else if (event.key === "-") view.zoom(1 / STEP);
    else if (event.key === "0") view.fit();
    else return;
    event.preventDefault();
  });
}

function picture(row) {
  const called = state.items.get(row)?.name ?? `item ${row + 1}`;
  const image = el("img", { src: `api/picture/${row}?v=${state.project.run}`, alt: called, draggable: false });
  return el("figure", {}, el("div", { class: "frame-of" }, image), el("figcaption", {}, name(called), badge(shownLabel(row))));
}

/** Show one picture, or two side by side. */
export function look(rows) {
  const shown = rows.slice(0, 2);
  if (state.project?.shows !== "image" || !shown.length) return;
  want(shown);
  const figures = shown.map(picture);
  const frames = figures.map((figure) => figure.firstChild);
  const view = stage(frames);
  const title = shown.length === 2 ? "Two pictures side by side" : "Picture";
  const tools = [button("+", () => view.zoom(STEP)), button("−", () => view.zoom(1 / STEP)), button("Fit", view.fit)];
  tools[0].setAttribute("aria-label", "Zoom in");
  tools[1].setAttribute("aria-label", "Zoom out");
  const dialog = open(title, () => [
    el("div", { class: "pictures" }, figures),
    el("div", { class: "buttons" }, el("span", { class: "muted" }, "Wheel or + and − zoom; drag or arrows move."), tools),
  ], "viewer");
  for (const frame of frames) pointers(frame, view);
  keys(dialog, view);
}

/* The map of the embeddings: all points as pixels of one image; a lasso, or a frame by keyboard, selects. */

import { moveTo, select } from "./actions.js";
import * as api from "./api.js";
import { $, items, settled } from "./dom.js";
import { colourOf, N_COLOURS, shapeOf } from "./labels.js";
import { on, say, state } from "./store.js";

const NEAR = 14; // pixels within which a click or a tap finds a point
const MARGIN = 24;

let points = null; // x0 y0 x1 y1 … as the server sent them
let complete = false; // whether every item that can be read had its place then
let view = null; // {scale, x, y}: pixel = scale * (point - origin)
let frame = null; // what Enter would select: {x, y, width, height} in pixels
let canvas, over, ink = [];

/** The shapes of the classes' marks, on the square from -1 to 1; see style.css for their twins. */
const SHAPES = [
  (x, y) => x * x + y * y <= 1,
  (x, y) => Math.max(Math.abs(x), Math.abs(y)) <= 0.85,
  (x, y) => y <= 0.9 && 2 * Math.abs(x) <= y + 1,
  (x, y) => Math.abs(x) + Math.abs(y) <= 1,
  (x, y) => y >= -0.9 && 2 * Math.abs(x) <= 1 - y,
  (x, y) => Math.min(Math.abs(x), Math.abs(y)) <= 0.3,
  (x, y) => Math.abs(Math.abs(x) - Math.abs(y)) <= 0.35,
  (x, y) => Math.abs(x) <= Math.abs(y),
];

/** Offsets of a shape's pixels at a radius, in an image of that width. */
function stamp(shape, radius, width) {
  const offsets = [];
  const r = Math.ceil(radius);
  for (let y = -r; y <= r; y++) for (let x = -r; x <= r; x++) if (shape(x / radius, y / radius)) offsets.push(y * width + x);
  return Int32Array.from(offsets);
}

/** Colours of the style sheet as pixels: the classes', then those of points without one, and of selected ones. */
function readInk() {
  const style = getComputedStyle(document.documentElement);
  const names = [...Array(N_COLOURS).keys()].map((i) => `--k${i}`).concat("--open", "--text");
  ink = names.map((name) => {
    const [r, g, b] = style.getPropertyValue(name).trim().slice(1).match(/../g).map((hex) => parseInt(hex, 16));
    return (0xff << 24) | (b << 16) | (g << 8) | r;
  });
}

function fit() {
  let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 2) {
    if (Number.isNaN(points[i])) continue;
    x0 = Math.min(x0, points[i]), x1 = Math.max(x1, points[i]);
    y0 = Math.min(y0, points[i + 1]), y1 = Math.max(y1, points[i + 1]);
  }
  const { clientWidth: width, clientHeight: height } = canvas;
  const scale = Math.min((width - 2 * MARGIN) / Math.max(1e-9, x1 - x0), (height - 2 * MARGIN) / Math.max(1e-9, y1 - y0));
  view = { scale, fitted: scale, x: (x0 + x1) / 2 - width / 2 / scale, y: (y0 + y1) / 2 - height / 2 / scale };
}

const ratio = () => Math.min(2, devicePixelRatio);

function sized() {
  for (const each of [canvas, over]) {
    const width = Math.round(each.clientWidth * ratio()), height = Math.round(each.clientHeight * ratio());
    if (each.width !== width || each.height !== height) Object.assign(each, { width, height });
  }
}

function radiusFor(n) {
  return ratio() * (n > 30000 ? 1 : n > 5000 ? 1.6 : n > 1000 ? 3 : 4.5);
}

function draw() {
  if (!points || $("map").hidden) return;
  sized();
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const radius = radiusFor(state.n / Math.max(1, (view.scale / view.fitted) ** 2));
  const stamps = SHAPES.map((shape) => stamp(radius < 2.5 ? SHAPES[1] : shape, radius, canvas.width));
  const ring = stamp(SHAPES[0], radius + 2 * ratio(), canvas.width);
  const { width, height } = canvas, scale = view.scale * ratio(), edge = Math.ceil(radius + 2 * ratio());
  const put = (row, offsets, colour) => {
    const x = Math.round((points[2 * row] - view.x) * scale), y = Math.round((points[2 * row + 1] - view.y) * scale);
    if (!(x > edge && y > edge && x < width - edge && y < height - edge)) return; // NaN too
    const at = y * width + x;
    for (let i = 0; i < offsets.length; i++) pixels[at + offsets[i]] = colour;
  };
  const point = (row) => {
    const known = state.classes.has(state.label[row]);
    put(row, known ? stamps[shapeOf(state.label[row])] : stamps[0], known ? ink[colourOf(state.label[row])] : ink[N_COLOURS]);
  };
  for (let row = 0; row < state.n; row++) point(row);
  for (const row of state.selection) put(row, ring, ink[N_COLOURS + 1]);
  for (const row of state.selection) point(row);
  context.putImageData(image, 0, 0);
  drawOver();
}

function trace(context, polygon) {
  context.beginPath();
  polygon.forEach(([x, y]) => context.lineTo(x, y));
}

/** Names at the middle of their classes, where they do not cover each other, and the lasso or the keyboard's frame. */
function drawOver(lasso = frame && corners(frame)) {
  const context = over.getContext("2d");
  context.setTransform(ratio(), 0, 0, ratio(), 0, 0);
  context.clearRect(0, 0, over.width, over.height);
  const style = getComputedStyle(document.documentElement);
  context.strokeStyle = context.fillStyle = style.getPropertyValue("--text");
  if (lasso) {
    trace(context, lasso);
    context.closePath();
    context.lineWidth = 1.5;
    context.globalAlpha = 0.08;
    context.fill();
    context.globalAlpha = 1;
    context.stroke();
  }
  context.font = "600 12px system-ui, sans-serif";
  context.textAlign = "center";
  context.lineWidth = 3;
  context.strokeStyle = style.getPropertyValue("--ground");
  const taken = [];
  middlesNow ??= middles();
  for (const middle of middlesNow) {
    const { name } = middle, x = (middle.x - view.x) * view.scale, y = (middle.y - view.y) * view.scale;
    const text = name.length > 28 ? `${name.slice(0, 27)}…` : name;
    const half = context.measureText(text).width / 2;
    if (taken.some((box) => Math.abs(box.y - y) < 14 && Math.abs(box.x - x) < box.half + half + 4)) continue;
    taken.push({ x, y, half });
    context.strokeText(text, x, y);
    context.fillText(text, x, y);
  }
}

const CELLS = 24; // the map is cut into so many squares a side to find where a class is densest

let middlesNow = null; // until the answers change

/** [{name, x, y}] where each class is densest; the largest classes first. */
function middles() {
  const sums = new Map(); // label -> square -> [sum of x, sum of y, number]
  const side = canvas.clientWidth / view.fitted / CELLS;
  for (let row = 0; row < state.n; row++) {
    const x = points[2 * row], y = points[2 * row + 1];
    if (Number.isNaN(x) || !state.classes.has(state.label[row])) continue;
    const squares = sums.get(state.label[row]) || new Map();
    const square = Math.floor(x / side) * 4096 + Math.floor(y / side);
    const sum = squares.get(square) || [0, 0, 0];
    sum[0] += x, sum[1] += y, sum[2]++;
    sums.set(state.label[row], squares.set(square, sum));
  }
  const densest = [...sums].map(([id, squares]) => [id, [...squares.values()].reduce((a, b) => (b[2] > a[2] ? b : a))]);
  densest.sort((a, b) => b[1][2] - a[1][2]);
  return densest.map(([id, [x, y, n]]) => ({ name: state.classes.get(id).name, x: x / n, y: y / n }));
}

function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const scale = view.scale * factor;
  Object.assign(view, { x: view.x + x / view.scale - x / scale, y: view.y + y / view.scale - y / scale, scale });
  requestDraw();
}

function pan(dx, dy) {
  view.x -= dx / view.scale;
  view.y -= dy / view.scale;
  requestDraw();
}

let asked = false;
function requestDraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
  });
}

/** Rows inside a polygon: the polygon is filled on a hidden canvas, and each point looks at its pixel. */
function inside(polygon) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  trace(context, polygon);
  context.fill();
  const { data } = context.getImageData(0, 0, width, height);
  const rows = [];
  for (let row = 0; row < state.n; row++) {
    const x = Math.round((points[2 * row] - view.x) * view.scale), y = Math.round((points[2 * row + 1] - view.y) * view.scale);
    if (x >= 0 && y >= 0 && x < width && y < height && data[4 * (y * width + x) + 3] > 127) rows.push(row);
  }
  return rows;
}

function nearest([x, y]) {
  let best = -1, least = NEAR * NEAR;
  for (let row = 0; row < state.n; row++) {
    const dx = (points[2 * row] - view.x) * view.scale - x, dy = (points[2 * row + 1] - view.y) * view.scale - y;
    if (dx * dx + dy * dy < least) [best, least] = [row, dx * dx + dy * dy];
  }
  return best;
}

const middle = ([a, b], [c, d]) => [(a + c) / 2, (b + d) / 2];
const apart = ([a, b], [c, d]) => Math.max(1, Math.hypot(c - a, d - b));

/** One finger or the left button draws a lasso, the right button moves, two fingers move and zoom. */
function pointer() {
  const down = new Map(); // pointer -> where it is
  let lasso = null;
  const at = (event) => [event.offsetX, event.offsetY];
  over.addEventListener("pointerdown", (event) => {
    over.setPointerCapture(event.pointerId);
    over.focus({ focusVisible: false });
    down.set(event.pointerId, at(event));
    lasso = event.button || down.size > 1 ? null : [at(event)];
  });
  over.addEventListener("pointermove", (event) => {
    if (!down.has(event.pointerId)) return;
    const [before, place] = [[...down.values()], at(event)];
    down.set(event.pointerId, place);
    if (lasso) {
      lasso.push(place);
      drawOver(lasso);
      return;
    }
    const now = [...down.values()], [from, to] = [before, now].map(([a, b = a]) => middle(a, b));
    pan(to[0] - from[0], to[1] - from[1]);
    if (now.length === 2) zoom(apart(...now) / apart(...before), ...to);
  });
  over.addEventListener("pointerup", (event) => {
    if (lasso) finish(lasso, event);
    leave(event);
  });
  over.addEventListener("pointercancel", leave);
  over.addEventListener("contextmenu", (event) => event.preventDefault());
  over.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 400), ...at(event));
  }, { passive: false });

  function leave(event) {
    down.delete(event.pointerId);
    lasso = null;
  }
}

function finish(lasso, event) {
  const adds = event.shiftKey || event.ctrlKey || event.metaKey;
  const base = adds ? [...state.selection] : [];
  if (lasso.length < 4) {
    const row = nearest(lasso[0]);
    if (row >= 0 && !adds) moveTo(row);
    else select(row >= 0 ? [...base, row] : base);
  } else {
    select([...base, ...inside(lasso)]);
    say(`${items(state.selection.size)} selected.`);
  }
  requestDraw();
}

const STEP = 20; // pixels that an arrow key moves the frame

/** Move the keyboard's frame, or with Shift its lower right corner; beyond the edge the map moves instead. */
function moveFrame(dx, dy, { shiftKey }) {
  const { clientWidth: right, clientHeight: bottom } = canvas;
  if (shiftKey) {
    frame.width = Math.max(STEP, Math.min(right - frame.x, frame.width + 2 * dx));
    frame.height = Math.max(STEP, Math.min(bottom - frame.y, frame.height + 2 * dy));
  } else {
    const x = Math.max(0, Math.min(right - frame.width, frame.x + dx)), y = Math.max(0, Math.min(bottom - frame.height, frame.y + dy));
    pan(x - frame.x - dx, y - frame.y - dy);
    Object.assign(frame, { x, y });
  }
  requestDraw();
}

const corners = ({ x, y, width, height }) => [[x, y], [x + width, y], [x + width, y + height], [x, y + height]];
const zoomFrame = (factor) => zoom(factor, frame.x + frame.width / 2, frame.y + frame.height / 2);

const KEYS = {
  "+": () => zoomFrame(1.3),
  "-": () => zoomFrame(1 / 1.3),
  ArrowLeft: (event) => moveFrame(-STEP, 0, event),
  ArrowRight: (event) => moveFrame(STEP, 0, event),
  ArrowUp: (event) => moveFrame(0, -STEP, event),
  ArrowDown: (event) => moveFrame(0, STEP, event),
  Enter: (event) => finish(corners(frame), event),
};

function press(event) {
  if (!view || !KEYS[event.key] || event.altKey) return;
  event.preventDefault();
  event.stopPropagation();
  const { clientWidth: width, clientHeight: height } = canvas;
  frame ??= { x: 0.4 * width, y: 0.4 * height, width: 0.2 * width, height: 0.2 * height };
  KEYS[event.key](event);
}

/** The frame is there while the keyboard is on the map. */
function hideFrame() {
  frame = null;
  requestDraw();
}

async function load() {
  if (points && complete) return;
  const encoded = !state.project.encoding.phase;
  $("map-wait").hidden = false;
  try {
    points = await api.map();
  } catch (error) {
    say(error.message, { error: true });
    return;
  }
  if (!points) {
    if (state.view.id === "map") setTimeout(enter, 700);
    return;
  }
  $("map-wait").hidden = true;
  complete = encoded;
  middlesNow = null;
  fit();
}

async function enter() {
  $("map").hidden = state.view.id !== "map";
  $("grid").hidden = !$("map").hidden;
  if ($("map").hidden) return;
  await load();
  draw();
}

export function init() {
  canvas = $("map-points");
  over = $("map-over");
  readInk();
  pointer();
  over.addEventListener("keydown", press);
  over.addEventListener("blur", hideFrame);
  $("zoom-in").onclick = () => zoom(1.3);
  $("zoom-out").onclick = () => zoom(1 / 1.3);
  $("zoom-fit").onclick = () => {
    fit();
    requestDraw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    readInk();
    requestDraw();
  });
  new ResizeObserver(settled(requestDraw, 50)).observe($("map"));
  on("view", enter);
  on("selection", requestDraw);
  on("answers project", () => {
    middlesNow = null;
    requestDraw();
  });
}

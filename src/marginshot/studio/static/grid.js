/* The items of a view as a virtual grid: fixed cells, every position by arithmetic, only the lines on screen in the page. */

import { count, el, fillName, name, settled } from "./dom.js";
import { matesOf } from "./events.js";
import { isHidden, labelName, markClass, percentOf, shownLabel, spoken, thumb, verdict } from "./labels.js";
import { ACCEPTED, CHECKED, FOREIGN, on, READY, state, UNANSWERED, UNREADABLE, want } from "./store.js";

const HEAD = 34; // height of a section's head
const OVERSCAN = 300; // pixels drawn above and below the screen
const FAST = 2500; // pixels between two frames above which pictures load after scrolling has stopped
const SHAPES = { image: { width: 132, ratio: 1, caption: 24 }, text: { width: 250, height: 86 }, name: { width: 170, height: 48 } };

let root, shows, columns, cellWidth, cellHeight;
let tops = []; // top of every section, and the end of the last
let lines = new Map(); // place of its first item -> element
let size = 132; // pixels that a cell is wide at least
let lastTop = 0;

export function init(element) {
  root = element;
  root.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  new ResizeObserver(layout).observe(root);
  on("view", () => {
    layout();
    root.scrollTop = 0;
  });
  on("answers items selection", repaint);
  on("answers", settled(retitle, 30));
  on("project", () => {
    if (shows !== state.project.shows) layout();
    for (const line of lines.values()) for (const cell of line.children) cell.painted = "";
    repaint();
    heads();
  });
}

export function setSize(pixels) {
  size = pixels;
  if (!root) return;
  const row = state.view.order[firstPlace()];
  layout();
  if (row !== undefined) reveal(row, "top");
}

/** Sections are real blocks (so that heads stick); lines inside them are placed by arithmetic. */
function layout() {
  if (!state.project) return;
  shows = state.project.shows;
  const shape = SHAPES[shows];
  const width = root.clientWidth - 8;
  const wanted = shows === "image" ? size : Math.min(width, (shape.width * size) / 132);
  columns = Math.max(1, Math.floor(width / wanted));
  cellWidth = Math.floor(width / columns);
  cellHeight = shows === "image" ? cellWidth + shape.caption : shape.height;
  lines = new Map();
  tops = [0];
  for (const { start, stop } of state.view.sections) {
    tops.push(tops.at(-1) + HEAD + Math.ceil((stop - start) / columns) * cellHeight);
  }
  root.replaceChildren(...state.view.sections.map(sectionBlock));
  root.setAttribute("aria-rowcount", state.view.order.length);
  draw();
}

function sectionBlock(section, s) {
  const block = el("div", { class: "section", role: "rowgroup" });
  block.style.height = `${tops[s + 1] - tops[s]}px`;
  block.append(el("div", { class: "head", role: "row" }));
  return block;
}

let headOf = () => [];

/** `make(section)` gives the controls of a section's head. */
export function setHeads(make) {
  headOf = make;
}

function heads() {
  state.view.sections.forEach((section, s) => {
    const parts = [el("i"), name(section.title), el("span", { class: "muted" })];
    root.children[s]?.firstChild.replaceChildren(el("div", { role: "gridcell" }, parts, headOf(section)));
  });
  retitle();
}

/** New answers leave items where they are: the head says how many of a group still have its label. */
function retitle() {
  state.view.sections.forEach(({ label, title, start, stop }, s) => {
    const [shape, words, number] = root.children[s]?.firstChild.firstChild?.children ?? [];
    if (!words) return;
    const rows = [...state.view.order.subarray(start, stop)].flatMap(matesOf);
    const n = rows.length;
    const still = label === undefined ? n : rows.filter((row) => state.label[row] === label).length;
    const over = label === UNANSWERED && !still;
    shape.className = label === undefined || over ? "" : markClass(label);
    fillName(words, over ? "All of these have a label now" : state.classes.get(label)?.name ?? title);
    const elsewhere = n - still;
    number.textContent = !elsewhere || over ? count(n) : `${count(n)}, ${count(elsewhere)} of them ${elsewhere === 1 ? "has" : "have"} another label now`;
  });
}

const sectionAt = (y) => Math.max(0, tops.findIndex((top) => top > y) - 1);
const sectionOf = (place) => state.view.sections.findIndex((section) => place < section.stop);

/** First place on screen. */
function firstPlace() {
  const section = state.view.sections[sectionAt(root.scrollTop)];
  if (!section) return -1;
  const line = Math.floor(Math.max(0, root.scrollTop - tops[sectionAt(root.scrollTop)] - HEAD) / cellHeight);
  return Math.min(section.start + line * columns, section.stop - 1);
}

export const isScrolled = () => root.scrollTop > 0;
export const perScreen = () => columns * Math.max(1, Math.floor(root.clientHeight / cellHeight));

/** Places of the first items of all lines between two heights. */
function* linesBetween(from, to) {
  for (let s = sectionAt(from); s < state.view.sections.length && tops[s] < to; s++) {
    const { start, stop } = state.view.sections[s];
    const first = Math.max(0, Math.floor((from - tops[s] - HEAD) / cellHeight));
    const last = Math.min(Math.ceil((stop - start) / columns), Math.ceil((to - tops[s] - HEAD) / cellHeight));
    for (let line = first; line < last; line++) yield { s, line, place: start + line * columns };
  }
}

function draw() {
  const fast = Math.abs(root.scrollTop - lastTop) > FAST;
  lastTop = root.scrollTop;
  const kept = new Map();
  const spare = new Map(lines);
  const missing = [];
  for (const at of linesBetween(root.scrollTop - OVERSCAN, root.scrollTop + root.clientHeight + OVERSCAN)) {
    const line = lines.get(at.place);
    if (line) {
      kept.set(at.place, line);
      spare.delete(at.place);
    } else missing.push(at);
  }
  const recycled = [...spare.values()];
  for (const at of missing) kept.set(at.place, fill(recycled.pop() || newLine(), at));
  for (const line of recycled) line.remove();
  lines = kept;
  if (!root.children[0]?.firstChild.firstChild) heads();
  pointAtCursor();
  if (fast) loadLater();
  else load();
}

function newLine() {
  const cells = Array.from({ length: columns }, newCell);
  return el("div", { class: "line", role: "row" }, cells);
}

function newCell() {
  // The name of the cell says all of it in words; `spoken` makes it.
  const text = el("p", { dir: "auto", "aria-hidden": "true" }); // of a picture: why it is not shown
  const image = shows === "image" ? el("img", { alt: "", draggable: false, decoding: "async" }) : null;
  if (image) image.onerror = () => image.classList.add("broken");
  const parts = [el("i"), el("bdi", { class: "name", dir: "auto" }), el("b")];
  const cell = el("div", { role: "gridcell", class: "cell" }, image, text, " ", el("div", { class: "caption", "aria-hidden": "true" }, parts));
  const strip = el("div", { class: "strip", "aria-hidden": "true", hidden: true });
  if (image) cell.append(strip);
  Object.assign(cell, { image, text, parts, strip, painted: "" });
  return cell;
}

function fill(line, { s, line: number, place }) {
  const { stop } = state.view.sections[s];
  line.style.transform = `translateY(${HEAD + number * cellHeight}px)`;
  line.style.height = `${cellHeight}px`;
  line.setAttribute("aria-rowindex", place + 1);
  [...line.children].forEach((cell, column) => {
    const there = place + column < stop;
    cell.hidden = !there;
    cell.row = there ? state.view.order[place + column] : -1;
    cell.style.width = `${cellWidth}px`;
    cell.painted = "";
    cell.image?.removeAttribute("src"); // an old picture must not stand beside a new caption
    cell.image?.classList.remove("broken");
    cell.strip.replaceChildren(...(there && cell.image ? stripOf(cell.row) : []));
    cell.strip.hidden = !cell.strip.children.length;
    if (there) paint(cell);
  });
  if (line.parentNode !== root.children[s]) root.children[s].append(line);
  return line;
}

const STRIP = 4; // further pictures of an event that its cell shows

/** The other pictures of an event, small, and how many there are in all. */
function stripOf(row) {
  const rows = matesOf(row);
  if (rows.length < 2) return [];
  const others = rows.filter((mate) => mate !== row).slice(0, STRIP);
  return [...others.map((mate) => el("img", { src: thumb(mate), alt: "", draggable: false, loading: "lazy" })), el("b", {}, count(rows.length))];
}

/** Pictures, names and texts of what is on screen. */
function load() {
  const rows = [];
  for (const line of lines.values()) {
    for (const cell of line.children) {
      if (cell.row < 0) continue;
      rows.push(cell.row);
      const readable = !(state.flags[cell.row] & UNREADABLE);
      if (readable && cell.image && !cell.image.hasAttribute("src")) cell.image.src = thumb(cell.row);
    }
  }
  want(rows);
}

const loadLater = settled(load, 90);

function paint(cell) {
  const { row } = cell;
  const label = shownLabel(row), flags = state.flags[row], selected = state.selection.has(row);
  const item = state.items.get(row);
  const painted = `${label} ${state.confidence[row]} ${flags} ${selected} ${state.cursor === row} ${Boolean(item)}`;
  if (cell.painted === painted) return;
  cell.painted = painted;
  const [shape, words, probability] = cell.parts;
  cell.id = `item-${row}`;
  cell.className = `cell${selected ? " selected" : ""}${state.cursor === row ? " cursor" : ""}${flagClass(row)}`;
  cell.setAttribute("aria-selected", selected);
  cell.setAttribute("aria-label", spoken(row));
  shape.className = markClass(label);
  fillName(words, labelName(label));
  probability.textContent = ` ${verdict(row) || percentOf(row)}`; // parted from the name also for who hears it
  if (cell.image) cell.text.textContent = item ? `${item.name}: ${item.problem || "cannot be shown"}` : "";
  else cell.text.textContent = item ? item.text || item.name : "…";
  cell.title = item ? item.name : "";
}

function flagClass(row) {
  const flags = state.flags[row];
  if (flags & UNREADABLE) return " unreadable";
  if (flags & CHECKED) return " checked";
  if (flags & ACCEPTED) return " accepted";
  if (!(flags & READY)) return " waiting";
  return flags & FOREIGN && !isHidden(row) ? " foreign" : "";
}

/** What a screen reader follows: the cursor's cell, where it is in the page. */
function pointAtCursor() {
  const cell = document.getElementById(`item-${state.cursor}`);
  if (cell && !cell.hidden && root.contains(cell)) root.setAttribute("aria-activedescendant", cell.id);
  else root.removeAttribute("aria-activedescendant");
}

function repaint() {
  for (const line of lines.values()) for (const cell of line.children) if (cell.row >= 0) paint(cell);
  pointAtCursor();
}

/** Height of a place's line in the scrolled content. */
function topOf(place) {
  const s = sectionOf(place);
  return tops[s] + HEAD + Math.floor((place - state.view.sections[s].start) / columns) * cellHeight;
}

/** Scroll as little as needed to show a row, or to bring it to the top. */
export function reveal(row, where = "nearest") {
  const place = state.view.place[row];
  if (place === undefined || place < 0) return;
  const top = topOf(place);
  if (where === "top" || top - HEAD < root.scrollTop) root.scrollTop = top - HEAD;
  else if (top + cellHeight > root.scrollTop + root.clientHeight) root.scrollTop = top + cellHeight - root.clientHeight;
}

/** The place one step away: "left", "right", "up", "down", "pageup", "pagedown", "home", "end", "[" or "]". */
export function step(place, direction) {
  const { sections, order } = state.view;
  const last = order.length - 1;
  if (place < 0) return Math.min(last, Math.max(0, firstPlace()));
  const s = sectionOf(place);
  const column = (place - sections[s].start) % columns;
  const clamp = (to) => Math.max(0, Math.min(last, to));
  switch (direction) {
    case "left": return clamp(place - 1);
    case "right": return clamp(place + 1);
    case "home": return 0;
    case "end": return last;
    case "[": return sections[Math.max(0, s - 1)].start;
    case "]": return sections[Math.min(sections.length - 1, s + 1)].start;
    case "pageup": case "pagedown": {
      const step1 = direction === "pageup" ? "up" : "down";
      for (let i = perScreen() / columns; i > 0; i--) place = step(place, step1);
      return place;
    }
    case "down": {
      if (place + columns < sections[s].stop) return place + columns;
      const lastLine = Math.floor((sections[s].stop - 1 - sections[s].start) / columns) * columns + sections[s].start;
      if (place < lastLine) return sections[s].stop - 1;
      const next = sections[s + 1];
      return next ? Math.min(next.start + column, next.stop - 1) : place;
    }
    default: {
      if (place - columns >= sections[s].start) return place - columns;
      const previous = sections[s - 1];
      if (!previous) return place;
      const lines = Math.floor((previous.stop - 1 - previous.start) / columns);
      return Math.min(previous.start + lines * columns + column, previous.stop - 1);
    }
  }
}

/** Rows of all cells that a frame touches; the corners are in pixels of the scrolled content. */
export function rowsInFrame(x0, y0, x1, y1) {
  const rows = [];
  const from = Math.max(0, Math.floor(x0 / cellWidth)), to = Math.min(columns - 1, Math.floor(x1 / cellWidth));
  for (const { s, place } of linesBetween(y0, y1)) {
    const { stop } = state.view.sections[s];
    for (let column = from; column <= to && place + column < stop; column++) rows.push(state.view.order[place + column]);
  }
  return rows;
}

export const rowAt = (target) => target.closest?.(".cell")?.row ?? -1;

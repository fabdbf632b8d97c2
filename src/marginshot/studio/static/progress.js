/* Progress: the head line, encoding with time left, expected accuracy and its curve, the audit, problems. */

import { $, count, duration, el, items, labels, name, percent, sentence, share, svg } from "./dom.js";
import { on, state } from "./store.js";

/** "91 % (88–94)" */
export const estimate = ([value, low, high]) => `${share(value)} (${Math.round(100 * low)}–${Math.round(100 * high)})`;

const WIDTH = 260, HEIGHT = 120, LEFT = 38, BOTTOM = 16;

/** Expected accuracy over the labels given; where a number of labels was solved more than once, the last one counts. */
function curve(solved) {
  const points = [...new Map(solved)].sort((a, b) => a[0] - b[0]);
  const last = points.at(-1)[0], lowest = Math.min(0.9, ...points.map((point) => point[1]));
  const bottom = Math.floor(10 * lowest) / 10;
  const x = (n) => LEFT + ((WIDTH - LEFT - 6) * n) / Math.max(1, last);
  const y = (p) => 6 + (HEIGHT - BOTTOM - 6) * (1 - (p - bottom) / (1 - bottom));
  const line = points.map(([n, p], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(p).toFixed(1)}`).join("");
  const level = (p) => [
    svg("path", { class: "level", d: `M${LEFT} ${y(p)}H${WIDTH - 6}` }),
    svg("text", { x: LEFT - 4, y: y(p) + 3, "text-anchor": "end" }, percent(p)),
  ];
  const [n, p] = points[0];
  const title = `Expected accuracy from ${percent(p)} at ${labels(n)} to ${percent(points.at(-1)[1])} at ${labels(last)}`;
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title, class: "curve" },
    ...level(1), ...level((1 + bottom) / 2), ...level(bottom),
    svg("path", { class: "rise", d: line }),
    svg("circle", { class: "dot", cx: x(last), cy: y(points.at(-1)[1]), r: 3 }),
    svg("text", { x: WIDTH - 6, y: HEIGHT - 3, "text-anchor": "end" }, `${labels(last)} given`),
  );
}

function drawEncoding() {
  const { phase, done, total, seconds_left: left, error } = state.project.encoding;
  $("broken").hidden = !error;
  $("broken").textContent = error ? `Items cannot be read: ${error} Stop the studio and start it again with another --encoder, or without.` : "";
  $("encoding").hidden = !phase;
  if (!phase) return;
  const time = left === null || left === undefined ? "" : `, ${duration(left)} left`;
  const far = total ? `: ${count(done)} of ${count(total)}${time}` : "";
  $("encoding-words").textContent = `${sentence(phase + far)} You can begin to label.`;
  if (total) Object.assign($("encoding-bar"), { max: total, value: done });
  else $("encoding-bar").removeAttribute("value");
}

function drawHead() {
  const { project } = state;
  document.title = `${project.name} · marginshot studio`;
  $("project").replaceChildren(name(project.name));
  $("numbers").textContent = `${items(project.n_items)} · ${count(project.n_labelled)} labelled`;
  $("expected").textContent = project.expected ? `Expected accuracy ${estimate(project.expected)}` : "";
  for (const [id, words] of [["undo", project.can_undo], ["redo", project.can_redo]]) {
    $(id).disabled = !words;
    $(id).title = words ? `${$(id).textContent}: ${words}` : "";
  }
}

const fact = (words, value) => el("div", { class: "fact" }, el("dt", {}, words), el("dd", {}, value));

function listOf(id, title, rows) {
  if (!rows.length) return [];
  const list = el("ul", {}, rows.map((row) => el("li", { dir: "auto" }, row)));
  return [el("details", { id, open: $(id)?.open ?? false }, el("summary", {}, title), list)];
}

function drawProgress() {
  const { project } = state;
  const facts = [
    project.expected ? fact("Expected accuracy, all items", estimate(project.expected)) : null,
    project.open ? fact(`Of the ${count(project.open[0])} not labelled by you`, share(project.open[1])) : null,
    project.audit?.result ? fact("By random check, answers of then", estimate(project.audit.result)) : null,
    fact("Labels given", count(project.n_labelled)),
    project.n_none ? fact("None of these", count(project.n_none)) : null,
  ];
  $("progress").replaceChildren(
    el("dl", { class: "facts-list" }, facts),
    ...(new Set(project.curve.map(([n]) => n)).size > 1 ? [el("h3", {}, "Expected accuracy"), curve(project.curve)] : []),
    ...listOf("unread", `${items(project.n_unread)} cannot be read`, project.problems.map(([item, reason]) => `${item}: ${reason}`)),
    ...listOf("notes", "The source has changed", project.notes),
    ...listOf("missing", "Gone from the source", project.missing),
  );
}

export function init() {
  on("project", () => {
    drawEncoding();
    drawHead();
    drawProgress();
  });
}

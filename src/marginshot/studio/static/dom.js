/* Elements from data. Text only ever becomes a text node, so that no name can become markup. */

export const $ = (id) => document.getElementById(id);

/** el("button", {class: "quiet", onclick: f, "aria-label": "Undo"}, "text", child, null) */
export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (key === "class") node.className = value;
    else if (key.startsWith("on") || key in node) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

const LONG = 11, BACK = 6; // letters of a name that is cut in the middle where room is scarce, and of its end
const letters = new Intl.Segmenter();

/** Put a name into an element. Where it is too long its middle is left out: names often differ only at the end. */
export function fillName(node, text) {
  node.title = text;
  const split = [...letters.segment(text.slice(0, 300))].map(({ segment }) => segment);
  if (split.length < LONG || text.length > 300 || /[\u0590-\u08ff]/.test(text)) node.replaceChildren(text);
  else {
    const front = el("span", { class: "front" }, split.slice(0, -BACK).join(""));
    node.replaceChildren(front, el("span", { class: "back" }, split.slice(-BACK).join("")));
  }
  node.classList.toggle("split", node.childElementCount > 0);
  return node;
}

/** A name or text of the user's: isolated, and in its own writing direction. */
export const name = (text, className = "name") => fillName(el("bdi", { class: className, dir: "auto" }), text);

const called = (node) => node.dataset.key || node.getAttribute("aria-label") || node.textContent;

/** What finds an element again after its part was drawn anew: itself, and what it is called. */
export const sameAs = (node) => ({ node, name: node && node !== document.body ? called(node) : null });

/** Focus what `sameAs` described, or what is called like it within `parent`; returns whether there is such a thing. */
export function focusLike(parent, { node, name }) {
  if (name === null) return false;
  const there = parent.contains(node) ? node : [...parent.querySelectorAll("button, input")].find((other) => called(other) === name);
  there?.focus();
  return Boolean(there);
}

/** Put new children in, and leave the keyboard on the one that is called as the one it was on. */
export function refill(parent, children) {
  const focused = parent.contains(document.activeElement) ? sameAs(document.activeElement) : null;
  parent.replaceChildren(...children);
  if (focused) focusLike(parent, focused);
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const whole = new Intl.NumberFormat("en");
export const count = (n) => whole.format(n);
const counted = (word) => (n) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
export const items = counted("item"), labels = counted("label");
export const percent = (p, digits = 0) => `${(100 * p).toFixed(digits)} %`;

/** Shares below 1 % keep a digit: "0.4 %". Certainty is not printed for what is only nearly certain. */
export function share(p) {
  if (p > 0.99 && p < 1) return percent(Math.min(p, 0.999), 1);
  return percent(p, p >= 0.0005 && p < 0.01 ? 1 : 0);
}

/** 'undone: label 2 items' -> 'Undone: label 2 items.' */
export const sentence = (words) => (/[.!?…]$/.test(words) ? words : `${words}.`).replace(/^./u, (letter) => letter.toUpperCase());

export function duration(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

/** Call `work` once, `wait` milliseconds after the last request for it. */
export function settled(work, wait) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, wait);
  };
}

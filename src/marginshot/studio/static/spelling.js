/* Names of classes that may be meant by a new name with a typing error. */

import { ask } from "./dialog.js";
import { state } from "./store.js";

const SHORTEST = 4; // letters; shorter names differ by one letter too often

/** Two names but for what they begin and end with alike: the parts that differ, and whether each is a word of its own. */
function difference(a, b) {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const isWord = (text) => !/[\p{L}\p{N}]/u.test((text[start - 1] ?? "") + (text[text.length - end] ?? ""));
  return [a.slice(start, a.length - end), b.slice(start, b.length - end), isWord(a) && isWord(b)];
}

/** One letter more, less or other, or two swapped. Numbers and single letters ("type A") are there to differ. */
export function isTypo(typed, known) {
  const [a, b] = [typed.toLowerCase(), known.toLowerCase()];
  if (a === b || Math.min(a.length, b.length) < SHORTEST) return false;
  const [x, y, isWord] = difference(a, b);
  if (isWord || /\d/.test(x + y)) return false;
  return x.length + y.length === 1 || (x.length === 1 && y.length === 1) || (x.length === 2 && x === [...y].reverse().join(""));
}

/** The name to use for a class called `typed`: it, or a known one that was meant; null where the question was closed. */
export async function meant(typed, except = null) {
  const names = [...state.classes.values()].filter(({ id }) => id !== except).map(({ name }) => name);
  const near = names.includes(typed) ? null : names.find((name) => isTypo(typed, name));
  if (!near) return typed;
  return ask(`Did you mean ${near}?`, `There is a class “${near}”. “${typed}” would be another one.`, [
    [`Use ${near}`, near],
    [`New class ${typed}`, typed],
  ]);
}

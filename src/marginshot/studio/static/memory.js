/* What a page remembers of a source between two visits: the view, the target, the size of items. Never what was labelled. */

import { state } from "./store.js";

const where = () => `marginshot ${state.project.source}`;
let unsaved = {}; // where the browser keeps nothing

export function recall() {
  try {
    return { ...JSON.parse(localStorage.getItem(where()) || "{}"), ...unsaved };
  } catch (error) {
    if (!(error instanceof DOMException || error instanceof SyntaxError)) throw error;
    return unsaved;
  }
}

export function remember(changes) {
  unsaved = { ...unsaved, ...changes };
  try {
    localStorage.setItem(where(), JSON.stringify(recall()));
  } catch (error) {
    if (!(error instanceof DOMException)) throw error; // full, or forbidden: it holds until the page is closed
  }
}

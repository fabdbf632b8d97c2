/* The page: starts every part and listens to the server. Data flow one way: server -> store -> parts. */

import * as actions from "./actions.js";
import { listen } from "./api.js";
import * as bar from "./bar.js";
import * as classes from "./classes.js";
import { acceptAll, help } from "./dialogs.js";
import { $ } from "./dom.js";
import { takeAway } from "./export.js";
import * as grid from "./grid.js";
import * as item from "./item.js";
import * as keys from "./keys.js";
import * as map from "./map.js";
import * as progress from "./progress.js";
import * as select from "./select.js";
import { fetchAnswers, fetchProject, on, refresh, say, state, tell } from "./store.js";
import * as toolbar from "./toolbar.js";

const ENCODED_EVERY = 1500; // milliseconds between two requests for newly encoded items

let lastLook = 0;

function encoding(progressNow) {
  if (!state.project) return;
  state.project.encoding = progressNow;
  tell("project");
  if (progressNow.phase && performance.now() - lastLook < ENCODED_EVERY) return;
  lastLook = performance.now();
  fetchAnswers();
  if (!progressNow.phase) fetchProject();
}

function connected(yes) {
  state.connected = yes;
  $("lost").hidden = yes;
}

/** On a phone the three parts are pages; on a desk they stand side by side. */
function turnTo(part) {
  document.body.dataset.part = part;
  for (const button of $("parts").children) button.setAttribute("aria-pressed", String(button.dataset.part === part));
}

function start() {
  for (const part of [progress, classes, item, bar, toolbar, map]) part.init();
  grid.init($("grid"));
  select.init($("grid"));
  keys.init();
  $("undo").onclick = actions.undo;
  $("redo").onclick = actions.redo;
  $("accept").onclick = acceptAll;
  $("export").onclick = takeAway;
  $("help").onclick = help;
  for (const button of $("parts").children) button.onclick = () => turnTo(button.dataset.part);
  on("turn", () => turnTo("items"));
  turnTo("items");
  $("grid").focus();
  refresh();
  listen({
    opened: () => connected(true),
    lost: () => connected(false),
    state: ({ version }) => (version > state.newest ? refresh() : fetchProject()),
    answers: refresh,
    encoding,
    error: ({ message }) => say(message, { error: true }),
  });
}

start();

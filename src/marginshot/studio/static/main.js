/* The page: starts every part and listens to the server. Data flow one way: server -> store -> parts. */

import * as actions from "./actions.js";
import { listen, OldPageError } from "./api.js";
import * as bar from "./bar.js";
import * as classes from "./classes.js";
import { acceptAll, help } from "./dialogs.js";
import { $ } from "./dom.js";
import { exportAll, exporting } from "./export.js";
import * as filter from "./filter.js";
import * as guide from "./guide.js";
import * as grid from "./grid.js";
import * as item from "./item.js";
import * as keys from "./keys.js";
import * as map from "./map.js";
import * as progress from "./progress.js";
import * as select from "./select.js";
import { fetchAnswers, fetchProject, isOtherRun, on, put, refresh, say, state, tell } from "./store.js";
import * as toolbar from "./toolbar.js";

const ENCODED_EVERY = 1500; // milliseconds between two requests for newly encoded items
let lastLook = 0;

function encoding(progressNow) {
  if (!state.project) return;
  put({ project: { ...state.project, encoding: progressNow } });
  tell("project");
  if (progressNow.phase && performance.now() - lastLook < ENCODED_EVERY) return;
  lastLook = performance.now();
  fetchAnswers();
  if (!progressNow.phase) fetchProject();
}

const GONE = "The studio does not answer. What you did is kept: start marginshot studio again, on the same source. This page goes on by itself once the new one is open in this browser.";

/** Say at the top why nothing works; `reason` is an error where the server answered with one. */
function lost(reason) {
  put({ connected: false });
  $("lost").hidden = false;
  $("lost").textContent = reason instanceof OldPageError ? reason.message : GONE;
}

function found() {
  put({ connected: true });
  $("lost").hidden = true;
}

const PLACE = /^\/[0-9a-f]{32}\/$/;

/** A page of a new run tells those of earlier runs in this browser where it is; they follow it. */
function meet() {
  const channel = new BroadcastChannel("marginshot");
  channel.onmessage = ({ data }) => {
    const same = data?.source && data.source === state.project?.source;
    if (!state.connected && same && PLACE.test(data.place)) location.replace(data.place);
  };
  return () => channel.postMessage({ source: state.project.source, place: location.pathname });
}

/** On a phone the three parts are pages; on a desk they stand side by side. */
function turnTo(part) {
  document.body.dataset.part = part;
  for (const button of $("parts").children) button.setAttribute("aria-pressed", String(button.dataset.part === part));
}

function start() {
  for (const part of [progress, classes, item, bar, toolbar, map, guide, filter]) part.init();
  grid.init($("grid"));
  select.init($("grid"));
  keys.init();
  $("undo").onclick = actions.undo;
  $("redo").onclick = actions.redo;
  $("accept").onclick = acceptAll;
  $("export").onclick = exportAll;
  $("help").onclick = help;
  for (const button of $("parts").children) button.onclick = () => turnTo(button.dataset.part);
  on("turn", () => turnTo("items"));
  turnTo("items");
  $("grid").focus();
  const greet = meet();
  refresh().then(() => {
    if (!state.project) return;
    greet();
    toolbar.sayNews();
  });
  listen({
    opened: found,
    lost,
    reopened: ({ run }) => isOtherRun(run) && location.reload(),
    export: exporting,
    state: ({ version }) => (version > state.newest ? refresh() : fetchProject()),
    answers: refresh,
    encoding,
    error: ({ message }) => say(message, { error: true }),
  });
}

start();

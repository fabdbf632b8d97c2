/* Taking the result away: what, where, a dry run that says what would be written, and the command that repeats it. */

import { post } from "./api.js";
import { button, open } from "./dialogs.js";
import { count, el } from "./dom.js";
import { state } from "./store.js";

// What can be written, whether only of pictures, and the file it is by default; without one it is a folder.
const WHAT = [
  { id: "table", words: "Table: CSV or Parquet, one line an item", file: "labels.csv" },
  { id: "folders", words: "Class folders with the pictures", onlyPictures: true },
  { id: "model", words: "Model for marginshot apply", file: "model" },
  { id: "label-studio", words: "Label Studio" },
  { id: "fiftyone", words: "FiftyOne", onlyPictures: true },
  { id: "bulk", words: "bulk: labels and map as a table" },
];

function planTable(plan, n) {
  const rows = plan.map(([from, to]) => el("tr", {}, el("td", { dir: "auto" }, from), el("td", { dir: "auto" }, to)));
  const more = n > plan.length ? [el("p", { class: "muted" }, `… and ${count(n - plan.length)} more.`)] : [];
  return [el("div", { class: "plan", tabIndex: 0, "aria-label": "Plan" }, el("table", {}, el("tbody", {}, rows))), ...more];
}

function result({ words, files, n_pictures, plan, command }, dry) {
  const parts = [el("p", { class: dry ? "" : "done" }, words)];
  if (plan?.length) parts.push(...planTable(plan, n_pictures));
  else if (files?.length) parts.push(el("ul", {}, files.slice(0, 20).map((file) => el("li", { dir: "auto" }, file))));
  if (command) {
    const line = el("code", { tabIndex: 0 }, command);
    const copy = button("Copy", () => navigator.clipboard.writeText(command).then(() => (copy.textContent = "Copied")));
    parts.push(el("h3", {}, "The command that repeats it"), el("div", { class: "command" }, line, copy));
  }
  return parts;
}

export function takeAway() {
  open("Take it away", () => {
    const pictures = state.project.kind === "picture";
    const offered = WHAT.filter(({ onlyPictures }) => pictures || !onlyPictures);
    const what = el("select", { "aria-label": "What" }, offered.map(({ id, words }) => el("option", { value: id }, words)));
    const path = el("input", { "aria-label": "Where", dir: "auto", required: true, spellcheck: false });
    const transfer = el("select", { "aria-label": "Pictures" }, ["copy", "link", "move"].map((way) => el("option", { value: way }, way)));
    const transferRow = el("label", {}, "Pictures ", transfer);
    const force = el("input", { type: "checkbox" });
    const outcome = el("div", { class: "outcome", role: "status" });
    const write = el("button", { class: "main" }, "Write");

    function chosen() {
      const { folder } = state.project;
      const { file } = WHAT.find(({ id }) => id === what.value);
      path.value = file || !pictures ? `${folder}/${file || "labels.csv"}` : folder;
      transferRow.hidden = what.value !== "folders";
      outcome.replaceChildren();
    }

    async function run(dry) {
      write.disabled = true;
      outcome.replaceChildren(el("p", { class: "muted" }, dry ? "Looking …" : "Writing …"));
      const wish = { what: what.value, path: path.value, transfer: transfer.value, dry_run: dry, force: force.checked };
      try {
        outcome.replaceChildren(...result(await post("api/export", wish), dry));
      } catch (error) {
        outcome.replaceChildren(el("p", { class: "problem" }, error.message));
      }
      write.disabled = false;
    }

    what.onchange = chosen;
    chosen();
    const onsubmit = (event) => {
      event.preventDefault();
      run(false);
    };
    return [
      el(
        "form",
        { class: "export", onsubmit },
        el("label", {}, "What ", what),
        el("label", {}, "Where ", path),
        transferRow,
        el("label", {}, force, " Replace what is there"),
        el("div", { class: "buttons" }, button("Dry run", () => run(true)), write),
      ),
      outcome,
    ];
  });
}

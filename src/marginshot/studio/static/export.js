/* Export: what and where, a look at what would be written, progress, the path written, or a download. */

import { post } from "./api.js";
import { button, open } from "./dialog.js";
import { count, el, sentence } from "./dom.js";
import { state } from "./store.js";

// What can be written, whether only of pictures, and the file it is by default; without one it is a folder.
const WHAT = [
  { id: "table", words: "Table: CSV or Parquet, one line an item", file: "labels.csv" },
  { id: "folders", words: "Class folders with the pictures", onlyPictures: true },
  { id: "model", words: "Model for marginshot apply", file: "model" },
  { id: "label-studio", words: "Label Studio" },
  { id: "fiftyone", words: "FiftyOne", onlyPictures: true },
  { id: "xmp", words: "XMP sidecars: labels as keywords, for photo managers", onlyPictures: true },
  { id: "huggingface", words: "Hugging Face: metadata.jsonl for the folder of the files", onlyPictures: true },
  { id: "yolo-cls", words: "YOLO: an archive with the pictures, for training a classifier", onlyPictures: true },
  { id: "bulk", words: "bulk: labels and map as a table" },
  { id: "boxes", words: "The detector's file with the classes of its boxes", onlyBoxes: true },
  { id: "camtrap-dp", words: "Camtrap DP: deployments, media, observations", inFolder: true },
];

function planTable(plan, n) {
  const rows = plan.map(([from, to]) => el("tr", {}, el("td", { dir: "auto" }, from), el("td", { dir: "auto" }, to)));
  const more = n > plan.length ? [el("p", { class: "muted" }, `… and ${count(n - plan.length)} more.`)] : [];
  return [el("div", { class: "plan", tabIndex: 0, role: "group", "aria-label": "Plan" }, el("table", {}, el("tbody", {}, rows))), ...more];
}

function fileList(files) {
  return el("ul", { class: "files" }, files.slice(0, 20).map((file) => el("li", { dir: "auto" }, file)));
}

function result({ words, files, n_pictures, plan, command }, dry) {
  const parts = [el("p", { class: dry ? "" : "done" }, dry ? "This would be written; nothing is written yet." : `✓ ${words}`)];
  if (files?.length) parts.push(fileList(files));
  if (plan?.length) parts.push(...planTable(plan, n_pictures));
  if (command) {
    const line = el("code", { tabIndex: 0 }, command);
    const copy = button("Copy", () => navigator.clipboard.writeText(command).then(() => (copy.textContent = "Copied")));
    parts.push(el("h3", {}, "The command that repeats it"), el("div", { class: "command" }, line, copy));
  }
  return parts;
}

/** How far the server is; the event `export` moves it. */
function waiting(words) {
  return [el("p", { class: "waiting" }, words), el("progress", { "aria-label": words })];
}

export function exporting({ phase, done, total }) {
  const bar = document.querySelector("dialog progress"), words = document.querySelector("dialog .waiting");
  if (!bar || !words) return;
  if (total) Object.assign(bar, { max: total, value: done });
  words.textContent = sentence(total ? `${phase}: ${count(done)} of ${count(total)} …` : `${phase} …`);
}

function fetchFile({ address, name }) {
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  return [el("p", { class: "done" }, `✓ ${name} is in your downloads.`)];
}

export function exportAll() {
  open("Export", () => {
    const { in_files: files, in_boxes: boxes } = state.project;
    const pictures = files || boxes;
    const offered = WHAT.filter((one) => (files || !one.onlyPictures) && (pictures || !one.inFolder) && (boxes || !one.onlyBoxes));
    const what = el("select", { "aria-label": "What" }, offered.map(({ id, words }) => el("option", { value: id }, words)));
    const path = el("input", { "aria-label": "Where", dir: "auto", required: true, spellcheck: false });
    const transfer = el("select", { "aria-label": "Pictures" }, ["copy", "link", "move"].map((way) => el("option", { value: way }, way)));
    const transferRow = el("label", {}, "Pictures ", transfer);
    const force = el("input", { type: "checkbox" });
    const outcome = el("div", { class: "outcome", role: "status" });
    let busy = false; // a disabled button would lose the keyboard

    function chosen() {
      const { folder } = state.project;
      const { file } = WHAT.find(({ id }) => id === what.value);
      path.value = file || !pictures ? `${folder}/${file || "labels.csv"}` : folder;
      transferRow.hidden = what.value !== "folders";
      outcome.replaceChildren();
    }

    async function run(words, work) {
      if (busy) return;
      busy = true;
      outcome.replaceChildren(...waiting(words));
      try {
        outcome.replaceChildren(...(await work()));
      } catch (error) {
        outcome.replaceChildren(el("p", { class: "problem" }, error.message));
      }
      busy = false;
    }

    const write = (dry) =>
      run(dry ? "Looking …" : "Writing …", async () => {
        const wish = { what: what.value, path: path.value, transfer: transfer.value, dry_run: dry, force: force.checked };
        return result(await post("api/export", wish), dry);
      });
    const download = () => run("Preparing …", async () => fetchFile(await post("api/download", { what: what.value })));

    what.onchange = chosen;
    chosen();
    const onsubmit = (event) => {
      event.preventDefault();
      write(false);
    };
    const buttons = [button("Look first", () => write(true)), button("Download", download), el("button", { class: "main" }, "Write")];
    return [
      el(
        "form",
        { class: "export", onsubmit },
        el("label", {}, "What ", what),
        el("label", {}, "Where ", path),
        transferRow,
        el("label", {}, force, " Replace what is there"),
        el("p", { class: "muted" }, "Write puts it there, on the machine that runs the studio, and makes the folder. Download gives it to this browser."),
        el("div", { class: "buttons" }, buttons),
      ),
      outcome,
    ];
  });
}

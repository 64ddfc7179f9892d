"use strict";
// The page of the lab. It keeps the pipeline file and the events, and shows the server's answer to each change.

const $ = (id) => document.getElementById(id);
const WAIT = 25; // milliseconds without a keystroke before a question is sent
const MOST_ROWS = 6; // of marbles

let presets = [];
let rows = []; // {at, stream, kind, text}: an event as its row of the table shows it
let streams = [];
let answer = null;
let asked = 0;
let timer = 0;

const KINDS = {
  tuple: "tuple", delete: "deletion", record: "record", punct: "mark", watermark: "watermark", time: "time passes",
};
const OBJECTS = ["tuple", "delete", "record"]; // their content is an object

// ---- events and rows ----

// The content of a row stays text from the server to the server: a number of JavaScript would round a large int64.

function row(event) {
  const kind = Object.keys(KINDS).find((name) => name in event) || "time";
  const others = Object.fromEntries(
    Object.entries(event).filter(([name]) => !["at", "stream", kind].includes(name)));
  const value = kind === "time" ? "" : event[kind];
  return { at: String(event.at), stream: event.stream || "", kind, others, text: String(value) };
}

// JSON with spaces behind colons and commas. Line ends are never inside of strings, so no string changes.
function spaced(value) {
  return JSON.stringify(value, null, 1).replace(/([{[])\n */g, "$1").replace(/\n *([}\]])/g, "$1").replace(/\n */g, " ");
}

// The event of a row as a JSON object. Throws an error with the reason if the row is no event.
function event(one) {
  const at = Number(one.at);
  if (one.at.trim() === "" || Number.isNaN(at)) throw new Error("the time is no number");
  const made = { at };
  if (one.stream && one.kind !== "time") made.stream = one.stream;
  let content = "";
  if (OBJECTS.includes(one.kind)) {
    try { JSON.parse(one.text); } catch { throw new Error(`the ${KINDS[one.kind]} is not JSON`); }
    content = `, "${one.kind}": ${one.text.trim()}`;
  } else if (one.kind === "punct") made.punct = one.text || "window";
  else if (one.kind === "watermark") made.watermark = Number.isNaN(Number(one.text)) ? one.text : Number(one.text);
  return JSON.stringify(Object.assign(made, one.others)).slice(0, -1) + content + "}";
}

function question() {
  const others = { text: $("file").value, preset: $("presets").value, view: view() };
  return `${JSON.stringify(others).slice(0, -1)}, "events": [${events().join(", ")}]}`;
}

// What is drawn: a key and a range of time, in as much width as there is.
function view() {
  const width = Math.min(Math.max($("picture").clientWidth - 24, 200), 4000);
  return { key: $("key").value, from: $("from").value, to: $("to").value, width };
}

function showAll() {
  for (const one of ["key", "from", "to"]) $(one).value = "";
}

function showView() {
  const chosen = $("key").value;
  const keys = answer.keys.includes(chosen) || !chosen ? answer.keys : [...answer.keys, chosen];
  $("key").replaceChildren(...["", ...keys].map((one) => element("option", { value: one, textContent: one || "all" })));
  $("key").value = chosen;
  $("key").disabled = !keys.length;
  [$("from").placeholder, $("to").placeholder] = answer.range.length ? answer.range : ["", ""];
}

function events() {
  return rows.map((one, number) => {
    try { return event(one); } catch (error) { throw new Error(`event ${number}: ${error.message}`); }
  });
}

// ---- questions and answers ----

function changed() {
  clearTimeout(timer);
  timer = setTimeout(ask, WAIT);
}

async function ask() {
  const number = ++asked;
  const started = performance.now();
  let body;
  try {
    body = question();
  } catch (error) {
    return showOutdated(error.message);
  }
  let found;
  try {
    const response = await fetch("api/story", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    if (!response.ok) throw new Error(await response.text());
    found = await response.json();
  } catch (error) {
    return showOutdated(`no answer: ${error.message}`);
  }
  if (number !== asked) return; // a later question is on its way
  answer = Object.assign(found, { count: rows.length });
  $("status").textContent = `${Math.round(performance.now() - started)} ms`;
  document.body.dataset.answered = number;
  show();
}

function show() {
  const findings = [...answer.problems.map((one) => [one, "problem"]), ...answer.hints.map((one) => [one, "hint"])];
  $("problems").replaceChildren(...findings.map(([one, kind]) => element("li", { className: kind, textContent: one.text })));
  showLines();
  const names = answer.streams.map((one) => one.name).join();
  const before = streams.map((one) => one.name).join();
  if (answer.streams.length) streams = answer.streams;
  if (names && names !== before) showRows();
  showError(answer.error || "");
  $("picture").classList.toggle("stale", answer.svg === null);
  if (answer.svg === null) return;
  const slider = $("slider");
  const atEnd = Number(slider.value) >= Number(slider.max);
  $("picture").innerHTML = answer.svg;
  showView();
  showDecoded();
  slider.max = Math.max(answer.steps.length - 1, 0);
  if (atEnd) slider.value = slider.max;
  showStep();
}

function showError(message) {
  $("event-error").textContent = message;
  const number = /^event (\d+):/.exec(message);
  mark("wrong", number ? Number(number[1]) : -1);
}

// An error because of which the picture is not that of the file and the events.
function showOutdated(message) {
  showError(message);
  $("picture").classList.add("stale");
}

function showLines() {
  const count = $("file").value.split("\n").length;
  const wrong = new Set(answer ? answer.problems.map((one) => one.line) : []);
  const odd = new Set(answer ? answer.hints.map((one) => one.line) : []);
  const lines = $("lines");
  lines.replaceChildren();
  for (let number = 1; number <= count; number++) {
    const kind = wrong.has(number) ? "b" : odd.has(number) ? "i" : "span";
    lines.append(element(kind, { textContent: number }), "\n");
  }
  lines.scrollTop = $("file").scrollTop;
}

// What the picture shows at the step of the slider: shapes of later steps are pale.
function showStep() {
  const slider = $("slider");
  const now = Number(slider.value);
  const last = now >= Number(slider.max);
  for (const shape of $("picture").querySelectorAll("[data-from]")) {
    const from = Number(shape.dataset.from);
    const to = "to" in shape.dataset ? Number(shape.dataset.to) : Infinity;
    shape.classList.toggle("future", from > now);
    if (shape.classList.contains("past")) shape.classList.toggle("shown", !last && from <= now && now < to);
  }
  for (const cover of $("picture").querySelectorAll(".cover")) {
    const next = cover.dataset.positions.split(" ").map(Number)[now + 1];
    cover.classList.toggle("shown", next !== undefined);
    if (next === undefined) continue;
    const right = Number(cover.getAttribute("x")) + Number(cover.getAttribute("width"));
    cover.setAttribute("x", next - 5);
    cover.setAttribute("width", Math.max(right - next + 5, 0));
  }
  const step = answer.steps[now];
  $("step").textContent = step ? `step ${now + 1} of ${answer.steps.length}, ${step.text}` : "no steps";
  mark("now", step && step.event !== null ? step.event : -1);
}

function mark(kind, number) {
  for (const one of [...$("events").tBodies[0].rows, ...$("marbles").children])
    one.classList.toggle(kind, Number(one.dataset.number) === number);
}

// ---- the table and the marbles ----

function element(name, values, ...children) {
  const made = Object.assign(document.createElement(name), values);
  made.append(...children);
  return made;
}

function input(one, name, label) {
  const made = element("input", { value: one[name], spellcheck: false });
  made.setAttribute("aria-label", label);
  made.addEventListener("input", () => { one[name] = made.value; showMarbles(); changed(); });
  if (name === "at") made.addEventListener("change", sort);
  return made;
}

function choice(one, name, options, label, then) {
  const made = element("select", {}, ...options.map(([value, text]) => element("option", { value, textContent: text })));
  made.value = one[name];
  made.setAttribute("aria-label", label);
  made.addEventListener("change", () => { one[name] = made.value; if (then) then(); showRows(); changed(); });
  return made;
}

function showRows() {
  const several = streams.length > 1;
  $("events").style.setProperty("--at", `${Math.min(Math.max(...rows.map((one) => one.at.length), 4), 20)}ch`);
  $("events").tHead.replaceChildren(element("tr", {}, ...["at", ...(several ? ["stream"] : []), "what", "content", ""]
    .map((name) => element("th", { textContent: name }))));
  $("events").tBodies[0].replaceChildren(...rows.map((one, number) => {
    const fill = () => { one.text = blank(one); };
    const remove = element("button", { textContent: "×", title: "Delete the event" });
    remove.addEventListener("click", () => { rows.splice(number, 1); showRows(); changed(); });
    const copy = element("button", { textContent: "+", title: "Repeat the event" });
    copy.addEventListener("click", () => { rows.splice(number + 1, 0, { ...one }); showRows(); changed(); });
    const content = element("td", { className: "wide" });
    if (one.kind !== "time") content.append(input(one, "text", "content"));
    const line = element("tr", {}, element("td", { className: "at" }, input(one, "at", "at")),
      ...(several ? [element("td", {}, ...(one.kind === "time" ? [] : [choice(one, "stream", streams.map((s) => [s.name, s.name]), "stream", fill)]))] : []),
      element("td", {}, choice(one, "kind", Object.entries(KINDS), "what", fill)), content, element("td", {}, copy, remove));
    line.dataset.number = number;
    return line;
  }));
  showMarbles();
}

// The content of a new event of this kind.
function blank(one) {
  if (one.kind === "punct") return "window";
  if (one.kind === "watermark") return one.at;
  if (one.kind === "time") return "";
  if (one.kind === "record") return '{"value": "not JSON"}';
  const same = rows.filter((other) => other !== one && other.kind === "tuple" && other.stream === one.stream).pop();
  if (same) return same.text;
  const stream = streams.find((other) => other.name === one.stream) || streams[0];
  const first = (type) => type === "string" ? "a" : type === "boolean" ? true : type.startsWith("list") ? [] : 1;
  return stream ? spaced(Object.fromEntries(Object.entries(stream.attributes).map(([name, type]) => [name, first(type)]))) : "{}";
}

function sort() {
  if (rows.some((one) => Number.isNaN(Number(one.at)))) return;
  const before = rows.slice();
  rows.sort((one, other) => Number(one.at) - Number(other.at));
  if (rows.some((one, place) => one !== before[place])) { showRows(); changed(); }
}

// What records are decoded: in the table below their content, and in the marbles.
function showDecoded() {
  if (answer.count !== rows.length) return; // the rows have changed meanwhile
  [...$("events").tBodies[0].rows].forEach((line, number) => {
    const shown = answer.shown[number];
    const cell = line.querySelector("td.wide"), old = cell.querySelector(".decoded");
    if (old) old.remove();
    if (shown) cell.append(element("div", { className: "decoded", textContent: shown.text }));
  });
  for (const made of $("marbles").children) {
    const shown = answer.shown[made.dataset.number];
    if (shown) Object.assign(made, { textContent: shown.label, title: `at ${rows[made.dataset.number].at}: ${shown.text}` });
  }
  stack();
}

function letters(one) {
  if (one.kind === "punct") return one.text === "final" ? "F" : "■";
  if (one.kind === "watermark") return `w ${one.text}`;
  if (one.kind === "time") return "·";
  if (one.kind === "delete") return "×";
  try {
    const content = JSON.parse(one.text), value = one.kind === "record" ? content.value : content;
    if (typeof value !== "object") return String(value).slice(0, 10);
    const values = Object.values(value);
    return values.slice(0, 2).join(" ").slice(0, 10) || "{}";
  } catch { return "…"; }
}

function range() {
  const times = rows.map((one) => Number(one.at)).filter((at) => !Number.isNaN(at));
  const low = Math.min(...times, 0 + (times.length ? Infinity : 0)), high = Math.max(...times, low);
  return [low, high > low ? high : low + 1];
}

function showMarbles() {
  const [low, high] = range();
  const line = $("marbles");
  line.replaceChildren(...rows.map((one, number) => {
    const made = element("div", { className: "marble", textContent: letters(one), title: `at ${one.at}: ${one.text}` });
    made.style.setProperty("--share", (Number(one.at) - low) / (high - low));
    made.dataset.number = number;
    made.addEventListener("pointerdown", (down) => drag(down, made, one, low, high));
    return made;
  }));
  stack();
  if (answer && answer.svg) { showDecoded(); showStep(); }
}

// Puts marbles that would cover each other into rows below each other; one for which no row has room is a dot in a row
// below these.
function stack() {
  const ends = [];
  const marbles = [...$("marbles").children];
  for (const made of marbles) made.classList.remove("dot");
  const boxes = marbles.map((made) => [made.getBoundingClientRect(), made]);
  for (const [box, made] of boxes) {
    let place = ends.findIndex((end) => end < box.left);
    if (place < 0) place = ends.length;
    if (place < MOST_ROWS) ends[place] = box.right + 2;
    else made.classList.add("dot");
    made.style.top = `${6 + 26 * Math.min(place, MOST_ROWS)}px`;
  }
  const dots = marbles.some((made) => made.classList.contains("dot")) ? 16 : 0;
  $("marbles").style.height = `${8 + 26 * Math.max(ends.length, 1) + dots}px`;
}

// Moves an event in time, in steps of a hundredth of the line. The scale stays as it is until the event is dropped.
function drag(down, made, one, low, high) {
  down.preventDefault();
  made.setPointerCapture(down.pointerId);
  const line = $("marbles").getBoundingClientRect();
  const move = (to) => {
    const share = Math.min(Math.max((to.clientX - line.left) / line.width, 0), 1.1);
    one.at = String(Number((low + Math.round(share * 100) / 100 * (high - low)).toFixed(3)));
    made.style.setProperty("--share", share);
    const field = $("events").tBodies[0].rows[made.dataset.number]?.querySelector("td.at input");
    if (field) field.value = one.at;
    const held = rows;
    rows = rows.slice().sort((a, b) => Number(a.at) - Number(b.at));
    changed();
    clearTimeout(timer);
    ask();
    rows = held;
  };
  const drop = () => {
    made.removeEventListener("pointermove", move);
    sort();
    showRows();
    changed();
  };
  made.addEventListener("pointermove", move);
  made.addEventListener("pointerup", drop, { once: true });
  made.addEventListener("pointercancel", drop, { once: true });
}

// ---- files ----

function save(name, text, type) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}

function named(extension) {
  return `${$("presets").value.replace(/\.ya?ml$/, "").split("/").pop()}${extension}`;
}

function saveEvents() {
  try { save(named(".jsonl"), events().map((one) => one + "\n").join(""), "application/jsonl"); }
  catch (error) { showError(error.message); }
}

async function saveTest() {
  let body;
  try { body = question(); } catch (error) { return showError(error.message); }
  const response = await fetch("api/test", { method: "POST", headers: { "Content-Type": "application/json" }, body });
  const text = await response.text();
  if (response.ok) save(`test_${named(".py").replace(/-/g, "_")}`, text, "text/x-python");
  else showError(text);
}

// ---- start ----

function choose() {
  const preset = presets.find((one) => one.name === $("presets").value);
  $("file").value = preset.text;
  $("file").scrollTop = $("file").scrollLeft = 0;
  for (const one of ["problems", "picture", "step", "event-error"]) $(one).replaceChildren(); // those of the preset before
  $("status").textContent = "computing";
  rows = preset.events.map(row);
  streams = [];
  answer = null;
  showAll();
  $("slider").max = $("slider").value = 0;
  showLines();
  showRows();
  ask();
}

async function start() {
  addEventListener("resize", stack);
  presets = await (await fetch("api/presets")).json();
  $("presets").replaceChildren(...presets.map((one) => element("option", { value: one.name, textContent: one.name })));
  $("presets").addEventListener("change", choose);
  $("file").addEventListener("input", () => { showLines(); changed(); });
  $("file").addEventListener("scroll", () => { $("lines").scrollTop = $("file").scrollTop; });
  $("slider").addEventListener("input", showStep);
  $("key").addEventListener("change", ask);
  for (const one of ["from", "to"]) $(one).addEventListener("input", changed);
  $("all").addEventListener("click", () => { showAll(); ask(); });
  $("add").addEventListener("click", () => {
    const last = rows[rows.length - 1];
    const one = { at: String(last ? Number(last.at) + 1 : 0), stream: last ? last.stream : (streams.length > 1 ? streams[0].name : ""), kind: "tuple", others: {} };
    rows.push(Object.assign(one, { text: blank(one) }));
    showRows();
    changed();
  });
  $("save-pipeline").addEventListener("click", () => save(named(".yaml"), $("file").value, "text/yaml"));
  $("save-events").addEventListener("click", saveEvents);
  $("save-svg").addEventListener("click", () => {
    if (answer && answer.svg) save(named(".svg"), answer.svg, "image/svg+xml");
    else showError("no picture: the pipeline file or an event is wrong");
  });
  $("save-test").addEventListener("click", saveTest);
  choose();
}

start();

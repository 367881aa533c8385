// Time, switches and keys.
let current = 0;
let timer = null;
const drawers = { graph: drawGraph, array: drawArray, strings: drawStrings, points: drawPoints, table: drawTables, intervals: drawIntervals };

function show(step) {
  current = Math.max(0, Math.min(answerStep, step));
  const name = current === answerStep ? "Answer" : `Step ${current + 1} of ${run.steps}`;
  $$("slider").value = current;
  $$("slider").setAttribute("aria-valuetext", name);
  $$("moment").textContent = name;
  for (const side of sides) drawSide(side);
  stepWords(current);
  if ($$("values").open) valueTable(current);
  if (run.attention) listAttention(current);
  $$("first").disabled = $$("back").disabled = current === 0;
  $$("last").disabled = $$("on").disabled = current === answerStep;
}

function drawSide(side) {
  const place = $$(side).querySelector(".drawing"), scrolled = place.scrollLeft;
  const width = Math.max(260, Math.floor(place.clientWidth));
  const moment = new Moment(side, current);
  const parts = [drawers[run.drawing.kind](moment, width)];
  if (run.drawing.kind === "graph" && run.drawing.matrices) parts.unshift(drawTables(moment, width));
  for (const part of parts) {
    part.setAttribute("role", "img");
    part.setAttribute("aria-label", `${side === "truth" ? "The textbook’s" : "The network’s"} run of ${run.algorithm}, ${current === answerStep ? "answer" : `step ${current + 1}`}. The text above says what changed; the table below has all values.`);
  }
  place.replaceChildren(...parts, ...captions(moment), ...lists(moment));
  place.scrollLeft = scrolled;
  const isScrolled = place.scrollWidth > place.clientWidth + 1; // then the keyboard must reach it
  if (isScrolled) place.setAttribute("tabindex", "0");
  else place.removeAttribute("tabindex");
}

// Values of the whole instance: phases, sums, clocks.
function captions(moment) {
  const shown = (moment.isAnswer ? outputs : hints).filter((probe) => probe.location === "graph" && moment.isOn(probe.drawnAs));
  if (!shown.length) return [];
  const line = html("p", { class: "caption" });
  shown.forEach((probe, index) => {
    const wrong = moment.isWrong(probe.drawnAs), changed = moment.hasChanged(probe.drawnAs);
    if (index) line.append(" · ");
    line.append(`${probe.name}: `, html("b", { class: classes(wrong && "wrong", changed && "changed"), "data-caption": probe.name }, `${said(probe, moment.value(probe.drawnAs))}${changed ? "*" : ""}${wrong ? " ≠" : ""}`));
  });
  return [line];
}

// Queues, stacks and orders as lists of nodes.
function lists(moment) {
  if (moment.isAnswer && !run.drawing.lists.some((list) => list.next && moment.probe(list.next))) return [];
  return run.drawing.lists.filter((list) => moment.probe(list.set || list.next) && moment.probe(list.set || list.first)).map((list) => {
    const members = list.set ? inSet(moment, list) : chain(moment, list);
    const line = html("p", { class: "list" }, html("b", {}, `${list.title}: `));
    for (const { node, text, wrong } of members) line.append(html("span", { class: wrong ? "wrong" : null, "data-member": node }, `${text}${wrong ? " ≠" : ""}`));
    if (!members.length) line.append("empty");
    return line;
  });
}

function inSet(moment, { set, by }) {
  const members = [...Array(size).keys()].filter((node) => moment.value(set, node) === 1);
  members.sort((a, b) => moment.value(by, a) - moment.value(by, b));
  return members.map((node) => ({ node, text: `${label(node)} ${said(moment.probe(by), moment.value(by, node))}`, wrong: moment.isWrong(set, node) }));
}

function chain(moment, { first, next }) {
  const members = [], seen = new Set();
  let node = moment.value(first);
  while (node >= 0 && !seen.has(node)) {
    seen.add(node);
    members.push({ node, text: label(node), wrong: moment.isWrong(next, node) || (members.length === 0 && moment.isWrong(first)) });
    node = moment.value(next, node);
  }
  return members;
}

// Switches, one per hint, with its sign and its meaning.
function switches() {
  const units = new Set(run.probes.filter(({ kind }) => kind === "scalar").map(({ unit }) => unit));
  const near = units.size === 1 ? ` (numbers: by more than ${Number((run.tolerance * [...units][0]).toPrecision(3))})` : "";
  for (const probe of hints) addSwitch(probe.name, probe.meaning, signPicture(probe), probe.isOn, (on) => (probe.isOn = on));
  if (run.drawing.kind === "graph" && run.drawing.weights.length) addSwitch("A", "weight of the edge", svg("svg", { width: 34, height: 20 }, svg("text", { class: "weight", x: 17, y: 10 }, "0.42")), weightsAreOn, (on) => (weightsAreOn = on));
  const own = outputs.map((probe) => html("li", {}, html("span", {}, "answer: ", html("code", {}, probe.name), ` ${probe.meaning}`)));
  $$("keys").append(
    ...own,
    html("li", {}, svg("svg", { width: 26, height: 18, "aria-hidden": "true" }, svg("rect", { class: "changed-halo", x: 4, y: 3, width: 18, height: 12, rx: 6 })), `* changed since the last step${run.network === null ? "" : near.replace("numbers", "the network’s numbers")}`),
  );
  if (run.network !== null) $$("keys").append(html("li", {}, svg("svg", { width: 26, height: 18, "aria-hidden": "true" }, svg("rect", { class: "wrong-halo", x: 4, y: 3, width: 18, height: 12, rx: 6 })), `≠ the network differs from the textbook${near}`));
  if (run.drawing.kind === "graph" && run.drawing.source !== null) $$("keys").append(html("li", {}, svg("svg", { width: 26, height: 22, "aria-hidden": "true" }, svg("circle", { class: "node", cx: 13, cy: 11, r: 9 }), svg("circle", { class: "source", cx: 13, cy: 11, r: 6 })), "source"));
}

function addSwitch(name, meaning, picture, on, set) {
  const box = html("input", { type: "checkbox", "data-switch": name });
  box.checked = on;
  box.addEventListener("change", () => {
    set(box.checked);
    countErrors();
    show(current);
  });
  picture.setAttribute("aria-hidden", "true");
  $$("hints").append(html("li", {}, html("label", {}, box, picture, html("span", {}, html("code", {}, name), ` ${meaning}`))));
}

function signPicture({ sign, kind }) {
  const picture = svg("svg", { width: 34, height: 20 }), colour = tone(sign), isColour = kind === "categorical";
  switch (sign.shape) {
    case "fill":
      if (isColour) ["white", "gray", "black"].forEach((name, index) => picture.append(svg("circle", { class: `node ${name}`, cx: 6 + 11 * index, cy: 10, r: 4.5 })));
      else picture.append(svg("rect", { class: "node filled", x: 8, y: 2, width: 18, height: 16, rx: 8 }));
      break;
    case "ring": picture.append(svg("rect", { class: "node", x: 10, y: 4, width: 14, height: 12, rx: 6 }), svg("rect", { class: "ring", x: 7, y: 1, width: 20, height: 18, rx: 9, style: `stroke:${colour}` })); break;
    case "tag": picture.append(svg("rect", { x: 5, y: 2, width: 24, height: 16, rx: 8, fill: colour })); break;
    case "arrow": picture.append(svg("path", { class: classes("arrow", sign.tone > 0 && "second"), d: "M4 10L26 10", style: `stroke:${colour}` }), arrowhead(30, 10, 0, colour)); break;
    case "edge": picture.append(svg("path", { class: "edge marked", d: "M4 10L30 10", style: `stroke:${colour}` })); break;
    case "order": for (const [x, height] of [[7, 6], [15, 11], [23, 16]]) picture.append(svg("rect", { class: "bar", x, y: 18 - height, width: 6, height })); break;
    case "cell": picture.append(svg("rect", { class: "cell", x: 6, y: 2, width: 22, height: 16 }), svg("text", { class: "cell-text", x: 17, y: 10, "font-size": 10 }, ".42")); break;
    case "blank": picture.append(svg("rect", { class: "cell blank", x: 6, y: 2, width: 22, height: 16 })); break;
    case "caption": picture.append(svg("text", { class: "cell-text", x: 17, y: 10, "font-size": 11 }, "a: 1")); break;
    case "row": picture.append(svg("text", { class: "cell-text", x: 17, y: 10, "font-size": 11 }, "0 1 ●")); break;
    default: picture.append(svg("text", { class: "cell-text", x: 17, y: 10, "font-size": 11, "font-weight": 600 }, "0.42"));
  }
  return picture;
}

// The time axis: where and how much the network differs.
function drawMarks() {
  const axis = $$("marks"), width = axis.clientWidth;
  axis.replaceChildren();
  if (run.network === null) return;
  const counts = Array.from({ length: answerStep + 1 }, (_, step) => differencesAt(step).length);
  const most = Math.max(...counts, 1), thumb = 16;
  counts.forEach((count, step) => {
    const x = thumb / 2 + ((width - thumb) * step) / Math.max(1, answerStep);
    if (count) axis.append(svg("rect", { x: x - 1.5, y: 0, width: 3, height: 3 + (6 * count) / most, fill: "var(--wrong)" }));
    else axis.append(svg("rect", { x: x - 0.5, y: 0, width: 1, height: 3, fill: "var(--line)" }));
  });
}

function play(on) {
  clearInterval(timer);
  timer = on ? setInterval(() => (current < answerStep ? show(current + 1) : play(false)), Number($$("speed").value)) : null;
  $$("play").textContent = on ? "❚❚ Pause" : "▶ Play";
  $$("play").setAttribute("aria-label", on ? "Pause (space)" : "Play (space)");
  $$("words").setAttribute("aria-live", on ? "off" : "polite");
}

function playOrPause() {
  if (timer === null && current === answerStep) show(0);
  play(timer === null);
}

function onKey(event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const { tagName, type } = event.target;
  if (tagName === "SELECT" || (event.key === " " && (type === "checkbox" || tagName === "BUTTON" || tagName === "SUMMARY"))) return;
  if (event.target.matches(".scroll, .drawing") && event.key.startsWith("Arrow")) return; // scrolls
  const steps = { ArrowRight: () => show(current + 1), ArrowLeft: () => show(current - 1), Home: () => show(0), End: () => show(answerStep), " ": playOrPause, e: toError, E: toError };
  if (!(event.key in steps)) return;
  event.preventDefault();
  if (event.key !== " ") play(false);
  steps[event.key]();
}

function toError() {
  const step = firstError();
  if (step !== null) show(step);
}

// The marks on the axis and the button follow what is switched on.
function countErrors() {
  drawMarks();
  if (run.network === null) return;
  const step = firstError();
  $$("error").disabled = step === null;
  $$("error").textContent = step === null ? "No error" : "First error";
}

function notes() {
  const text = [...run.about, ...run.notes];
  if (run.network !== null) text.push("Left is the textbook’s run, right the network’s, at the same step. The network reads its own predictions, so an error stays and grows.");
  text.push("Keys: ← and → one step, Home and End to the first step and the answer, space plays, E goes to the first error.");
  $$("notes").append(...text.map((line) => html("p", {}, line)));
}

function start() {
  $$("title").textContent = run.summary.replace(/\.$/, "");
  $$("network-title").textContent = `Network: ${run.network}`;
  if (run.network === null) $$("network").remove();
  else $$("sides").classList.add("two");
  $$("slider").max = answerStep;
  if (run.network === null) $$("error").remove();
  $$("slider").addEventListener("input", () => (play(false), show(Number($$("slider").value))));
  const buttons = { first: () => show(0), back: () => show(current - 1), on: () => show(current + 1), last: () => show(answerStep), error: toError };
  for (const [id, go] of Object.entries(buttons)) if ($$(id)) $$(id).addEventListener("click", () => (play(false), go()));
  $$("play").addEventListener("click", playOrPause);
  $$("speed").addEventListener("change", () => timer !== null && play(true));
  $$("values").addEventListener("toggle", () => $$("values").open && valueTable(current));
  document.addEventListener("keydown", onKey);
  new ResizeObserver(() => (drawMarks(), show(current))).observe($$("sides"));
  verdict();
  switches();
  notes();
  prepareAttention();
  countErrors();
  show(0);
}
start();

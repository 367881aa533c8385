// Time, switches and keys.
let current = 0;
let timer = null;
const drawers = {
  graph: drawGraph,
  array: drawArray,
  strings: drawStrings,
  points: drawPoints,
  table: drawTables,
  intervals: drawIntervals,
};

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

const whereWordsAre = "The text beside it says what changed; the table below has all values.";

function drawSide(side) {
  const whose = side === "truth" ? "The textbook’s" : "The network’s";
  const when = current === answerStep ? "answer" : `step ${current + 1}`;
  const place = $$(side).querySelector(".drawing"),
    scrolled = place.scrollLeft;
  const width = Math.max(260, Math.floor(place.clientWidth));
  const moment = new Moment(side, current);
  const parts = [drawers[run.drawing.kind](moment, width)];
  if (run.drawing.kind === "graph" && run.drawing.matrices) parts.unshift(drawTables(moment, width));
  for (const part of parts) {
    part.setAttribute("role", "img");
    part.setAttribute("aria-label", `${whose} run of ${run.algorithm}, ${when}. ${whereWordsAre}`);
  }
  place.replaceChildren(...parts, ...captions(moment), ...lists(moment));
  place.scrollLeft = scrolled;
  const isScrolled = place.scrollWidth > place.clientWidth + 1; // then the keyboard must reach it
  if (isScrolled) place.setAttribute("tabindex", "0");
  else place.removeAttribute("tabindex");
}

// The time axis: where and how much the network differs.
function drawMarks() {
  const axis = $$("marks"),
    width = axis.clientWidth;
  axis.replaceChildren();
  if (run.network === null) return;
  const counts = Array.from({ length: answerStep + 1 }, (_, step) => differencesAt(step).length);
  const most = Math.max(...counts, 1),
    thumb = 16;
  counts.forEach((count, step) => {
    const x = thumb / 2 + ((width - thumb) * step) / Math.max(1, answerStep);
    if (count)
      axis.append(svg("rect", { x: x - 1.5, y: 0, width: 3, height: 3 + (6 * count) / most, fill: "var(--wrong)" }));
    else axis.append(svg("rect", { x: x - 0.5, y: 0, width: 1, height: 3, fill: "var(--line)" }));
  });
}

function play(on) {
  clearInterval(timer);
  timer = on
    ? setInterval(() => (current < answerStep ? show(current + 1) : play(false)), Number($$("speed").value))
    : null;
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
  if (
    tagName === "SELECT" ||
    (event.key === " " && (type === "checkbox" || tagName === "BUTTON" || tagName === "SUMMARY"))
  )
    return;
  if (event.target.matches(".scroll, .drawing") && event.key.startsWith("Arrow")) return; // scrolls
  const steps = {
    ArrowRight: () => show(current + 1),
    ArrowLeft: () => show(current - 1),
    Home: () => show(0),
    End: () => show(answerStep),
    " ": playOrPause,
    e: toError,
    E: toError,
  };
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
  if (run.network !== null)
    text.push(
      "Left is the textbook’s run, right the network’s, at the same step.",
      "The network reads its own predictions: an error may spread, or be mended later.",
    );
  text.push(
    "Keys: ← and → one step, Home and End the first step and the answer, space plays, E goes to the first error.",
  );
  $$("notes").append(
    ...text.map((line) => html("p", {}, `${line[0].toUpperCase()}${line.slice(1).replace(/\.?$/, ".")}`)),
  );
}

function start() {
  $$("title").textContent = run.summary.replace(/\.$/, "");
  $$("network-title").textContent = `Network: ${run.network}`;
  if (run.network === null) $$("network").remove();
  else $$("sides").classList.add("two");
  $$("slider").max = answerStep;
  if (run.network === null) $$("error").remove();
  $$("slider").addEventListener("input", () => (play(false), show(Number($$("slider").value))));
  const buttons = {
    first: () => show(0),
    back: () => show(current - 1),
    on: () => show(current + 1),
    last: () => show(answerStep),
    error: toError,
  };
  for (const [id, go] of Object.entries(buttons))
    if ($$(id)) $$(id).addEventListener("click", () => (play(false), go()));
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

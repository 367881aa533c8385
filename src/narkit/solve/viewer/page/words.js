// What happens at a step, in words: what changed in the textbook's run, and where the network differs.
const mostSaid = () => (innerWidth < 500 ? 3 : 6);

function listed(items, limit = mostSaid()) {
  const shown = items.slice(0, limit);
  return items.length > limit ? `${shown.join("; ")}; and ${items.length - limit} more` : shown.join("; ");
}

function changeWords(moment) {
  const found = [];
  for (const probe of hints) {
    if (!probe.isOn) continue;
    const values = moment.values(probe.name);
    for (let element = 0; element < values.length; element++) {
      if (!moment.hasChanged(probe.name, element)) continue;
      if (probe.location === "edge" && probe.kind === "mask" && !isUpper(probe, element)) continue;
      const place = where(probe, element);
      found.push(`${probe.name}${place ? ` of ${place}` : ""} is now ${said(probe, values[element])}`);
    }
  }
  return found;
}

// Both directions of an undirected edge change together; one of them is enough.
function isUpper(probe, element) {
  return run.drawing.kind !== "graph" || run.drawing.directed || Math.floor(element / size) <= element % size;
}

function differenceWords(step) {
  return differencesAt(step).map(({ probe, at, element }) => {
    const place = where(probe, element);
    const [network, truth] = [probe.network, probe.truth].map((values) => said(probe, values[at][element]));
    return `${probe.name}${place ? ` of ${place}` : ""} is ${network}, not ${truth}`;
  });
}

function stepWords(step) {
  const words = $$("words");
  words.replaceChildren();
  const truth = new Moment("truth", step);
  if (step === answerStep) words.append("The answer. ");
  else if (step === 0) words.append("The first step: how the run begins. ");
  else {
    const changes = changeWords(truth);
    words.append(changes.length ? `Textbook: ${listed(changes)}. ` : "Textbook: nothing that is shown changes. ");
  }
  if (run.network === null) return;
  const differences = differenceWords(step);
  if (differences.length)
    words.append(
      html(
        "span",
        { class: "wrong" },
        `≠ The network differs in ${places(differences.length)}: ${listed(differences)}.`,
      ),
    );
  else if (step === 0) words.append("It is given to the network.");
  else words.append("✓ The network has the same in all that is shown.");
}

const places = (count) => `${count} ${count === 1 ? "place" : "places"}`;

function verdict() {
  const text = $$("verdict");
  if (run.network === null) return void (text.textContent = `${run.steps} steps on ${size} nodes.`);
  const wrong = outputs.reduce((sum, probe) => sum + probe.wrong[0].length, 0);
  const outcome =
    wrong === 0
      ? "✓ its answer is the textbook’s"
      : `≠ its answer differs in ${wrong} ${wrong === 1 ? "place" : "places"}`;
  const first =
    run.firstError === null
      ? "every step is right"
      : run.firstError.step === answerStep
        ? "all steps are right"
        : `the first error is at step ${run.firstError.step + 1}, in ${run.firstError.probe}`;
  text.textContent = `${run.network} on ${size} nodes, ${run.steps} steps: ${outcome}; ${first}.`;
}

// All values of a step as a table, both sides, for reading exactly or aloud.
function valueTable(step) {
  const shown = run.probes.filter((probe) =>
    step === answerStep ? probe.stage === "output" : probe.stage === "hint",
  );
  const head = html(
    "tr",
    {},
    html("th", { scope: "col" }, "node"),
    ...run.places.map((text) => html("th", { scope: "col" }, text)),
  );
  const body = html("tbody");
  for (const probe of shown)
    for (const side of sides)
      if (probe[side] !== null && probe.location !== "edge") body.append(valueRow(probe, new Moment(side, step)));
  const parts = [
    html(
      "table",
      {},
      html("caption", {}, step === answerStep ? "answer" : `step ${step + 1}`),
      html("thead", {}, head),
      body,
    ),
  ];
  const edges = shown.filter((probe) => probe.location === "edge");
  for (const probe of edges)
    parts.push(html("p", {}, `${probe.name} (a value per pair of nodes): ${edgeSummary(probe, step)}`));
  $$("table").replaceChildren(...parts);
}

function valueRow(probe, moment) {
  const name = probe.drawnAs,
    values = moment.values(name);
  const row = html(
    "tr",
    {},
    html("th", { scope: "row" }, `${probe.name}, ${moment.side === "truth" ? "textbook" : "network"}`),
  );
  for (let node = 0; node < size; node++) {
    const isOne = probe.kind === "mask_one",
      single = probe.location === "graph";
    if (single && node > 0) break;
    const element = isOne ? 0 : node;
    const text = isOne ? (values[0] === node ? "●" : "·") : said(probe, values[element]);
    const concerns = !isOne || values[0] === node;
    const wrong = concerns && moment.isWrong(name, element),
      changed = concerns && moment.hasChanged(name, element);
    row.append(
      html(
        "td",
        { class: classes(wrong && "wrong", changed && "changed"), colspan: single ? size : null },
        `${text}${changed ? "*" : ""}${wrong ? " ≠" : ""}`,
      ),
    );
  }
  return row;
}

function edgeSummary(probe, step) {
  const wrong = probe.wrong ? probe.wrong[step - probe.begins].length : 0;
  const truth = new Moment("truth", step),
    values = truth.values(probe.drawnAs);
  const changed = values.filter((_, element) => truth.hasChanged(probe.drawnAs, element)).length;
  return `${changed} changed since the step before${probe.wrong ? `, ${wrong} differ in the network` : ""}.`;
}

// The run as the page reads it: every probe's values at every step, on both sides.
const run = JSON.parse(document.getElementById("run").textContent);
const $$ = (id) => document.getElementById(id);
const answerStep = run.steps; // after the last hint comes the answer
const sides = run.network === null ? ["truth"] : ["truth", "network"];
const probes = new Map();
const fromHint = new Map(); // a hint -> the output that completes it

function expanded(rows) {
  if (rows === null) return null;
  let last = null;
  return rows.map((row) => (last = row === null ? last : row));
}

for (const probe of run.probes) {
  probe.truth = expanded(probe.truth);
  probe.network = expanded(probe.network);
  probe.isOn = probe.sign ? probe.sign.on : true;
  probes.set(probe.name, probe);
  if (probe.stage === "output") fromHint.set(probe.drawnAs, probe);
}
const size = run.labels.length;
const hints = run.probes.filter((probe) => probe.stage === "hint");
const outputs = run.probes.filter((probe) => probe.stage === "output");

// One side at one step. At the answer an output stands in for the hint that it completes; other hints are gone.
class Moment {
  constructor(side, step) {
    this.side = side;
    this.step = step;
    this.isAnswer = step === answerStep;
  }
  // What is drawn under a name at this step: a hint, or at the answer the output that completes it.
  probe(name) {
    const found = this.isAnswer ? fromHint.get(name) : probes.get(name);
    return found && found[this.side] !== null && (this.isAnswer || found.stage === "hint") ? found : undefined;
  }
  isOn(name) {
    return this.probe(name) !== undefined && probes.get(name).isOn;
  }
  values(name) {
    const probe = this.probe(name);
    return probe ? probe[this.side][this.step - probe.begins] : undefined;
  }
  value(name, element = 0) {
    const values = this.values(name);
    return values ? values[element] : undefined;
  }
  // Of a one-hot mask the only element is the node that it names.
  hasChanged(name, element = 0) {
    const probe = this.probe(name);
    const before = this.step - 1 - (probe ? probe.begins : 0);
    if (!probe || before < 0) return false;
    const [old, now] = [probe[this.side][before][element], probe[this.side][before + 1][element]];
    // A network never repeats a number exactly; small movements are no news.
    return this.side === "network" && probe.kind === "scalar" ? Math.abs(now - old) > run.tolerance : now !== old;
  }
  isWrong(name, element = 0) {
    const probe = this.probe(name);
    if (this.side !== "network" || !probe || !probe.wrong) return false;
    return probe.wrong[this.step - probe.begins].includes(element);
  }
  // All that is drawn by one of these signs now: [{ name, probe, sign }], `probe` being what its values are of.
  drawn(...shapes) {
    return run.probes
      .filter(({ sign, name }) => sign && (!shapes.length || shapes.includes(sign.shape)) && this.isOn(name))
      .map(({ sign, name }) => ({ name, sign, probe: this.probe(name) }));
  }
}

// Where the network differs at a step, in what is switched on: [{ probe, at, element }].
function differencesAt(step) {
  const found = [];
  for (const probe of run.probes) {
    const at = step - probe.begins,
      shown = probes.get(probe.drawnAs) || probe;
    if (!probe.wrong || !shown.isOn || at < 0 || at >= probe.wrong.length) continue;
    for (const element of probe.wrong[at]) found.push({ probe, at, element });
  }
  return found;
}

function firstError() {
  for (let step = 0; step <= answerStep; step++) if (differencesAt(step).length) return step;
  return null;
}

// Text.
const number = (value) => {
  const size = Math.abs(value);
  if (size < 0.0005) return "0";
  if (Number.isInteger(value) && size < 1e6) return `${value}`.replace("-", "−");
  const digits =
    size >= 1e5
      ? value.toPrecision(3)
      : size >= 100
        ? value.toFixed(0)
        : size >= 10
          ? `${Number(value.toFixed(1))}`
          : value.toFixed(size >= 0.01 ? 2 : 3);
  return digits.replace("-", "−");
};
const shorten = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const label = (node) => run.labels[node];
const spoken = (node) => run.places[node];

function said(probe, value) {
  if (value === undefined) return "";
  if (value === -1 && probe.kind !== "scalar") return "–";
  switch (probe.kind) {
    case "scalar":
      return number(value * probe.unit); // in the units of whoever asked
    case "mask":
      return probe.names.length ? probe.names[value] : value === 1 ? "yes" : "no";
    case "categorical":
      return probe.names[value];
    default:
      return spoken(value);
  }
}

function where(probe, element) {
  if (probe.location === "graph" || probe.kind === "mask_one") return "";
  if (probe.location === "node") return spoken(element);
  return `${spoken(Math.floor(element / size))} to ${spoken(element % size)}`;
}

// Elements.
function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}
function html(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== null && value !== undefined) element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}
const tone = (sign) => `var(--tone-${(sign ? sign.tone : 0) % 6})`;
const classes = (...names) => names.filter(Boolean).join(" ");

const canvas = document.createElement("canvas").getContext("2d");
function textWidth(text, size = 13, weight = 600) {
  canvas.font = `${weight} ${size}px system-ui, sans-serif`;
  return canvas.measureText(text).width;
}

// A pill with the name of a one-hot mask, at the node that it names. A ≠ says that the textbook has it elsewhere.
function tagText(moment, { name, probe }) {
  return `${probe.name}${moment.isWrong(name) ? " ≠" : ""}`;
}
function tag(moment, drawn, x, y) {
  const wrong = moment.isWrong(drawn.name),
    changed = moment.hasChanged(drawn.name),
    text = tagText(moment, drawn);
  const width = Math.max(18, textWidth(text, 11, 700) + 10);
  return svg(
    "g",
    {
      class: classes("tag", wrong && "wrong", changed && "changed"),
      "data-tag": drawn.probe.name,
      transform: `translate(${x} ${y})`,
    },
    svg("rect", { x: -width / 2, y: -8, width, height: 16, rx: 8, fill: wrong ? null : tone(drawn.sign) }),
    svg("text", {}, text),
  );
}

// One-hot masks by the node that they name.
function tagsByNode(moment) {
  const found = new Map();
  for (const drawn of moment.drawn("tag")) {
    const node = moment.value(drawn.name);
    if (node < 0) continue;
    if (!found.has(node)) found.set(node, []);
    found.get(node).push(drawn);
  }
  return found;
}

function rowOfTags(moment, tags, x, y) {
  const group = svg("g"),
    widths = tags.map((drawn) => Math.max(21, textWidth(tagText(moment, drawn), 11, 700) + 13));
  let at = x - widths.reduce((sum, width) => sum + width, 0) / 2;
  tags.forEach((drawn, index) => {
    group.append(tag(moment, drawn, at + widths[index] / 2, y));
    at += widths[index];
  });
  return group;
}

// Numbers of a node, as lines of text: "d 0.42", with a * if it has just changed and a ≠ if it differs.
function valueLines(moment, node) {
  return moment
    .drawn("value")
    .filter(({ probe }) => probe.location === "node")
    .map(({ name, probe }) => {
      const wrong = moment.isWrong(name, node),
        changed = moment.hasChanged(name, node);
      return {
        text: `${probe.name} ${said(probe, moment.value(name, node))}${changed ? "*" : ""}${wrong ? " ≠" : ""}`,
        wrong,
        changed,
        probe,
      };
    });
}

// Arrowheads are drawn by hand: markers cannot take the colour of their line everywhere.
function arrowhead(x, y, angle, colour, length = 9) {
  const at = (turn) => `${x - length * Math.cos(angle + turn)},${y - length * Math.sin(angle + turn)}`;
  return svg("polygon", { points: `${x},${y} ${at(0.42)} ${at(-0.42)}`, fill: colour });
}

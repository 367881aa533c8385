// Graphs: nodes with tags, numbers and colours, edges with weights, pointers as arrows.
const labelPlaces = new Map(); // width -> where along its edge each weight is written; it depends on nothing else

const longest = (width) => (width >= 500 ? 12 : size > 8 ? 7 : 9); // characters of a label

function graphGeometry(width) {
  const { positions } = run.drawing;
  const isLong = Math.max(...run.labels.map((text) => text.length)) > 3;
  const radius = Math.max(11, Math.min(size <= 10 ? 19 : size <= 18 ? 16 : 12, width / (2.4 * Math.sqrt(size) + 9)));
  const lines = Math.min(3, hints.filter((probe) => probe.sign.shape === "value").length);
  const top = radius + 24,
    bottom = radius + 10 + 13 * Math.max(1, lines);
  const side = isLong ? 46 : radius + 26;
  const most = run.drawing.matrices ? 330 : size > 18 ? 620 : 500;
  const isNarrow = width < 500;
  const height = Math.round(
    isNarrow
      ? Math.max(330, width * (isLong && size > 8 ? 1.5 : isLong || size > 10 ? 1.2 : 0.95))
      : Math.min(width * 0.82, most),
  );
  const nodes = positions.map(([x, y]) => ({
    x: side + x * (width - 2 * side),
    y: top + y * (height - top - bottom),
  }));
  const half = run.labels.map((text) =>
    isLong
      ? Math.max(radius, textWidth(shorten(text, longest(width)), isNarrow ? 11.5 : 13) / 2 + (isNarrow ? 6 : 8))
      : radius,
  );
  return { nodes, radius, half, height, width };
}

// Where a line towards `target` leaves the outline of a node, which is a pill.
function border(geometry, node, angle, gap = 0) {
  const { x, y } = geometry.nodes[node],
    r = geometry.radius,
    flat = geometry.half[node] - r;
  const dx = Math.cos(angle),
    dy = Math.sin(angle);
  const atSide =
    Math.abs(dx) * r > Math.abs(dy) * flat
      ? Math.min(flat + r / Math.max(Math.abs(dx), 0.35), (flat + r) / Math.max(Math.abs(dx), 1e-6))
      : r / Math.max(Math.abs(dy), 1e-6);
  const reach = Math.min(flat + r, Math.max(r, flat > 0 ? atSide : r)) + gap;
  return [x + dx * reach, y + dy * reach];
}

// A line from node i to node j that bends sideways by `bend`.
function link(geometry, i, j, bend = 0, gap = 2) {
  const a = geometry.nodes[i],
    b = geometry.nodes[j];
  const along = Math.atan2(b.y - a.y, b.x - a.x),
    length = Math.hypot(b.x - a.x, b.y - a.y);
  const turn = length > 0 ? Math.atan2(2 * bend, length) : 0;
  const [x1, y1] = border(geometry, i, along + turn, gap),
    [x2, y2] = border(geometry, j, along + Math.PI - turn, gap);
  const middle = [(a.x + b.x) / 2 - Math.sin(along) * bend, (a.y + b.y) / 2 + Math.cos(along) * bend];
  const path = bend
    ? `M${x1} ${y1}Q${middle[0] - Math.sin(along) * bend * 0.6} ${middle[1] + Math.cos(along) * bend * 0.6} ${x2} ${y2}`
    : `M${x1} ${y1}L${x2} ${y2}`;
  return { path, end: [x2, y2], angle: along - turn, middle, along };
}

function isReversed(i, j) {
  return run.drawing.directed && run.drawing.edges.some(([a, b]) => a === j && b === i);
}
const edgeBend = (i, j) => (isReversed(i, j) ? 9 : 0);

// Weights keep away from each other and from nodes: each takes the best of a few places along its edge.
function weightPlaces(geometry) {
  const key = `${geometry.width}`;
  if (labelPlaces.has(key)) return labelPlaces.get(key);
  const taken = geometry.nodes.map(({ x, y }) => [x, y, geometry.radius + 9]);
  const places = run.drawing.edges.map(([i, j]) => {
    const a = geometry.nodes[i],
      b = geometry.nodes[j],
      bend = edgeBend(i, j);
    const along = Math.atan2(b.y - a.y, b.x - a.x);
    let best = null,
      bestRoom = -Infinity;
    for (const share of [0.5, 0.42, 0.58, 0.34, 0.66, 0.27, 0.73]) {
      const sideways = bend * 4 * share * (1 - share) * 0.8;
      const x = a.x + (b.x - a.x) * share - Math.sin(along) * sideways,
        y = a.y + (b.y - a.y) * share + Math.cos(along) * sideways;
      const room =
        Math.min(...taken.map(([u, v, radius]) => Math.hypot((x - u) * 0.75, y - v) - radius), 30) -
        Math.abs(share - 0.5) * 8;
      if (room > bestRoom) [best, bestRoom] = [[x, y], room];
    }
    taken.push([...best, 9]);
    return best;
  });
  labelPlaces.set(key, places);
  return places;
}

// Many nodes with several numbers each need room, even if it must be scrolled.
function roomFor(width) {
  return size > 10 && hints.filter((probe) => probe.sign.shape === "value" && probe.isOn).length > 1
    ? Math.max(width, 36 * size)
    : width;
}

function drawGraph(moment, available) {
  const width = roomFor(available),
    geometry = graphGeometry(width);
  const picture = svg("svg", { width, height: geometry.height, viewBox: `0 0 ${width} ${geometry.height}` });
  drawEdges(picture, moment, geometry);
  drawPointers(picture, moment, geometry);
  drawAttention(picture, moment, geometry);
  drawWeights(picture, geometry);
  const tags = tagsByNode(moment);
  for (let node = 0; node < size; node++) drawNode(picture, moment, geometry, node, tags.get(node) || []);
  if (moment.side === "network" && run.attention) drawEdgeTargets(picture, geometry);
  return picture;
}

function drawEdges(picture, moment, geometry) {
  const marks = moment.drawn("edge");
  for (const [i, j] of run.drawing.edges) {
    const { path, end, angle } = link(geometry, i, j, edgeBend(i, j));
    picture.append(svg("path", { class: "edge", d: path, "data-edge": `${i}-${j}` }));
    if (run.drawing.directed) picture.append(arrowhead(...end, angle, "var(--line)", 8));
    for (const mark of marks) drawEdgeMark(picture, moment, mark, geometry, i, j);
  }
  for (const { name } of marks) drawMarksOffEdges(picture, moment, name, geometry);
}

const isEdge = (i, j) => run.drawing.edges.some(([a, b]) => (a === i && b === j) || (a === j && b === i));

// Edges that the network marks though the graph does not have them.
function drawMarksOffEdges(picture, moment, name, geometry) {
  moment.values(name).forEach((value, element) => {
    const i = Math.floor(element / size),
      j = element % size;
    if (value === 1 && i !== j && moment.isWrong(name, element) && !isEdge(i, j))
      picture.append(svg("path", { class: "wrong-halo", d: link(geometry, i, j, 12).path }));
  });
}

function drawEdgeMark(picture, moment, { name, sign }, geometry, i, j) {
  const both = run.drawing.directed ? [i * size + j] : [i * size + j, j * size + i];
  const isMarked = both.some((element) => moment.value(name, element) === 1);
  const isWrong = both.some((element) => moment.isWrong(name, element)),
    hasChanged = both.some((element) => moment.hasChanged(name, element));
  if (!isMarked && !isWrong) return;
  const { path, middle } = link(geometry, i, j, edgeBend(i, j));
  if (hasChanged) picture.append(svg("path", { class: "changed-halo", d: path, style: "stroke-width:11" }));
  if (isMarked)
    picture.append(
      svg("path", {
        class: "edge marked",
        d: path,
        "data-marked": `${i}-${j}`,
        style: `stroke:${isWrong ? "var(--wrong)" : tone(sign)}`,
      }),
    );
  else picture.append(svg("path", { class: "wrong-halo", d: path }));
  if (isWrong) picture.append(svg("text", { class: "small halo wrong", x: middle[0], y: middle[1] - 8 }, "≠"));
}

function drawPointers(picture, moment, geometry) {
  const signs = []; // of wrong ones, beside the arrow and near its start, where no weight stands
  for (const { name, probe, sign } of moment.drawn("arrow")) {
    const isSecond = sign.tone > 0;
    for (let node = 0; node < size; node++) {
      const target = moment.value(name, node),
        isWrong = moment.isWrong(name, node);
      if (target === node) continue; // a wrong one to itself shows at the node
      const { path, end, angle } = link(geometry, node, target, isSecond ? 16 : isEdge(node, target) ? 0 : 14, 3);
      const colour = isWrong ? "var(--wrong)" : tone(sign);
      if (moment.hasChanged(name, node))
        picture.append(svg("path", { class: "changed-halo", d: path, style: "stroke-width:9" }));
      picture.append(
        svg("path", {
          class: classes("arrow", isSecond && "second"),
          d: path,
          style: `stroke:${colour}`,
          "data-arrow": `${node}-${target}`,
          "data-probe": probe.name,
        }),
      );
      picture.append(arrowhead(...end, angle, colour, 11));
      if (isWrong) signs.push([geometry.nodes[node], geometry.nodes[target]]);
    }
  }
  for (const [a, b] of signs) {
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1,
      share = Math.min(0.45, (geometry.radius + 22) / length);
    const across = [-(b.y - a.y) / length, (b.x - a.x) / length].map((part) => 9 * part);
    picture.append(
      svg(
        "text",
        {
          class: "small halo wrong",
          x: a.x + (b.x - a.x) * share + across[0],
          y: a.y + (b.y - a.y) * share + across[1] + 4,
        },
        "≠",
      ),
    );
  }
}

function drawWeights(picture, geometry) {
  if (!run.drawing.weights.length || !showWeights()) return;
  weightPlaces(geometry).forEach(([x, y], index) =>
    picture.append(
      svg("text", { class: "weight halo", x, y, "data-weight": index }, number(run.drawing.weights[index])),
    ),
  );
}

function drawNode(picture, moment, geometry, node, tags) {
  const { x, y } = geometry.nodes[node],
    r = geometry.radius,
    half = geometry.half[node];
  const pill = (extra, attributes) =>
    svg("rect", {
      x: x - half - extra,
      y: y - r - extra,
      width: 2 * (half + extra),
      height: 2 * (r + extra),
      rx: r + extra,
      ...attributes,
    });
  const group = svg("g", { "data-node": node });
  const own = nodeSigns(moment, node);
  if (own.changed) group.append(pill(4, { class: "changed-halo" }));
  if (own.wrong) group.append(pill(4, { class: "wrong-halo" }));
  own.rings.forEach(({ probe, sign }, index) =>
    group.append(pill(3.5 + 4 * index, { class: "ring", style: `stroke:${tone(sign)}`, "data-ring": probe.name })),
  );
  group.append(pill(0, { class: classes("node", own.fill) }));
  if (run.drawing.source === node) group.append(pill(-3, { class: "source" }));
  const ink = { white: "fill:#111", gray: "fill:#111", black: "fill:#fff" }[own.fill];
  const text = svg(
    "text",
    { class: "label", x, y, style: classes(ink, geometry.width < 500 && half > r && ";font-size:11.5px") || null },
    shorten(label(node), longest(geometry.width)),
  );
  group.append(text, svg("title", {}, nodeWords(moment, node)));
  if (tags.length) group.append(rowOfTags(moment, tags, x, y - r - 13));
  const lines = valueLines(moment, node);
  lines.forEach(({ text: line, wrong, changed, probe }, index) =>
    group.append(
      svg(
        "text",
        {
          class: classes("small halo", wrong && "wrong", changed && "changed"),
          x,
          y: y + r + 13 + 13 * index,
          "data-value": probe.name,
        },
        line,
      ),
    ),
  );
  if (own.wrong) group.append(svg("text", { class: "small halo wrong", x: x + half + 9, y: y - r + 2 }, "≠"));
  picture.append(group);
}

// What a node's fill, rings and outline say.
function nodeSigns(moment, node) {
  const found = { fill: "", rings: [], changed: false, wrong: false };
  for (const drawn of moment.drawn("fill", "ring", "arrow")) {
    const { name, sign, probe } = drawn,
      value = moment.value(name, node);
    const isWrong = moment.isWrong(name, node);
    if (sign.shape === "arrow") {
      if (isWrong && value === node) found.wrong = true;
      continue;
    }
    if (moment.hasChanged(name, node)) found.changed = true;
    if (isWrong) found.wrong = true;
    if (sign.shape === "fill")
      found.fill = probe.kind === "categorical" ? probe.names[value] || "" : value === 1 ? "filled" : "";
    else if (value === 1) found.rings.push(drawn);
  }
  return found;
}

function nodeWords(moment, node) {
  const parts = [];
  for (const { drawnAs: name, ...probe } of moment.isAnswer ? outputs : hints) {
    if (probe.location !== "node" || probe[moment.side] === null) continue;
    if (probe.kind !== "mask_one") parts.push(`${probe.name}: ${said(probe, moment.value(name, node))}`);
    else if (moment.value(name) === node) parts.push(probe.name);
  }
  return `${spoken(node)} — ${parts.join(", ")}`;
}

const showWeights = () => weightsAreOn;
let weightsAreOn = run.drawing.kind === "graph" && run.drawing.edges.length <= 60;

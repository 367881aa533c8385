// Arrays as bars in the order in which they stand, with pointers below; activities as intervals on a time axis.
function arrayOrder(moment) {
  const order = moment.drawn("order")[0];
  const given = [...Array(size).keys()];
  if (!order) return { nodes: given, loose: new Set(), name: null };
  const before = moment.values(order.name),
    after = new Map();
  for (const node of given) if (before[node] !== node && !after.has(before[node])) after.set(before[node], node);
  const nodes = [],
    seen = new Set();
  let node = given.find((candidate) => before[candidate] === candidate);
  while (node !== undefined && !seen.has(node)) {
    seen.add(node);
    nodes.push(node);
    node = after.get(node);
  }
  const loose = given.filter((candidate) => !seen.has(candidate)); // the network's pointers need not make an order
  return { nodes: [...nodes, ...loose], loose: new Set(loose), name: order.name };
}

function drawArray(moment, width) {
  const { heights, below, line } = run.drawing,
    order = arrayOrder(moment);
  const slot = Math.max(24, Math.min(64, (width - 20) / size)),
    left = Math.max(10, (width - slot * size) / 2);
  const full = Math.max(width, slot * size + 20);
  const low = Math.min(0, ...heights, line ?? 0),
    high = Math.max(0, ...heights, line ?? 0),
    span = high - low || 1;
  const arcs = moment.drawn("arrow").length ? 58 : 0,
    top = 22 + arcs,
    tall = 170;
  const scale = (value) => top + (tall * (high - value)) / span;
  const middle = (slotIndex) => left + slot * (slotIndex + 0.5),
    place = new Map(order.nodes.map((node, index) => [node, index]));
  const rows = Object.keys(below).length + valueRowsCount(moment);
  const windows = run.drawing.windows.filter(({ first, last }) => moment.isOn(first) && moment.isOn(last));
  const tags = tagsByNode(moment),
    deepest = Math.max(1, ...[...tags.values()].map((list) => list.length));
  const textTop = top + tall + 18,
    tagTop = textTop + 14 * (rows + 1) + 4,
    windowTop = tagTop + 18 * deepest + 2;
  const height = windowTop + 26 * windows.length + 6;
  const picture = svg("svg", { width: full, height, viewBox: `0 0 ${full} ${height}` });
  picture.append(
    svg("line", { class: "axis-line", x1: left - 4, x2: left + slot * size + 4, y1: scale(0), y2: scale(0) }),
  );
  order.nodes.forEach((node, index) => drawBar(picture, moment, order, node, middle(index), slot, scale, textTop));
  if (line !== null)
    picture.append(
      svg("line", { class: "target", x1: left - 4, x2: left + slot * size + 4, y1: scale(line), y2: scale(line) }),
      svg("text", { class: "small halo", x: left + 40, y: scale(line) - 5 }, `target ${number(line)}`),
    );
  for (const [node, list] of tags)
    list.forEach((drawn, depth) => picture.append(tag(moment, drawn, middle(place.get(node)), tagTop + 18 * depth)));
  windows.forEach((window, index) =>
    drawWindow(picture, moment, window, place, middle, slot, windowTop + 26 * index, index),
  );
  for (const drawn of moment.drawn("arrow"))
    drawArcs(picture, moment, drawn, place, middle, (node) => Math.min(scale(heights[node]), scale(0)) - 16);
  return picture;
}

const valueRowsCount = (moment) => moment.drawn("value").filter(({ probe }) => probe.location === "node").length;

function drawBar(picture, moment, order, node, x, slot, scale, textTop) {
  const value = run.drawing.heights[node],
    wide = slot * 0.66;
  const fill = moment.drawn("fill")[0],
    isFilled = fill && moment.value(fill.name, node) === 1;
  const names = [fill && fill.name, order.name].filter(Boolean);
  const isWrong = names.some((name) => moment.isWrong(name, node)),
    hasChanged = names.some((name) => moment.hasChanged(name, node));
  const y = Math.min(scale(value), scale(0)),
    height = Math.max(1.5, Math.abs(scale(value) - scale(0)));
  const group = svg("g", { "data-node": node });
  if (hasChanged)
    group.append(
      svg("rect", { class: "changed-halo", x: x - wide / 2 - 1, y: y - 1, width: wide + 2, height: height + 2 }),
    );
  group.append(
    svg("rect", {
      class: classes("bar", isFilled && "filled", order.loose.has(node) && "loose"),
      x: x - wide / 2,
      y,
      width: wide,
      height,
      "data-bar": node,
    }),
  );
  if (isWrong) group.append(svg("rect", { class: "wrong-halo", x: x - wide / 2, y, width: wide, height }));
  if (run.drawing.isOwn && label(node) !== `${value}`)
    group.append(
      svg(
        "text",
        { class: classes("small halo", isWrong && "wrong"), x, y: y - 5 },
        slot < 30 ? number(value).replace("0.", ".") : number(value),
      ),
    );
  let line = textTop;
  const write = (text, classNames = "") => (
    group.append(svg("text", { class: classes("small", classNames), x, y: line }, text)),
    (line += 14)
  );
  write(`${shorten(label(node), Math.floor(slot / 7))}${isWrong ? "≠" : ""}`, classes("head", isWrong && "wrong"));
  for (const [name, values] of Object.entries(run.drawing.below))
    write(`${slot < 44 && values[node] < 10 ? "" : `${name} `}${number(values[node])}`);
  for (const { text, wrong, changed } of valueLines(moment, node))
    write(slot < 44 ? text.split(" ").slice(1).join("") : text, classes(wrong && "wrong", changed && "changed"));
  group.append(svg("title", {}, nodeWords(moment, node)));
  picture.append(group);
}

function drawWindow(picture, moment, { title, first, last }, place, middle, slot, y, index) {
  const [a, b] = [place.get(moment.value(first)), place.get(moment.value(last))];
  if (a === undefined || b === undefined) return;
  const isWrong = moment.isWrong(first) || moment.isWrong(last),
    colour = isWrong ? "var(--wrong)" : `var(--tone-${index})`;
  const [from, to] = [middle(Math.min(a, b)) - slot * 0.45, middle(Math.max(a, b)) + slot * 0.45];
  picture.append(
    svg("path", {
      class: "window",
      d: `M${from} ${y - 3}v6H${to}v-6`,
      style: `stroke:${colour};${isWrong ? "stroke-dasharray:5 3" : ""}`,
      "data-window": title,
    }),
  );
  const text = a > b ? `${title}: empty` : title;
  const centre = Math.max(textWidth(text, 11.5) / 2 + 2, (from + to) / 2);
  picture.append(
    svg(
      "text",
      { class: classes("small", isWrong && "wrong"), x: centre, y: y + 15 },
      `${text}${isWrong ? " ≠" : ""}`,
    ),
  );
}

// Pointers between slots, as arcs above the bars.
function drawArcs(picture, moment, { name, sign, probe }, place, middle, top) {
  for (let node = 0; node < size; node++) {
    const target = moment.value(name, node),
      isWrong = moment.isWrong(name, node);
    if (target === node) continue;
    const [x1, y1, x2, y2] = [middle(place.get(node)), top(node), middle(place.get(target)), top(target)];
    const peak = Math.min(y1, y2) - 14 - Math.min(36, Math.abs(x2 - x1) * 0.16),
      colour = isWrong ? "var(--wrong)" : tone(sign);
    if (moment.hasChanged(name, node))
      picture.append(svg("path", { class: "changed-halo", d: `M${x1} ${y1}Q${(x1 + x2) / 2} ${peak} ${x2} ${y2}` }));
    picture.append(
      svg("path", {
        class: classes("arrow", isWrong && "second"),
        style: `stroke:${colour};stroke-width:1.7`,
        d: `M${x1} ${y1}Q${(x1 + x2) / 2} ${peak} ${x2} ${y2}`,
        "data-arrow": `${node}-${target}`,
        "data-probe": probe.name,
      }),
    );
    picture.append(arrowhead(x2, y2, Math.atan2(y2 - peak, (x2 - x1) / 2), colour, 8));
  }
}

function drawIntervals(moment, width) {
  const { start, end } = run.drawing,
    right = 14,
    row = 26,
    top = 8;
  const most = width < 500 ? 8 : 14,
    left = Math.max(60, ...run.labels.map((text) => textWidth(`${shorten(text, most)} ✓ ≠`) + 12));
  const low = Math.min(...start),
    high = Math.max(...end),
    height = top + row * size + 26;
  const scale = (value) => left + ((width - left - right) * (value - low)) / (high - low || 1);
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` }),
    tags = tagsByNode(moment);
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const value = low + share * (high - low);
    picture.append(
      svg("line", { class: "grid-line", x1: scale(value), x2: scale(value), y1: top, y2: height - 20 }),
      svg(
        "text",
        { class: "head", x: Math.max(left + 8, Math.min(width - 16, scale(value))), y: height - 9 },
        number(value),
      ),
    );
  }
  const fill = moment.drawn("fill")[0];
  for (let node = 0; node < size; node++) {
    const y = top + row * node + 4,
      isSelected = fill && moment.value(fill.name, node) === 1;
    const isWrong = fill && moment.isWrong(fill.name, node),
      hasChanged = fill && moment.hasChanged(fill.name, node);
    const box = {
      x: scale(start[node]),
      y,
      width: Math.max(2, scale(end[node]) - scale(start[node])),
      height: row - 8,
    };
    const group = svg("g", { "data-node": node });
    if (hasChanged) group.append(svg("rect", { class: "changed-halo", ...box }));
    group.append(
      svg("rect", { class: classes("interval", isSelected && "filled"), rx: 3, ...box, "data-interval": node }),
    );
    if (isWrong) group.append(svg("rect", { class: "wrong-halo", ...box }));
    const text = `${shorten(label(node), most)}${isSelected ? " ✓" : ""}${isWrong ? " ≠" : ""}`;
    group.append(
      svg(
        "text",
        { class: classes("label", isWrong && "wrong"), style: "text-anchor:start", x: 2, y: y + row / 2 - 4 },
        text,
      ),
      svg("title", {}, nodeWords(moment, node)),
    );
    if (tags.has(node))
      group.append(
        rowOfTags(
          moment,
          tags.get(node),
          Math.min(width - 30, Math.max(left + 14, scale(start[node]) - 18)),
          y + row / 2 - 4,
        ),
      );
    picture.append(group);
  }
  return picture;
}

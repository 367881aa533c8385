// Points in the plane: the hull or the stack as a line through them, lines between the points that are compared.
function pointGeometry(width) {
  const { x, y } = run.drawing,
    margin = 40,
    tall = Math.max(280, Math.min(460, width * 0.8));
  const low = [Math.min(...x), Math.min(...y)],
    high = [Math.max(...x), Math.max(...y)];
  const scale = Math.min(
    (width - 2 * margin) / (high[0] - low[0] || 1),
    (tall - 2 * margin) / (high[1] - low[1] || 1),
  );
  const nodes = x.map((value, node) => ({
    x: width / 2 + (value - (low[0] + high[0]) / 2) * scale,
    y: tall / 2 - (y[node] - (low[1] + high[1]) / 2) * scale,
  }));
  return { nodes, radius: 9, half: x.map(() => 9), height: tall, width };
}

function drawPoints(moment, width) {
  const geometry = pointGeometry(width),
    { nodes, height } = geometry;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}` });
  const at = (node) => `${nodes[node].x},${nodes[node].y}`;
  for (const [i, j] of run.drawing.segments)
    picture.append(svg("line", { class: "segment", x1: nodes[i].x, y1: nodes[i].y, x2: nodes[j].x, y2: nodes[j].y }));
  drawHull(picture, moment, at);
  for (const line of run.drawing.lines) drawLine(picture, moment, line, nodes);
  for (const { name, sign, probe } of moment.drawn("arrow"))
    drawStackLinks(picture, moment, geometry, name, sign, probe);
  drawAttention(picture, moment, geometry);
  const tags = tagsByNode(moment);
  nodes.forEach((_, node) => drawPoint(picture, moment, geometry, node, tags.get(node) || []));
  return picture;
}

// At the answer a polygon; before, a line in the order in which the march found its corners. A scan shows its stack.
function drawHull(picture, moment, at) {
  const corners = moment.drawn("fill").find(({ name }) => name === "in_hull_h");
  if (!corners) return;
  const isIn = (node) => moment.value(corners.name, node) === 1;
  const marked = [...Array(size).keys()].filter(isIn);
  if (moment.isAnswer) {
    const { x, y } = run.drawing,
      centre = [marked, x, y]
        .slice(1)
        .map((axis) => marked.reduce((sum, node) => sum + axis[node], 0) / marked.length);
    marked.sort(
      (a, b) => Math.atan2(y[a] - centre[1], x[a] - centre[0]) - Math.atan2(y[b] - centre[1], x[b] - centre[0]),
    );
    if (marked.length > 1)
      picture.append(
        svg("polygon", { class: "hull", points: marked.map(at).join(" "), "data-hull": marked.join(" ") }),
      );
    return;
  }
  if (probes.has("stack_prev")) return;
  const found = [];
  for (let step = 0; step <= moment.step; step++)
    for (const node of marked)
      if (!found.includes(node) && probes.get(corners.name)[moment.side][step][node] === 1) found.push(node);
  if (found.length > 1)
    picture.append(
      svg("polyline", {
        class: "hull",
        style: "fill:none",
        points: found.map(at).join(" "),
        "data-hull": found.join(" "),
      }),
    );
}

function drawLine(picture, moment, { from, to, style }, nodes) {
  if (!moment.isOn(from) || !moment.isOn(to)) return;
  const [a, b] = [moment.value(from), moment.value(to)];
  if (a < 0 || b < 0 || a === b) return;
  const isWrong = moment.isWrong(from) || moment.isWrong(to);
  const colour = isWrong ? "var(--wrong)" : style === "dotted" ? "var(--soft)" : "var(--tone-1)";
  picture.append(
    svg("line", {
      x1: nodes[a].x,
      y1: nodes[a].y,
      x2: nodes[b].x,
      y2: nodes[b].y,
      style: `stroke:${colour};${style === "dotted" ? "stroke-width:1.5;stroke-dasharray:2 4" : "stroke-width:3"}`,
      "data-line": `${from}-${to}`,
    }),
  );
}

function drawStackLinks(picture, moment, geometry, name, sign, probe) {
  for (let node = 0; node < size; node++) {
    const target = moment.value(name, node),
      isWrong = moment.isWrong(name, node);
    if (target === node) continue;
    const { path, end, angle } = link(geometry, node, target, 0, 2),
      colour = isWrong ? "var(--wrong)" : tone(sign);
    if (moment.hasChanged(name, node))
      picture.append(svg("path", { class: "changed-halo", d: path, style: "stroke-width:9" }));
    picture.append(
      svg("path", {
        class: classes("arrow", isWrong && "second"),
        d: path,
        style: `stroke:${colour}`,
        "data-arrow": `${node}-${target}`,
        "data-probe": probe.name,
      }),
      arrowhead(...end, angle, colour),
    );
  }
}

// Inside of the point if it is short, else beside it.
function pointLabel(geometry, node) {
  const { x, y } = geometry.nodes[node],
    text = label(node);
  if (text.length <= 2) return svg("text", { class: "label", style: "font-size:10.5px", x, y }, text);
  const isRight = x + 16 + textWidth(shorten(text, 10), 12) < geometry.width;
  return svg(
    "text",
    {
      class: "label halo",
      style: `font-size:12px;text-anchor:${isRight ? "start" : "end"}`,
      x: x + (isRight ? 14 : -14),
      y,
    },
    shorten(text, 10),
  );
}

function drawPoint(picture, moment, geometry, node, tags) {
  const { x, y } = geometry.nodes[node],
    own = nodeSigns(moment, node),
    group = svg("g", { "data-node": node });
  if (own.changed) group.append(svg("circle", { class: "changed-halo", cx: x, cy: y, r: 13 }));
  if (own.wrong) group.append(svg("circle", { class: "wrong-halo", cx: x, cy: y, r: 13 }));
  own.rings.forEach(({ sign, probe }) =>
    group.append(
      svg("circle", { class: "ring", cx: x, cy: y, r: 12, style: `stroke:${tone(sign)}`, "data-ring": probe.name }),
    ),
  );
  group.append(svg("circle", { class: classes("node", own.fill), cx: x, cy: y, r: 9 }));
  group.append(pointLabel(geometry, node), svg("title", {}, nodeWords(moment, node)));
  if (own.wrong) group.append(svg("text", { class: "small halo wrong", x: x + 18, y: y - 8 }, "≠"));
  const isHigh = y < 60;
  if (tags.length)
    group.append(rowOfTags(moment, tags, Math.max(24, Math.min(geometry.width - 24, x)), isHigh ? y + 23 : y - 23));
  valueLines(moment, node).forEach(({ text, wrong, changed, probe }, index) =>
    group.append(
      svg(
        "text",
        {
          class: classes("small halo", wrong && "wrong", changed && "changed"),
          x: Math.max(30, Math.min(geometry.width - 30, x)),
          y: y + (isHigh && tags.length ? 42 : 23) + 13 * index,
          "data-value": probe.name,
        },
        text,
      ),
    ),
  );
  picture.append(group);
}

// Strings: the haystack as a row of cells, the needle below it at the shift where it is tried.
function drawStrings(moment, width) {
  const { split } = run.drawing,
    cell = Math.max(22, Math.min(38, (width - 24) / split));
  const full = Math.max(width, cell * split + 24),
    left = Math.max(12, (full - cell * split) / 2);
  const tags = tagsByNode(moment);
  const depth = (from, to) =>
    Math.max(0, ...[...tags].filter(([node]) => node >= from && node < to).map(([, list]) => list.length));
  const above = 18 * depth(0, split),
    rowTop = 18 + above + 16,
    needleTop = rowTop + cell + 16;
  const notes = moment.drawn("row");
  const height = needleTop + cell + 18 + 17 * notes.length + 18 * Math.max(1, depth(split, size)) + 10;
  const picture = svg("svg", { width: full, height, viewBox: `0 0 ${full} ${height}` });
  const shiftNode = moment.value("s"),
    length = size - split;
  const isShift = moment.isOn("s"),
    shift = Math.max(0, Math.min(isShift ? shiftNode : 0, split - 1));
  const needleLeft = Math.min(left + cell * shift, full - 8 - cell * length);
  for (let node = 0; node < split; node++) drawLetter(picture, node, left + cell * node, rowTop, cell, `${node}`);
  for (let j = 0; j < length; j++) drawLetter(picture, split + j, needleLeft + cell * j, needleTop, cell, null);
  if (isShift) drawShift(picture, moment, left, cell, rowTop, needleTop, shift, length, split, shiftNode);
  const x = (node) => (node < split ? left + cell * (node + 0.5) : needleLeft + cell * (node - split + 0.5));
  const noteTop = needleTop + cell + 15;
  notes.forEach((drawn, index) => drawNeedleRow(picture, moment, drawn, split, x, noteTop + 17 * index, needleLeft));
  for (const [node, list] of tags)
    list.forEach((drawn, place) => {
      const y = node < split ? rowTop - 24 - 18 * place : noteTop + 17 * notes.length + 2 + 18 * place;
      picture.append(tag(moment, drawn, x(node), y));
    });
  return picture;
}

function drawLetter(picture, node, x, y, cell, index) {
  const group = svg("g", { "data-node": node });
  picture.append(group);
  group.append(
    svg("rect", { class: "cell", x, y, width: cell, height: cell, "data-cell": node }),
    svg(
      "text",
      { class: "cell-text", x: x + cell / 2, y: y + cell / 2, "font-size": 15, "font-weight": 600 },
      label(node),
    ),
  );
  if (index !== null) picture.append(svg("text", { class: "head", x: x + cell / 2, y: y - 7 }, index));
}

// The part of the haystack that the needle lies under.
function drawShift(picture, moment, left, cell, rowTop, needleTop, shift, length, split, shiftNode) {
  const isWrong = moment.isWrong("s"),
    isNowhere = shiftNode >= split,
    last = Math.min(split, shift + length);
  if (isNowhere)
    return void picture.append(
      svg(
        "text",
        { class: classes("small", isWrong && "wrong"), style: "text-anchor:start", x: left, y: needleTop - 4 },
        `no occurrence${isWrong ? " ≠" : ""}`,
      ),
    );
  const box = { x: left + cell * shift, y: rowTop, width: cell * (last - shift), height: cell, "data-shift": shift };
  if (moment.hasChanged("s")) picture.append(svg("rect", { class: "changed-halo", ...box }));
  picture.append(
    svg("rect", {
      class: isWrong ? "wrong-halo" : "window",
      style: isWrong ? "" : "stroke:var(--tone-0);stroke-width:3",
      ...box,
    }),
  );
  if (isWrong)
    picture.append(svg("text", { class: "small halo wrong", x: box.x + box.width / 2, y: needleTop - 4 }, "≠"));
}

// A row of values below the needle: the prefix function and what else is known of its characters.
function drawNeedleRow(picture, moment, { name, probe }, split, x, y, left) {
  const isLeft = left > 70; // where the name of the row has room
  picture.append(
    svg(
      "text",
      { class: "head", style: `text-anchor:${isLeft ? "end" : "start"}`, x: isLeft ? left - 6 : x(size - 1) + 26, y },
      probe.name,
    ),
  );
  for (let node = split; node < size; node++) {
    const value = moment.value(name, node),
      isWrong = moment.isWrong(name, node),
      hasChanged = moment.hasChanged(name, node);
    const text =
      probe.kind === "pointer"
        ? value < split
          ? "?"
          : `${value - split}`
        : probe.kind === "mask"
          ? value === 1
            ? "●"
            : "·"
          : said(probe, value);
    picture.append(
      svg(
        "text",
        {
          class: classes("small", isWrong && "wrong", hasChanged && "changed"),
          style: "dominant-baseline:central",
          x: x(node),
          y,
          "data-value": name,
        },
        `${text}${hasChanged ? "*" : ""}${isWrong ? "≠" : ""}`,
      ),
    );
  }
  const wrongAbove = [...Array(split).keys()].filter((node) => moment.isWrong(name, node)).length;
  if (wrongAbove)
    picture.append(
      svg(
        "text",
        {
          class: "small wrong",
          style: "text-anchor:start;dominant-baseline:central",
          x: x(size - 1) + (isLeft ? 26 : 34 + textWidth(probe.name, 11)),
          y,
        },
        `≠ at ${wrongAbove} of the text`,
      ),
    );
}

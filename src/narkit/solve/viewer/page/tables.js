// Tables and matrices: one grid per hint that has a value for every pair of nodes.
const arrows = ["↖", "↑", "←", ""];

function tableFrame() {
  const { rows = [0, size], columns = [0, size], triangle = false } = run.drawing;
  return { rows, columns, triangle, name: (node) => shorten(label(node), 4) };
}

// What stands in one grid: usually one hint; of the longest common subsequence its lengths with their arrows.
function grids(moment) {
  const cells = moment.drawn("cell");
  const lengths = cells.find(({ probe }) => probe.kind === "scalar"),
    sources = cells.find(({ probe }) => probe.kind === "categorical");
  if (lengths && sources)
    return [{ title: `${lengths.probe.name} and ${sources.probe.name}`, parts: [lengths, sources] }];
  return cells.map((cell) => ({ title: cell.probe.name, parts: [cell] }));
}

function drawTables(moment, width) {
  const frame = tableFrame(),
    shown = grids(moment);
  const columns = frame.columns[1] - frame.columns[0],
    rows = frame.rows[1] - frame.rows[0];
  const widest = shown.some(({ parts }) => parts.length > 1) ? 62 : 46,
    least = shown.some(({ parts }) => parts.length > 1) ? 44 : 29;
  let perRow = Math.max(1, shown.length); // as many beside each other as stay readable
  while (perRow > 1 && (width / perRow - 40) / columns < 31) perRow--;
  const cell = Math.max(least, Math.min(widest, (width / perRow - 40) / columns)),
    tall = Math.min(cell, 30);
  const gridWidth = 32 + cell * columns + 6,
    gridHeight = 44 + tall * rows + 10;
  const numbers = Object.entries(run.drawing.numbers || {});
  const top = numbers.length ? 16 * numbers.length + 22 : 0;
  const full = Math.max(width, gridWidth),
    height = top + gridHeight * Math.max(1, Math.ceil(shown.length / perRow));
  const picture = svg("svg", { width: full, height, viewBox: `0 0 ${full} ${height}` });
  if (numbers.length) drawNumbers(picture, numbers, full);
  shown.forEach((grid, index) => {
    const group = svg("g", {
      transform: `translate(${(index % perRow) * gridWidth} ${top + Math.floor(index / perRow) * gridHeight})`,
      "data-grid": grid.title,
    });
    drawGrid(group, moment, grid, frame, cell, tall);
    picture.append(group);
  });
  return picture;
}

// The numbers that the table is made of, over the table.
function drawNumbers(picture, numbers, width) {
  const step = Math.max(34, Math.min(46, (width - 40) / size));
  for (let node = 0; node < size; node++)
    picture.append(svg("text", { class: "head", x: 32 + step * (node + 0.5), y: 8 }, label(node)));
  numbers.forEach(([name, values], row) => {
    picture.append(svg("text", { class: "head", x: 14, y: 24 + 16 * row }, name));
    values.forEach((value, node) =>
      picture.append(
        svg(
          "text",
          { class: "small", style: "dominant-baseline:central", x: 32 + step * (node + 0.5), y: 24 + 16 * row },
          number(value),
        ),
      ),
    );
  });
}

function isKnown(moment, element) {
  const mask = moment.drawn("blank")[0];
  return !mask || moment.value(mask.name, element) === 1;
}

function drawGrid(group, moment, { title, parts }, frame, cell, tall) {
  const mask = moment.drawn("blank")[0],
    passing = moment.isOn("k") ? moment.value("k") : -1;
  const left = 32,
    top = 38;
  group.append(
    svg(
      "text",
      { class: "grid-title", x: left, y: 12 },
      `${title}${parts.some(({ name }) => moment.isWrong(name, -1)) ? " ≠" : ""}`,
    ),
  );
  for (let column = frame.columns[0]; column < frame.columns[1]; column++)
    group.append(
      svg(
        "text",
        { class: "head", x: left + cell * (column - frame.columns[0] + 0.5), y: top - 9 },
        frame.name(column),
      ),
    );
  for (let row = frame.rows[0]; row < frame.rows[1]; row++) {
    const y = top + tall * (row - frame.rows[0]);
    group.append(svg("text", { class: "head", x: 16, y: y + tall / 2 }, frame.name(row)));
    for (let column = frame.columns[0]; column < frame.columns[1]; column++) {
      if (frame.triangle && column < row) continue;
      drawCell(
        group,
        moment,
        parts,
        mask,
        row,
        column,
        left + cell * (column - frame.columns[0]),
        y,
        cell,
        tall,
        row === passing || column === passing,
      );
    }
  }
}

function drawCell(group, moment, parts, mask, row, column, x, y, width, height, isCrossed) {
  const element = row * size + column,
    known = isKnown(moment, element);
  const values = parts.map(({ name, probe }) => `${probe.name} ${said(probe, moment.value(name, element))}`);
  const names = [...parts.map(({ name }) => name), ...(mask ? [mask.name] : [])];
  const isWrong = names.some((name) => moment.isWrong(name, element)),
    hasChanged = names.some((name) => moment.hasChanged(name, element));
  const box = { x, y, width, height };
  const pair = `${row}-${column}`,
    isChosen = moment.side === "network" && chosen && chosen.join("-") === pair;
  group.append(
    svg("rect", {
      class: classes("cell", !known && "blank", isCrossed && known && "cross"),
      ...box,
      "data-cell": pair,
      "data-pair": pair,
    }),
  );
  if (isChosen) group.append(svg("rect", { class: "attended", ...box }));
  const text =
    known || isWrong
      ? parts.map(({ name, probe }) => cellText(probe, moment.value(name, element), width)).join("")
      : "";
  const shown = `${text}${isWrong ? "≠" : ""}`,
    fontSize = Math.min(12, (width - 3) / Math.max(2.2, shown.length * 0.64));
  const inset = (by) => ({ x: x + by, y: y + by, width: width - 2 * by, height: height - 2 * by });
  if (hasChanged)
    group.append(
      svg("rect", { class: "changed-mark", x: x + 1.5, y: y + height - 4.5, width: width - 3, height: 3.5 }),
    );
  if (isWrong) group.append(svg("rect", { class: "wrong-halo", style: "stroke-width:2", ...inset(2) }));
  group.append(
    svg(
      "text",
      {
        class: classes("cell-text", isWrong && "wrong", hasChanged && "changed"),
        x: x + width / 2,
        y: y + height / 2,
        "font-size": fontSize,
        "data-pair": pair,
      },
      shown,
    ),
    svg("title", {}, `${spoken(row)}, ${spoken(column)}: ${values.join(", ")}${known ? "" : " (not known yet)"}`),
  );
}

function cellText(probe, value, width) {
  if (probe.kind === "categorical") return arrows[value] ?? "";
  if (probe.kind !== "scalar") return shorten(label(value), 5);
  const text = said(probe, value);
  return width < 36 ? text.replace("0.", ".") : text;
}

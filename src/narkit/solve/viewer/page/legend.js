// Switches, one per hint, with its sign and its meaning.
function switches() {
  const units = new Set(run.probes.filter(({ kind }) => kind === "scalar").map(({ unit }) => unit));
  const near =
    units.size === 1 ? ` (numbers: by more than ${Number((run.tolerance * [...units][0]).toPrecision(3))})` : "";
  for (const probe of hints)
    addSwitch(probe.name, probe.meaning, signPicture(probe), probe.isOn, (on) => (probe.isOn = on));
  if (run.drawing.kind === "graph" && run.drawing.weights.length)
    addSwitch(
      "A",
      "weight of the edge",
      svg("svg", { width: 34, height: 20 }, svg("text", { class: "weight", x: 17, y: 10 }, "0.42")),
      weightsAreOn,
      (on) => (weightsAreOn = on),
    );
  const own = outputs.map((probe) =>
    html("li", {}, html("span", {}, "answer: ", html("code", {}, probe.name), ` ${probe.meaning}`)),
  );
  $$("keys").append(
    ...own,
    html(
      "li",
      {},
      svg(
        "svg",
        { width: 26, height: 18, "aria-hidden": "true" },
        svg("rect", { class: "changed-halo", x: 4, y: 3, width: 18, height: 12, rx: 6 }),
      ),
      `* changed since the last step${run.network === null ? "" : near.replace("numbers", "the network’s numbers")}`,
    ),
  );
  if (run.network !== null)
    $$("keys").append(
      html(
        "li",
        {},
        svg(
          "svg",
          { width: 26, height: 18, "aria-hidden": "true" },
          svg("rect", { class: "wrong-halo", x: 4, y: 3, width: 18, height: 12, rx: 6 }),
        ),
        `≠ the network differs from the textbook${near}`,
      ),
    );
  if (run.drawing.kind === "graph" && run.drawing.source !== null)
    $$("keys").append(
      html(
        "li",
        {},
        svg(
          "svg",
          { width: 26, height: 22, "aria-hidden": "true" },
          svg("circle", { class: "node", cx: 13, cy: 11, r: 9 }),
          svg("circle", { class: "source", cx: 13, cy: 11, r: 6 }),
        ),
        "source",
      ),
    );
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
  $$("hints").append(
    html("li", {}, html("label", {}, box, picture, html("span", {}, html("code", {}, name), ` ${meaning}`))),
  );
}

function signPicture({ sign, kind }) {
  const picture = svg("svg", { width: 34, height: 20 }),
    colour = tone(sign),
    isColour = kind === "categorical";
  switch (sign.shape) {
    case "fill":
      if (isColour)
        ["white", "gray", "black"].forEach((name, index) =>
          picture.append(svg("circle", { class: `node ${name}`, cx: 6 + 11 * index, cy: 10, r: 4.5 })),
        );
      else picture.append(svg("rect", { class: "node filled", x: 8, y: 2, width: 18, height: 16, rx: 8 }));
      break;
    case "ring":
      picture.append(
        svg("rect", { class: "node", x: 10, y: 4, width: 14, height: 12, rx: 6 }),
        svg("rect", { class: "ring", x: 7, y: 1, width: 20, height: 18, rx: 9, style: `stroke:${colour}` }),
      );
      break;
    case "tag":
      picture.append(svg("rect", { x: 5, y: 2, width: 24, height: 16, rx: 8, fill: colour }));
      break;
    case "arrow":
      picture.append(
        svg("path", {
          class: classes("arrow", sign.tone > 0 && "second"),
          d: "M4 10L26 10",
          style: `stroke:${colour}`,
        }),
        arrowhead(30, 10, 0, colour),
      );
      break;
    case "edge":
      picture.append(svg("path", { class: "edge marked", d: "M4 10L30 10", style: `stroke:${colour}` }));
      break;
    case "order":
      for (const [x, height] of [
        [7, 6],
        [15, 11],
        [23, 16],
      ])
        picture.append(svg("rect", { class: "bar", x, y: 18 - height, width: 6, height }));
      break;
    case "cell":
      picture.append(
        svg("rect", { class: "cell", x: 6, y: 2, width: 22, height: 16 }),
        svg("text", { class: "cell-text", x: 17, y: 10, "font-size": 10 }, ".42"),
      );
      break;
    case "blank":
      picture.append(svg("rect", { class: "cell blank", x: 6, y: 2, width: 22, height: 16 }));
      break;
    case "caption":
      picture.append(svg("text", { class: "cell-text", x: 17, y: 10, "font-size": 11 }, "a: 1"));
      break;
    case "row":
      picture.append(svg("text", { class: "cell-text", x: 17, y: 10, "font-size": 11 }, "0 1 ●"));
      break;
    default:
      picture.append(svg("text", { class: "cell-text", x: 17, y: 10, "font-size": 11, "font-weight": 600 }, "0.42"));
  }
  return picture;
}

// The paper's Figure 1, live: the objective of FS-TMMC for two classes in the plane, minimised at every move.
(() => {
  const LAMBDA1 = 0.04, GAMMA1 = 20, GAMMA2 = 2, STAGES = [0, 1e-5, 1e-3, 0.1, 1];
  const LONGEST_STEP = 0.1; // a longer one could leave the valley of the stage before
  const SUPPORT = [[0.1, 1.65, 1], [1.5, 2.05, 1], [-0.1, -1.65, -1], [-1.5, -2.05, -1]];
  const queries = [];
  for (let i = 0; i < 9; i++) {
    const t = -2.4 + 0.6 * i, wiggle = 0.25 * Math.sin(5 * i);
    queries.push([t - 0.4, 0.35 * t + 0.95 + wiggle], [t + 0.4, 0.35 * t - 0.95 - wiggle]);
  }

  // Value and gradient of the objective at w; the classes are equally large, so the offset 2/2 - 1 is zero.
  function objective([u, v], lambda2) {
    let value = LAMBDA1 / 2 * (u * u + v * v), gu = LAMBDA1 * u, gv = LAMBDA1 * v;
    for (const [x, y, sign] of SUPPORT) {
      const z = GAMMA1 * (1 - sign * (u * x + v * y));
      value += (z > 30 ? z : Math.log1p(Math.exp(z))) / GAMMA1 / SUPPORT.length;
      const slope = -sign / (1 + Math.exp(-z)) / SUPPORT.length;
      gu += slope * x; gv += slope * y;
    }
    for (const [x, y] of queries) {
      const f = u * x + v * y, e = Math.exp(-GAMMA2 * f * f) * lambda2 / queries.length;
      value += e;
      gu -= 2 * GAMMA2 * f * e * x; gv -= 2 * GAMMA2 * f * e * y;
    }
    return [value, gu, gv];
  }

  // Gradient descent with halved steps: two unknowns need no L-BFGS.
  function descend(w, lambda2) {
    let step = LONGEST_STEP;
    for (let i = 0; i < 800; i++) {
      const [value, gu, gv] = objective(w, lambda2), norm = gu * gu + gv * gv;
      if (norm < 1e-10) break;
      for (step = Math.min(2 * step, LONGEST_STEP); step > 1e-9; step /= 2) {
        const next = [w[0] - step * gu, w[1] - step * gv];
        if (objective(next, lambda2)[0] <= value - 0.3 * step * norm) { w = next; break; }
      }
    }
    return w;
  }

  const figure = document.getElementById("figure1"), svg = figure.querySelector("svg");
  const range = figure.querySelector("input"), output = figure.querySelector("output");
  const make = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return svg.appendChild(element);
  };
  const before = make("line", { class: "before" }), after = make("line", { class: "after" });
  for (const [x, y, sign] of SUPPORT) {
    make("circle", { cx: x, cy: -y, r: 0.17, class: sign > 0 ? "positive" : "negative" });
    make("text", { x, y: -y + 0.08, class: "sign" }).textContent = sign > 0 ? "+" : "−";
  }
  const circles = queries.map((query, i) => make("circle", { r: 0.1, class: "query", "data-query": i }));

  function place(line, [u, v]) {
    const length = Math.hypot(u, v) || 1, dx = -v / length * 9, dy = u / length * 9;
    for (const [key, value] of Object.entries({ x1: -dx, y1: dy, x2: dx, y2: -dy })) line.setAttribute(key, value);
  }

  function draw() {
    const stage = Number(range.value);
    let w = descend([0.3, 0.3], 0);
    place(before, w);
    for (let i = 1; i <= stage; i++) w = descend(w, STAGES[i]);
    place(after, w);
    queries.forEach(([x, y], i) => {
      circles[i].setAttribute("cx", x);
      circles[i].setAttribute("cy", -y);
      circles[i].classList.toggle("above", w[0] * x + w[1] * y > 0);
    });
    output.textContent = `= ${STAGES[stage]}`;
  }

  let dragged = null;
  svg.addEventListener("pointerdown", (event) => {
    if (!event.target.dataset.query) return;
    dragged = Number(event.target.dataset.query);
    svg.setPointerCapture(event.pointerId);
  });
  svg.addEventListener("pointermove", (event) => {
    if (dragged === null) return;
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    queries[dragged] = [Math.max(-3.8, Math.min(3.8, point.x)), -Math.max(-2.4, Math.min(2.4, point.y))];
    draw();
  });
  svg.addEventListener("pointerup", () => { dragged = null; });
  range.addEventListener("input", draw);
  draw();
})();

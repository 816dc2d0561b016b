/* Live charts over inline SVG. Each <figure class="chart"> holds its data as JSON; see figure.py.

   Hover or arrow keys: values at a position. Drag: zoom; double click or Escape: all of it. + and -: zoom at the
   crosshair. Figures of one data-group zoom together. Legend buttons show and hide series. Nothing is loaded. */
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const MARGIN = { left: 64, right: 10, top: 20, bottom: 22 };
  const WIDE = 700, COLOURS = 8, SHADES = 6, ROW = 16, DAY = 86400;
  const TIME_STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, DAY];
  const DATE_STEPS = [60, 300, 900, 3600, 10800, 21600, 43200, ...[1, 2, 7, 14, 28, 91, 182, 364].map((n) => n * DAY)];
  const SHAPES = [
    (x, y) => `M${x - 3} ${y}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z`,
    (x, y) => `M${x - 3} ${y - 3}h6v6h-6Z`,
    (x, y) => `M${x} ${y - 4}l4 7h-8Z`,
    (x, y) => `M${x} ${y - 4}l4 4l-4 4l-4 -4Z`,
    (x, y) => `M${x - 3} ${y - 3}l6 6M${x + 3} ${y - 3}l-6 6`,
    (x, y) => `M${x} ${y - 4}v8M${x - 4} ${y}h8`,
    (x, y) => `M${x} ${y + 4}l4 -7h-8Z`,
    (x, y) => `M${x - 4} ${y}h8`,
  ];

  /* ---- elements */

  function element(name, attributes = {}, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  function html(name, classes, text = "") {
    const made = document.createElement(name);
    made.className = classes;
    made.textContent = text;
    return made;
  }

  const text = (x, y, classes, anchor, words) => element("text", { x, y, class: classes, "text-anchor": anchor }, words);

  /* ---- numbers */

  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  function digits(value) {
    if (Math.abs(value) >= 1000) return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
    return String(Number(value.toPrecision(3)));
  }

  function written(value, unit = "") {
    const size = Math.abs(value);
    if (unit === "s") {
      if (value === 0) return "0 s";
      for (const [least, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]])
        if (size >= least * 0.9995) return `${digits(value / least)} ${name}`;
      return `${digits(value * 1e9)} ns`;
    }
    if (unit === "B" || unit === "B/s")
      for (const [least, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
        if (size >= least) return `${digits(value / least)} ${name}${unit}`;
    return `${digits(value)} ${unit}`.trim();
  }

  const two = (number) => String(number).padStart(2, "0");

  function timeOfDay(seconds, precise) {
    const when = new Date(seconds * 1000).toISOString();
    return precise ? when.slice(11, 19) : when.slice(11, 16);
  }

  function position(axis, x, span, precise = false) {
    if (axis.kind === "date") {
      const when = new Date(x * 1000).toISOString();
      if (precise) return x % DAY === 0 ? when.slice(0, 10) : `${when.slice(0, 10)} ${when.slice(11, 16)} UTC`;
      return span > 300 * DAY ? when.slice(0, 10) : span > 2 * DAY ? when.slice(5, 10) : when.slice(11, 16);
    }
    if (axis.kind === "time") {
      const fine = span < 5 ? 2 : span < 60 ? 1 : 0;
      if (span <= 300) return precise ? `${x.toFixed(fine + 1)} s` : `${Number(x.toFixed(fine))} s`;
      const whole = Math.round(x), minutes = Math.floor(whole / 60);
      const short = `${minutes >= 60 ? `${Math.floor(minutes / 60)}:${two(minutes % 60)}` : minutes}:${two(whole % 60)}`;
      return precise ? `${short} (${digits(x)} s)` : short;
    }
    return written(x, axis.unit);
  }

  function linearTicks(kind, low, high, most) {
    const rough = (high - low) / Math.max(1, most);
    const steps = kind === "time" ? TIME_STEPS : kind === "date" ? DATE_STEPS : [];
    let step = steps.find((one) => one >= rough);
    if (!step) {
      const power = 10 ** Math.floor(Math.log10(rough));
      step = power * [1, 2, 5, 10].find((one) => power * one >= rough * (1 - 1e-9));
    }
    const found = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) found.push(n * step);
    return found;
  }

  function logTicks(low, high, most) {
    let found = [];
    for (const within of [[1, 2, 5], [1, 3], [1]]) {
      found = [];
      for (let d = Math.floor(Math.log10(low)); d <= Math.ceil(Math.log10(high)); d++)
        for (const one of within) if (one * 10 ** d >= low && one * 10 ** d <= high) found.push(one * 10 ** d);
      if (found.length <= most) return found;
    }
    const each = Math.ceil(found.length / most);
    return found.filter((_, n) => n % each === 0);
  }

  /* The number of elements of an ascending list that are below x. */
  function below(list, x) {
    let low = 0, high = list.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (list[middle] < x) low = middle + 1; else high = middle;
    }
    return low;
  }

  function expanded(xs) {
    return Array.isArray(xs) ? xs : Array.from({ length: xs.count }, (_, n) => xs.from + n * xs.step);
  }

  /* Indices to draw: of each column of pixels the least and the greatest, and gaps. */
  function thinned(xs, ys, from, to, columns, extent) {
    if (to - from <= columns) return Array.from({ length: to - from }, (_, n) => from + n);
    const chosen = [];
    const scale = columns / (extent[1] - extent[0]);
    for (let n = from; n < to;) {
      const column = Math.floor((xs[n] - extent[0]) * scale);
      let least = n, most = n, gap = -1;
      for (; n < to && Math.floor((xs[n] - extent[0]) * scale) === column; n++) {
        if (ys[n] === null) { gap = n; continue; }
        if (ys[least] === null || ys[n] < ys[least]) least = n;
        if (ys[most] === null || ys[n] > ys[most]) most = n;
      }
      const among = least === most ? [least] : [Math.min(least, most), Math.max(least, most)];
      if (gap >= 0 && !among.includes(gap)) among.push(gap);
      chosen.push(...(gap >= 0 ? among.sort((a, b) => a - b) : among));
    }
    return chosen;
  }

  /* ---- groups: charts that zoom and point together */

  const groups = new Map();

  function groupOf(figure) {
    const name = figure.dataset.group;
    if (name && groups.has(name)) return groups.get(name);
    const group = { range: null, charts: [] };
    if (name) groups.set(name, group);
    return group;
  }

  /* ---- a chart */

  class Chart {
    constructor(figure) {
      this.figure = figure;
      const data = JSON.parse(figure.querySelector(':scope > script[type="application/json"]').textContent);
      const all = { series: [], bands: [], marks: [], rows: [], spans: [], labels: [], categories: [], xs: [] };
      this.data = Object.assign(all, data);
      this.xs = this.data.xs.map(expanded);
      this.order = this.data.xs.map((_, n) => this.xs[n].every((x, at, list) => !at || list[at - 1] <= x));
      this.hidden = new Set();
      this.row = null;
      this.at = null;
      this.group = groupOf(figure);
      this.group.charts.push(this);
      this.full = this.extent();
      this.bars = this.data.series.flatMap((one, n) => (one.kind === "bars" ? [n] : []));
      this.build();
      this.listen();
      figure.classList.add("chart-on");
      this.resize();
    }

    extent() {
      const { x, categories, heat, spans } = this.data;
      if (x.kind === "category") return [-0.5, Math.max(1, categories.length) - 0.5];
      let low = Infinity, high = -Infinity;
      const include = (one) => { low = Math.min(low, one); high = Math.max(high, one); };
      for (const xs of this.xs) for (const one of xs) include(one);
      for (const span of spans) { include(span[1]); include(span[2]); }
      if (heat) for (const one of heat.columns) { include(heat.start + one * heat.step); include(heat.start + (one + 1) * heat.step); }
      if (low > high) [low, high] = [0, 1];
      const dots = this.data.series.some((one) => one.kind === "points" || one.kind === "whisker");
      const room = dots && x.kind !== "time" ? 0.015 * (high - low) : 0;
      low = x.start ?? low - room;
      high = x.end ?? high + room;
      return high > low ? [low, high] : [low - 0.5, low + 0.5];
    }

    get range() { return this.group.range || this.full; }

    build() {
      this.live = html("div", "chart-live");
      this.legend = html("div", "chart-legend");
      this.plot = html("div", "chart-plot");
      this.plot.tabIndex = 0;
      this.plot.setAttribute("role", "application");
      this.plot.setAttribute("aria-roledescription", "chart");
      this.plot.setAttribute("aria-label", `${this.data.title}. Arrow keys move the crosshair, plus and minus zoom, Escape shows all.`);
      this.svg = element("svg", { class: "chart-svg", "aria-hidden": "true" });
      this.readout = html("div", "chart-readout");
      this.readout.setAttribute("role", "status");
      this.readout.hidden = true;
      this.reset = html("button", "chart-reset", "show all");
      this.reset.type = "button";
      this.reset.hidden = true;
      this.reset.addEventListener("click", () => this.zoom(null));
      this.plot.append(this.svg, this.readout);
      this.legend.append(...this.legendEntries(), this.reset);
      this.live.append(this.legend, this.plot);
      this.figure.append(this.live);
    }

    legendEntries() {
      const swatch = (n, kind) => {
        const drawn = element("svg", { class: "chart-key", width: 24, height: 10, "aria-hidden": "true" });
        const shade = `chart-s${n % COLOURS}`;
        if (kind === "bars" || kind === "span") drawn.append(element("rect", { class: `${kind === "bars" ? "chart-bar" : "chart-span"} ${shade}`, width: 24, height: 10 }));
        else {
          if (kind !== "points") drawn.append(element("path", { class: `chart-line ${shade} chart-d${n % COLOURS}`, d: "M0 5h24" }));
          if (kind === "points" || kind === "whisker") drawn.append(element("path", { class: `chart-point ${shade}`, d: SHAPES[n % COLOURS](12, 5) }));
        }
        return drawn;
      };
      if (this.data.rows.length) return this.spanLabels().map((label, n) => {
        const entry = html("span", "chart-entry");
        entry.append(swatch(n, "span"), label);
        return entry;
      });
      return this.data.series.map((one, n) => {
        const button = html("button", "chart-entry");
        button.type = "button";
        button.setAttribute("aria-pressed", "true");
        button.title = "show or hide";
        button.append(swatch(n, one.kind), one.name);
        button.addEventListener("click", () => {
          if (this.hidden.has(n)) this.hidden.delete(n); else this.hidden.add(n);
          button.setAttribute("aria-pressed", String(!this.hidden.has(n)));
          this.draw();
        });
        return button;
      });
    }

    spanLabels() {
      const named = new Set(this.data.spans.filter((one) => !one[4]).map((one) => one[3]));
      return this.data.labels.filter((_, n) => named.has(n));
    }

    listen() {
      const { svg, plot } = this;
      let from = null, dragged = false;
      const place = (event) => {
        const box = svg.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
      };
      svg.addEventListener("pointerdown", (event) => {
        if (event.button || event.target.closest("a")) return;
        from = place(event);
        dragged = false;
      });
      svg.addEventListener("pointermove", (event) => {
        const [x, y] = place(event);
        if (from && (dragged || Math.abs(x - from[0]) > 5)) {
          if (!dragged) { dragged = true; svg.setPointerCapture(event.pointerId); }
          this.brush(from[0], x);
        } else if (!from) this.point(this.inverse(x), y);
      });
      svg.addEventListener("pointerup", (event) => {
        const [x, y] = place(event);
        if (from && dragged) {
          const ends = [this.inverse(from[0]), this.inverse(x)].sort((a, b) => a - b);
          this.brush(0, 0);
          this.zoom(ends);
        } else if (from) {
          this.point(this.inverse(x), y);
          this.follow();
        }
        from = null;
      });
      svg.addEventListener("pointercancel", () => { from = null; this.brush(0, 0); });
      svg.addEventListener("pointerleave", () => { if (!from) this.point(null); });
      svg.addEventListener("dblclick", () => this.zoom(null));
      plot.addEventListener("keydown", (event) => this.key(event));
      plot.addEventListener("blur", () => this.point(null));
      new ResizeObserver(() => this.resize()).observe(this.live);
    }

    resize() {
      const width = this.live.clientWidth;
      if (!width || width === this.width) return;
      this.width = width;
      if (width < WIDE) this.draw();
      else for (const one of this.group.charts) if (one.width >= WIDE) one.draw();
    }

    /* -- scales */

    get innerHeight() { return this.data.rows.length ? ROW * this.data.rows.length : this.data.height; }
    /* Wide charts of a group begin at the same place, so that times lie one below the other. */
    get left() {
      if (this.width < WIDE) return this.ownLeft;
      return Math.max(...this.group.charts.filter((one) => one.width >= WIDE).map((one) => one.ownLeft));
    }
    get ownLeft() {
      const longest = this.data.rows.reduce((most, name) => Math.max(most, name.length), 0);
      return clamp(6.4 * longest + 12, this.width < 520 ? 52 : MARGIN.left, this.width < 520 ? 76 : 170);
    }
    get innerWidth() { return Math.max(40, this.width - this.left - MARGIN.right); }
    across(x) { return this.left + ((x - this.range[0]) / (this.range[1] - this.range[0])) * this.innerWidth; }
    inverse(pixel) {
      const share = clamp((pixel - this.left) / this.innerWidth, 0, 1);
      return this.range[0] + share * (this.range[1] - this.range[0]);
    }
    up(value) {
      const [low, high] = this.y;
      const share = this.data.y.log
        ? (Math.log(Math.max(value, low * 1e-3)) - Math.log(low)) / (Math.log(high) - Math.log(low))
        : (value - low) / (high - low);
      return MARGIN.top + (1 - share) * this.innerHeight;
    }

    /* Indices of a series from just before the visible range to just after it. */
    visible(series) {
      const xs = this.xs[series.x];
      if (!this.order[series.x]) return [0, xs.length];
      return [Math.max(0, below(xs, this.range[0]) - 1), Math.min(xs.length, below(xs, this.range[1]) + 1)];
    }

    shown() { return this.data.series.map((one, n) => [one, n]).filter(([, n]) => !this.hidden.has(n)); }

    valueExtent() {
      const { y, heat, stacked } = this.data;
      if (heat) return [heat.edges[0], heat.edges[heat.edges.length - 1]];
      let low = Infinity, high = -Infinity;
      const sums = new Map();
      const include = (value) => {
        if (value === null || value === undefined || (y.log && value <= 0)) return;
        low = Math.min(low, value);
        high = Math.max(high, value);
      };
      for (const [one] of this.shown()) {
        const [from, to] = this.visible(one);
        for (let n = from; n < to; n++) {
          include(one.y[n]);
          if (one.low) include(one.low[n]);
          if (one.high) include(one.high[n]);
          if (stacked && one.kind === "bars") sums.set(this.xs[one.x][n], (sums.get(this.xs[one.x][n]) || 0) + (one.y[n] || 0));
        }
        if ((one.kind === "bars" || (one.kind === "area" && !one.low)) && !y.log) include(0);
      }
      for (const sum of sums.values()) include(sum);
      if (low > high) [low, high] = y.log ? [1, 10] : [0, 1];
      if (y.log) return [low / 1.3, Math.max(high, low * 1.5) * 1.3];
      if (!y.any) { low = Math.min(low, 0); high = Math.max(high, 0); }
      const room = 0.06 * (high - low) || Math.max(Math.abs(high), 1) * 0.5;
      return [low === 0 && !y.any ? 0 : low - room, high + room];
    }

    /* -- drawing */

    draw() {
      if (!this.width) return;
      const clock = this.data.x.origin !== undefined;
      this.y = this.data.rows.length ? [0, this.data.rows.length] : this.valueExtent();
      this.height = MARGIN.top + this.innerHeight + MARGIN.bottom + (clock ? 13 : 0);
      this.svg.setAttribute("width", this.width);
      this.svg.setAttribute("height", this.height);
      const clip = `${this.figure.id}-clip`;
      const inside = element("g", { "clip-path": `url(#${clip})` });
      this.overlay = element("g", { class: "chart-overlay" });
      this.svg.replaceChildren(
        element("defs", {},
          element("clipPath", { id: clip }, element("rect", { x: this.left, y: 0, width: this.innerWidth, height: this.height })),
          element("pattern", { id: `${this.figure.id}-hatch`, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
            element("path", { class: "chart-hatch", d: "M0 0V5" }))),
        element("rect", { class: "chart-back", x: this.left, y: MARGIN.top, width: this.innerWidth, height: this.innerHeight }),
        this.axes(), inside, this.overlay);
      this.bands(inside);
      if (this.data.rows.length) this.drawRows(inside);
      if (this.data.heat) this.drawHeat(inside);
      for (const [one, n] of this.shown()) this.drawSeries(inside, one, n);
      this.drawMarks(inside);
      this.reset.hidden = !this.group.range;
      this.showCrosshair();
    }

    axes() {
      const group = element("g", {});
      const { x, y, categories, rows } = this.data;
      const bottom = MARGIN.top + this.innerHeight;
      const [low, high] = this.range;
      const across = Math.max(2, Math.floor(this.innerWidth / 80));
      let labels;
      if (x.kind === "category") {
        const first = Math.max(0, Math.ceil(low)), last = Math.min(categories.length - 1, Math.floor(high));
        const each = Math.max(1, Math.ceil((last - first + 1) / across));
        const room = Math.floor((this.innerWidth / Math.max(1, (last - first + 1) / each)) / 6.5);
        labels = [];
        for (let n = first; n <= last; n += each)
          labels.push([n, categories[n].length > room ? `${categories[n].slice(0, Math.max(3, room - 1))}…` : categories[n]]);
      } else labels = linearTicks(x.kind, low, high, across).map((at) => [at, position(x, at, high - low)]);
      for (const [at, name] of labels) {
        const place = this.across(at);
        group.append(element("path", { class: "chart-axis", d: `M${place} ${bottom}v4` }), text(place, bottom + 15, "chart-tick", "middle", name));
        if (x.origin !== undefined) group.append(text(place, bottom + 28, "chart-tick chart-clock", "middle", timeOfDay(x.origin + at, high - low < 600)));
      }
      if (!rows.length) {
        const most = Math.max(2, Math.floor(this.innerHeight / 36));
        for (const at of y.log ? logTicks(...this.y, most) : linearTicks("number", ...this.y, most)) {
          const place = this.up(at);
          group.append(element("path", { class: "chart-grid", d: `M${this.left} ${place}h${this.innerWidth}` }),
            text(this.left - 6, place + 4, "chart-tick", "end", written(at, y.unit)));
        }
      }
      group.append(element("path", { class: "chart-axis", d: `M${this.left} ${bottom}h${this.innerWidth}` }));
      return group;
    }

    bands(into) {
      let free = this.left;
      for (const [start, end, label, kind] of [...this.data.bands].sort((a, b) => a[0] - b[0])) {
        if (end < this.range[0] || start > this.range[1]) continue;
        const left = clamp(this.across(start), this.left, this.width), right = clamp(this.across(end), this.left, this.width);
        into.append(element("rect", { class: `chart-band chart-band-${kind}`, x: left, y: MARGIN.top, width: Math.max(1, right - left), height: this.innerHeight },
          element("title", {}, label)));
        if (left >= free && left + 5.5 * Math.min(label.length, 12) < this.left + this.innerWidth + 4) {
          into.append(text(left, MARGIN.top - 6, "chart-band-name", "start", label));
          free = left + 5.9 * label.length + 6;
        }
      }
    }

    drawSeries(into, one, n) {
      const xs = this.xs[one.x], shade = `chart-s${n % COLOURS}`;
      const [from, to] = this.visible(one);
      if (one.kind === "bars") { this.drawBars(into, one, n); return; }
      if (one.low && one.high) {
        const among = [];
        for (let at = from; at < to; at++) if (one.low[at] !== null && one.high[at] !== null) among.push(at);
        const d = one.kind === "whisker"
          ? among.map((at) => `M${this.across(xs[at])} ${this.up(one.low[at])}V${this.up(one.high[at])}`).join("")
          : among.length ? `M${among.map((at) => `${this.across(xs[at])} ${this.up(one.high[at])}`).join("L")}L${among.reverse().map((at) => `${this.across(xs[at])} ${this.up(one.low[at])}`).join("L")}Z` : "";
        into.append(element("path", { class: `${one.kind === "whisker" ? "chart-line" : "chart-area"} ${shade}`, d }));
      }
      const drawn = this.order[one.x] ? thinned(xs, one.y, from, to, Math.floor(this.innerWidth / 2), this.range) : xs.map((_, at) => at);
      if (one.kind === "points" || one.kind === "whisker") {
        const d = drawn.filter((at) => one.y[at] !== null).map((at) => SHAPES[n % COLOURS](this.across(xs[at]), this.up(one.y[at]))).join("");
        into.append(element("path", { class: `chart-point ${shade}`, d }));
        return;
      }
      let d = "", pen = false, first = 0, last = 0;
      const bottom = MARGIN.top + this.innerHeight;
      let fill = "";
      for (const at of drawn) {
        if (one.y[at] === null || (this.data.y.log && one.y[at] <= 0)) {
          if (pen) fill += `V${bottom}H${first}Z`;
          pen = false;
          continue;
        }
        const x = this.across(xs[at]).toFixed(1), y = this.up(one.y[at]).toFixed(1);
        const move = !pen ? `M${x} ${y}` : one.kind === "step" ? `H${x}V${y}` : `L${x} ${y}`;
        if (!pen) first = x;
        d += move;
        fill += move;
        pen = true;
        last = x;
      }
      if (pen) fill += `V${bottom}H${first}Z`;
      if (one.kind === "area" && !one.low) into.append(element("path", { class: `chart-area ${shade}`, d: fill }));
      into.append(element("path", { class: `chart-line ${shade} chart-d${n % COLOURS}`, d }));
    }

    get barStep() {
      if (this.data.step) return this.data.step;
      const every = [...new Set(this.bars.flatMap((n) => this.xs[this.data.series[n].x]))].sort((a, b) => a - b);
      return every.slice(1).reduce((least, x, n) => Math.min(least, x - every[n]), Infinity);
    }

    drawBars(into, one, n) {
      const shownBars = this.bars.filter((bar) => !this.hidden.has(bar));
      const step = Number.isFinite(this.barStep) ? this.barStep : 1;
      const beside = this.data.stacked ? 1 : shownBars.length, place = this.data.stacked ? 0 : shownBars.indexOf(n);
      const under = new Map();
      if (this.data.stacked)
        for (const other of shownBars) {
          if (other === n) break;
          const it = this.data.series[other];
          this.xs[it.x].forEach((x, at) => under.set(x, (under.get(x) || 0) + (it.y[at] || 0)));
        }
      const offset = this.data.x.kind === "category" ? -0.5 : 0;
      let d = "";
      const xs = this.xs[one.x];
      const [from, to] = this.visible(one);
      for (let at = from; at < to; at++) {
        if (!one.y[at]) continue;
        const left = this.across(xs[at] + step * (offset + 0.1 + (0.8 * place) / beside));
        const right = Math.max(left + 1, this.across(xs[at] + step * (offset + 0.1 + (0.8 * (place + 1)) / beside)));
        const base = under.get(xs[at]) || 0;
        d += `M${left.toFixed(1)} ${this.up(base).toFixed(1)}V${this.up(base + one.y[at]).toFixed(1)}H${right.toFixed(1)}V${this.up(base).toFixed(1)}Z`;
      }
      into.append(element("path", { class: `chart-bar chart-s${n % COLOURS}`, d }));
    }

    drawRows(into) {
      const labels = this.spanLabels();
      const outside = element("g", {});
      this.data.rows.forEach((name, n) => {
        const most = Math.floor((this.left - 8) / 6.2);
        outside.append(text(this.left - 6, MARGIN.top + ROW * n + 12, "chart-tick", "end", name.length > most ? `${name.slice(0, most - 1)}…` : name));
      });
      const colours = new Map(labels.map((name, n) => [name, n % COLOURS]));
      const paths = new Map(), names = [];
      for (const [row, start, end, label, kind] of this.data.spans) {
        if (end < this.range[0] || start > this.range[1]) continue;
        const left = clamp(this.across(start), this.left, this.width), right = clamp(this.across(end), this.left, this.width);
        const name = this.data.labels[label], width = Math.max(1, right - left);
        const shade = kind ? `chart-span-${kind}` : `chart-s${colours.get(name)}`;
        const box = `M${left.toFixed(1)} ${MARGIN.top + ROW * row + 1}h${width.toFixed(1)}v${ROW - 2}h-${width.toFixed(1)}z`;
        paths.set(shade, (paths.get(shade) || "") + box);
        if (!kind && width > 6 * name.length + 6) names.push(text(left + 4, MARGIN.top + ROW * row + 12, "chart-span-name", "start", name));
      }
      for (const [shade, d] of paths) {
        const drawn = element("path", { class: `chart-span ${shade}`, d });
        if (shade === "chart-span-outage") drawn.style.fill = `url(#${this.figure.id}-hatch)`;
        into.append(drawn);
      }
      into.append(...names);
      this.svg.insertBefore(outside, this.overlay);
    }

    drawHeat(into) {
      const { start, step, edges, columns, rows, counts } = this.data.heat;
      const most = counts.reduce((a, b) => Math.max(a, b), 1);
      const paths = Array.from({ length: SHADES }, () => "");
      for (let n = 0; n < counts.length; n++) {
        const left = start + columns[n] * step;
        if (left + step < this.range[0] || left > this.range[1]) continue;
        const shade = Math.min(SHADES - 1, Math.floor((SHADES * Math.log1p(counts[n])) / Math.log1p(most)));
        const a = this.across(left).toFixed(1), b = this.across(left + step).toFixed(1);
        paths[shade] += `M${a} ${this.up(edges[rows[n]]).toFixed(1)}H${b}V${this.up(edges[rows[n] + 1]).toFixed(1)}H${a}Z`;
      }
      paths.forEach((d, shade) => { if (d) into.append(element("path", { class: "chart-heat", "fill-opacity": (shade + 1) / SHADES, d })); });
    }

    /* Marks closer than a few pixels become one, which names the first and counts the others. */
    drawMarks(into) {
      const merged = [];
      const placed = this.data.marks.map(([x, label, href, kind]) => [this.across(this.markAt(x)), label, href, kind]);
      for (const [x, label, href, kind] of placed.sort((a, b) => a[0] - b[0])) {
        if (x < this.left - 1 || x > this.left + this.innerWidth + 1) continue;
        const last = merged[merged.length - 1];
        if (last && x - last.x < 7 && last.kind === kind) last.more += 1;
        else merged.push({ x, label, href, kind, more: 0 });
      }
      for (const { x, label, href, kind, more } of merged) {
        const words = more ? `${label}, and ${more} more` : label;
        const top = MARGIN.top, bottom = top + this.innerHeight;
        const drawn = element("g", { class: `chart-mark chart-mark-${kind}` },
          element("path", { d: `M${x} ${top}V${bottom}` }), element("path", { d: `M${x} ${top + 1}l-5 -9h10Z` }),
          element("path", { class: "chart-target", d: `M${x - 8} ${top - 12}h16v18h-16Z` }), element("title", {}, words));
        if (!href) { into.append(drawn); continue; }
        const link = element("a", { href, "aria-label": words, tabindex: "-1" }, drawn);
        into.append(link);
      }
    }

    markAt(x) { return typeof x === "string" ? this.data.categories.indexOf(x) : x; }

    /* -- the crosshair */

    point(x, pixel = null) {
      if (x === null) { this.at = null; this.row = null; }
      else {
        this.at = this.data.x.kind === "category" ? clamp(Math.round(x), 0, this.data.categories.length - 1) : x;
        if (pixel !== null) this.row = pixel;
      }
      for (const one of this.group.charts) one.showCrosshair(this);
    }

    showCrosshair(from = this) {
      if (!this.overlay) return;
      this.overlay.replaceChildren();
      if (from.at === null || from.at === undefined || (from !== this && from.data.x.kind !== this.data.x.kind)) { this.readout.hidden = true; return; }
      const x = this.across(from.at);
      if (x < this.left - 1 || x > this.left + this.innerWidth + 1) { this.readout.hidden = true; return; }
      this.overlay.append(element("path", { class: "chart-cross", d: `M${x.toFixed(1)} ${MARGIN.top}v${this.innerHeight}` }));
      if (from !== this) { this.readout.hidden = true; return; }
      this.tell(x);
    }

    nearest(one, n) {
      const xs = this.xs[one.x], x = this.at;
      if (!xs.length) return -1;
      if (!this.order[one.x]) return xs.reduce((best, at, k) => (Math.abs(at - x) < Math.abs(xs[best] - x) ? k : best), 0);
      const after = below(xs, x);
      if (one.kind === "step" || (one.kind === "bars" && this.data.x.kind !== "category")) return xs[after] === x ? after : after - 1;
      if (after === 0) return 0;
      if (after === xs.length) return after - 1;
      return x - xs[after - 1] <= xs[after] - x ? after - 1 : after;
    }

    tell(x) {
      const { data } = this;
      const span = this.range[1] - this.range[0];
      const rows = [];
      this.target = "";
      for (const [one, n] of this.shown()) {
        const at = this.nearest(one, n);
        if (at < 0) continue;
        const place = this.across(this.xs[one.x][at]);
        const value = one.y[at];
        const far = Math.abs(place - x) > Math.max(24, this.innerWidth / 30) && one.kind !== "step";
        if (far) continue;
        let words = value === null || value === undefined ? "–" : written(value, data.y.unit);
        if (one.low && one.low[at] !== null && one.high[at] !== null) words += ` (${written(one.low[at], data.y.unit)} to ${written(one.high[at], data.y.unit)})`;
        if (one.labels && one.labels[at]) words += ` · ${one.labels[at]}`;
        if (one.hrefs && one.hrefs[at]) this.target = this.target || one.hrefs[at];
        rows.push([n, one.name, words]);
        if (value !== null && value !== undefined && one.kind !== "bars")
          this.overlay.append(element("path", { class: `chart-point chart-s${n % COLOURS}`, d: SHAPES[n % COLOURS](place, this.up(value)) }));
      }
      if (data.rows.length) rows.push(...this.rowReadout());
      if (data.heat) rows.push(...this.heatReadout());
      const head = data.x.kind === "category" ? data.categories[this.at] : position(data.x, this.at, span, true);
      this.readout.replaceChildren(html("div", "chart-where", head));
      if (data.x.origin !== undefined) this.readout.firstChild.append(html("span", "chart-of-day", `${timeOfDay(data.x.origin + this.at, true)} UTC`));
      for (const [n, name, words] of rows) {
        const line = html("div", "chart-value");
        if (n >= 0) line.append(html("i", `chart-dot chart-s${n % COLOURS}`));
        line.append(html("span", "", name), html("b", "", words));
        this.readout.append(line);
      }
      for (const [start, end, label, kind] of data.bands)
        if (start <= this.at && this.at <= end) this.readout.append(html("div", `chart-during chart-during-${kind}`, label));
      for (const [at, label, href] of data.marks)
        if (Math.abs(this.across(this.markAt(at)) - x) < 5) {
          this.readout.append(html("div", "chart-during chart-during-mark", label));
          this.target = this.target || href;
        }
      this.svg.classList.toggle("chart-follow", Boolean(this.target));
      this.readout.hidden = false;
      const width = this.readout.offsetWidth;
      const right = x + 14 + width > this.width;
      this.readout.style.left = `${clamp(right ? x - 14 - width : x + 14, 0, Math.max(0, this.width - width))}px`;
      this.readout.style.top = `${MARGIN.top + 4}px`;
    }

    rowReadout() {
      const row = clamp(Math.floor(((this.row ?? MARGIN.top) - MARGIN.top) / ROW), 0, this.data.rows.length - 1);
      const names = this.data.spans.filter((one) => one[0] === row && one[1] <= this.at && this.at < one[2]).map((one) => this.data.labels[one[3]]);
      this.overlay.append(element("rect", { class: "chart-here", x: this.left, y: MARGIN.top + ROW * row, width: this.innerWidth, height: ROW }));
      return [[-1, this.data.rows[row], names.join(", ") || "–"]];
    }

    heatReadout() {
      const { start, step, edges, columns, rows, counts, counted } = this.data.heat;
      const column = Math.floor((this.at - start) / step);
      let total = 0, here = 0, row = -1;
      if (this.row !== null) row = edges.findIndex((edge, n) => n + 1 < edges.length && this.up(edge) >= this.row && this.row > this.up(edges[n + 1]));
      for (let n = 0; n < counts.length; n++)
        if (columns[n] === column) { total += counts[n]; if (rows[n] === row) here += counts[n]; }
      const told = [[-1, counted, digits(total)]];
      if (row >= 0) told.unshift([-1, `${written(edges[row], this.data.y.unit)} to ${written(edges[row + 1], this.data.y.unit)}`, digits(here)]);
      return told;
    }

    follow() { if (this.target) window.location.href = this.target; }

    brush(a, b) {
      this.point(null);
      if (a === b) { this.overlay.replaceChildren(); return; }
      const left = clamp(Math.min(a, b), this.left, this.left + this.innerWidth), right = clamp(Math.max(a, b), this.left, this.left + this.innerWidth);
      this.overlay.replaceChildren(element("rect", { class: "chart-brush", x: left, y: MARGIN.top, width: right - left, height: this.innerHeight }));
    }

    /* Show a range of the x axis in all charts of the group; null: everything. */
    zoom(range) {
      const least = this.data.x.kind === "category" ? 1 : (this.full[1] - this.full[0]) / 5000;
      if (range) {
        const low = Math.max(range[0], this.full[0]), high = Math.min(range[1], this.full[1]);
        if (high - low < least) return;
        range = low <= this.full[0] && high >= this.full[1] ? null : [low, high];
      }
      this.group.range = range;
      for (const one of this.group.charts) one.draw();
      this.figure.dispatchEvent(new CustomEvent("chart-zoom", { bubbles: true, detail: range }));
    }

    stops() {
      const { heat, spans } = this.data;
      const found = new Set(this.data.series.flatMap((one, n) => (this.hidden.has(n) ? [] : this.xs[one.x])));
      for (const span of spans) found.add(span[1]);
      if (heat) for (const one of heat.columns) found.add(heat.start + (one + 0.5) * heat.step);
      return [...found].filter((x) => x >= this.range[0] && x <= this.range[1]).sort((a, b) => a - b);
    }

    key(event) {
      if (event.target !== this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
      const [low, high] = this.range;
      const middle = this.at ?? (low + high) / 2;
      const scaled = (factor) => [middle - (middle - low) * factor, middle + (high - middle) * factor];
      const move = (by) => {
        const stops = this.stops();
        if (!stops.length) return;
        const now = this.at === null ? (by > 0 ? -1 : stops.length) : below(stops, this.at);
        const from = this.at !== null && by > 0 && stops[now] !== this.at ? now - 1 : now;
        this.point(stops[clamp(from + by, 0, stops.length - 1)]);
      };
      const rowBy = (by) => {
        if (!this.data.rows.length) return false;
        this.point(middle, clamp((this.row ?? MARGIN.top) + ROW * by, MARGIN.top, MARGIN.top + this.innerHeight - 1));
        return true;
      };
      const actions = {
        ArrowLeft: () => move(event.shiftKey ? -10 : -1), ArrowRight: () => move(event.shiftKey ? 10 : 1),
        ArrowUp: () => rowBy(-1), ArrowDown: () => rowBy(1),
        Home: () => this.point(this.stops()[0] ?? low), End: () => this.point(this.stops().pop() ?? high),
        "+": () => this.zoom(scaled(0.5)), "=": () => this.zoom(scaled(0.5)), "-": () => this.zoom(scaled(2)),
        Enter: () => this.follow(),
        Escape: () => { this.point(null); this.zoom(null); },
      };
      const action = actions[event.key];
      if (action && action() !== false) event.preventDefault();
    }
  }

  /* ---- begin: one chart at a time, those near the window first, others when they come near */

  const mounted = new WeakMap();

  function mount(figure) {
    if (!mounted.has(figure)) mounted.set(figure, new Chart(figure));
    return mounted.get(figure);
  }

  const waiting = [];

  function mountNext() {
    const figure = waiting.shift();
    if (figure) mount(figure);
    if (waiting.length) requestAnimationFrame(() => setTimeout(mountNext));
  }

  function mountAll(root = document) {
    const near = new IntersectionObserver((entries) => {
      const idle = !waiting.length;
      for (const entry of entries)
        if (entry.isIntersecting) { near.unobserve(entry.target); waiting.push(entry.target); }
      if (idle && waiting.length) mountNext();
    }, { rootMargin: "900px 0px" });
    for (const figure of root.querySelectorAll("figure.chart")) near.observe(figure);
  }

  window.squallCharts = { mount, mountAll };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", () => mountAll());
  else mountAll();
})();

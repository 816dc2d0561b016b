"use strict";
/* A page to watch one log of a run. The data is documented in model.py; texts from the run are only ever set as text.
   Times are microseconds since the load began. A frame is an instant at which something happens. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const text = (number) => data.texts[number];
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const LABEL = 74, CLIENTS = 92, BROKER = 84, OTHER = 30, AXIS = 26, PAD = 30, END = 96;
  const QUIET = 100000, COLUMN = 58;
  const EARLY = 3, LATE = 14, MOST_MESSAGES = 600, MOST_MOMENTS = 300;

  const steps = data.steps.map(([at, lane, kind, words, ...numbers]) =>
    ({ at, lane, kind: text(kind), words: text(words), numbers })).sort((a, b) => a.at - b.at);
  const operations = data.operations.map(([begin, end, process, words, outcome, offset, value]) =>
    ({ begin, end, process, words: text(words), outcome: text(outcome), offset, value: text(value) }));
  const faults = data.faults.map(([begin, end, kind, lanes, words]) => ({ begin, end, kind: text(kind), lanes, words: text(words) }));
  const messages = (data.messages || []).map(([at, arrived, source, target, api, words, answer, lost]) =>
    ({ at, arrived, source, target, api: text(api), words: text(words), answer, lost })).sort((a, b) => a.at - b.at);
  const lanes = data.lanes.map((name, number) => ({ name, number }));

  // --- what each node's log holds, step by step ---------------------------------------------------------------

  const NOTHING = { up: true, role: "", epoch: -1, hw: -1, runs: [] };
  const endOf = (state) => (state.runs.length ? state.runs[state.runs.length - 1][1] : 0);
  const cut = (runs, end) => runs.filter((run) => run[0] < end).map(([first, last, epoch]) => [first, Math.min(last, end), epoch]);
  const extended = (runs, first, end, epoch) => {
    const kept = cut(runs, first), last = kept[kept.length - 1];
    if (last && last[1] === first && last[2] === epoch) kept[kept.length - 1] = [last[0], end, epoch];
    else kept.push([first, end, epoch]);
    return kept.slice(-64);
  };
  const reaching = (state, end, epoch) => {
    const now = endOf(state);
    return end === now ? state.runs : end < now ? cut(state.runs, end) : extended(state.runs, now, end, epoch);
  };
  function after(state, step) {
    const [a, b, c] = step.numbers;
    switch (step.kind) {
      case "append": return { ...state, runs: extended(state.runs, a, b + 1, c) };
      case "truncate": return { ...state, runs: cut(state.runs, a), hw: Math.min(c, a) };
      case "high_watermark": return { ...state, runs: reaching(state, b, c), hw: a };
      case "leader": return { ...state, runs: reaching(state, b, -1), up: true, role: "leader", epoch: a, hw: c };
      case "follower": return { ...state, runs: reaching(state, b, -1), up: true, role: "follower", epoch: a };
      case "leads": return { ...state, up: true, role: "leader", epoch: a };
      case "yields": return { ...state, role: "" };
      case "start": return { ...state, up: true, role: "" };
      case "death": return { ...state, up: false, role: "" };
      default: return null;
    }
  }
  const course = lanes.map(() => []);
  for (const lane of lanes) {
    const given = data.states[lane.number];
    const first = given ? { up: !!given[0], role: given[1], epoch: given[2], hw: given[3], runs: given[4] } : NOTHING;
    course[lane.number].push({ at: data.begins - 1, ...first, top: endOf(first) });
  }
  for (const step of steps) {
    if (step.lane === 0) continue;
    const known = course[step.lane], next = after(known[known.length - 1], step);
    if (next) { step.dropped = step.kind === "truncate" ? endOf(known[known.length - 1]) - endOf(next) : 0; known.push({ ...next, at: step.at, top: Math.max(known[known.length - 1].top, endOf(next)) }); }
  }
  const lastAt = (list, at, key = "at") => {
    let low = 0, high = list.length;
    while (low < high) { const middle = (low + high) >> 1; if (list[middle][key] <= at) low = middle + 1; else high = middle; }
    return low - 1;
  };
  const stateAt = (lane, at) => course[lane][Math.max(0, lastAt(course[lane], at))];
  const isSure = (state) => data.complete || state.role === "leader";
  const hasLog = (lane) => course[lane].some((state) => state.role || state.runs.length);
  const brokers = lanes.filter((lane) => lane.number && hasLog(lane.number));
  const epochOf = (state, offset) => { const run = state.runs.find((one) => one[0] <= offset && offset < one[1]); return run ? run[2] : null; };
  const leaderAt = (at) => {
    let found = null;
    for (const broker of brokers) {
      const state = stateAt(broker.number, at);
      if (state.up && state.role === "leader" && (!found || state.epoch > found.state.epoch)) found = { ...broker, state };
    }
    return found;
  };

  // --- what was acknowledged, and what is lost ----------------------------------------------------------------

  const acknowledged = data.acknowledged.map(([at, offset, value]) => ({ at, offset, value: text(value) }));
  for (const one of operations)
    if (one.outcome === "ok" && one.offset !== null && one.end !== null && one.value) acknowledged.push({ at: one.end, offset: one.offset, value: one.value });
  acknowledged.sort((a, b) => a.at - b.at);
  for (const one of acknowledged) { // in which epoch: as the leader of that time has it, or any node
    const leader = leaderAt(one.at);
    one.epoch = leader ? epochOf(leader.state, one.offset) : null;
    for (const broker of brokers) if (one.epoch === null) one.epoch = epochOf(stateAt(broker.number, one.at), one.offset);
  }
  const wrong = (state, one) => {
    const epoch = epochOf(state, one.offset);
    return (one.offset >= endOf(state) || (epoch !== null && epoch >= 0 && one.epoch !== null && one.epoch >= 0 && epoch !== one.epoch)) && one.epoch !== null;
  };
  const dropped = (state, one) => wrong(state, one) && (state.role === "leader" || state.top > one.offset);
  function lostAt(at) {
    const leader = leaderAt(at), upTo = acknowledged.slice(0, lastAt(acknowledged, at) + 1);
    const lost = leader ? upTo.filter((one) => wrong(leader.state, one)) : [];
    if (lost.length) return { leader, lost, where: leader };
    for (const broker of brokers) {
      const state = stateAt(broker.number, at);
      const here = state.up && state.role ? upTo.filter((one) => dropped(state, one)) : [];
      if (here.length) return { leader, lost: here, where: { ...broker, state } };
    }
    return { leader, lost: [], where: null };
  }

  // --- instants and places ------------------------------------------------------------------------------------

  const LOUD = new Set(["death", "truncate", "recovery_cut"]);
  const entries = [];
  for (const step of steps) {
    const quiet = step.kind === "truncate" && step.dropped === 0;
    entries.push({ at: step.at, who: lanes[step.lane].name, words: step.words, loud: LOUD.has(step.kind) && !quiet, kind: step.kind, step });
  }
  for (const one of faults) {
    const hosts = one.lanes.map((lane) => lanes[lane].name).join(", ");
    if (one.begin >= data.begins) entries.push({ at: one.begin, who: hosts, words: `${one.kind} begins`, loud: true, kind: "fault" });
    if (one.end !== null && one.end <= data.ends) entries.push({ at: one.end, who: hosts, words: `${one.kind} ends`, kind: "fault-end" });
  }
  for (const one of operations)
    if (one.value && one.end !== null && one.end <= data.ends) {
      const said = one.outcome === "ok" ? `acknowledged at offset ${one.offset}` : one.outcome === "fail" ? "failed" : "outcome unknown";
      entries.push({ at: one.end, who: lanes[0].name, words: `${one.value} ${said}`, kind: "completed" });
    }
  if (data.broken) entries.push({ at: data.ends, who: data.breachLane > 0 ? lanes[data.breachLane].name : "✕", words: data.broken, loud: true, kind: "breach" });
  entries.sort((a, b) => a.at - b.at);
  const frames = [...new Set([data.begins, ...entries.map((one) => one.at), data.ends])].sort((a, b) => a - b);

  let xs = [], width = 0;
  const state = { frame: frames.length - 1, playing: null, messages: false, scale: false };
  function layOut() {
    const gaps = frames.slice(1).map((at, number) => at - frames[number]);
    const wide = gaps.map((gap) => EARLY + LATE * Math.log10(1 + gap / 200));
    width = Math.max(wide.reduce((a, b) => a + b, 0), byId("timeline").clientWidth - LABEL - PAD - END);
    const sum = wide.reduce((a, b) => a + b, 0) || 1, whole = data.ends - data.begins || 1;
    let x = LABEL + PAD;
    xs = [x];
    gaps.forEach((gap, number) => { x += state.scale ? (gap / whole) * width : (wide[number] / sum) * width; xs.push(x); });
    byId("space").style.width = `${LABEL + PAD + END + width}px`;
  }
  const xOf = (at) => {
    if (at <= frames[0]) return xs[0];
    const number = lastFrame(at);
    if (number >= frames.length - 1) return xs[xs.length - 1];
    return xs[number] + ((xs[number + 1] - xs[number]) * (at - frames[number])) / (frames[number + 1] - frames[number]);
  };
  const lastFrame = (at) => { let low = 0, high = frames.length; while (low < high) { const middle = (low + high) >> 1; if (frames[middle] <= at) low = middle + 1; else high = middle; } return low - 1; };
  const frameAtX = (x) => { let best = 0; for (let n = 0; n < xs.length; n++) if (Math.abs(xs[n] - x) <= Math.abs(xs[best] - x)) best = n; return best; };

  const heights = lanes.map((lane) => (lane.number === 0 ? CLIENTS : hasLog(lane.number) ? BROKER : OTHER));
  const tops = []; let bottom = AXIS;
  for (const height of heights) { tops.push(bottom); bottom += height; }
  const seconds = (at, digits = 4) => `${(at / 1e6).toFixed(digits)} s`;

  // --- the picture --------------------------------------------------------------------------------------------

  const svg = byId("picture");
  function add(parent, tag, attributes, words) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (words !== undefined) element.textContent = words;
    parent.appendChild(element);
    return element;
  }
  const title = (element, words) => { add(element, "title", {}, words); return element; };

  function draw() {
    const view = byId("timeline"), left = view.scrollLeft, shown = view.clientWidth;
    svg.setAttribute("width", shown); svg.setAttribute("height", bottom + 4);
    svg.setAttribute("viewBox", `0 0 ${shown} ${bottom + 4}`);
    svg.replaceChildren();
    patterns();
    const px = (at) => xOf(at) - left, from = frames[Math.max(0, frameAtX(left + LABEL) - 1)], to = frames[Math.min(frames.length - 1, frameAtX(left + shown) + 1)];
    drawRoles(px, from, to);
    drawFaults(px, from, to);
    if (state.messages) drawMessages(px, from, to);
    drawClients(px, from, to);
    drawLogs(px, from, to);
    drawMarks(px, from, to);
    drawQuiet(px, from, to);
    drawAxis(px, left, shown);
    const here = px(frames[state.frame]);
    add(svg, "line", { x1: here, x2: here, y1: AXIS - 6, y2: bottom, class: "here" });
    add(svg, "path", { d: `M${here - 6},${AXIS - 12} h12 l-6,8 z`, fill: "currentColor" });
    drawNames();
  }
  function patterns() {
    const defs = add(svg, "defs", {});
    for (const [id, colour, angle, opacity] of [["hatched", "var(--fault)", 45, 0.35], ["striped", "var(--hw)", 90, 0.6]]) {
      const pattern = add(defs, "pattern", { id, width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: `rotate(${angle})` });
      add(pattern, "line", { x1: 0, y1: 0, x2: 0, y2: 7, stroke: colour, "stroke-opacity": opacity, "stroke-width": 2.4 });
    }
    const down = add(defs, "pattern", { id: "dotted", width: 8, height: 8, patternUnits: "userSpaceOnUse" });
    add(down, "circle", { cx: 2, cy: 2, r: 1, fill: "var(--soft)", "fill-opacity": 0.6 });
    const arrow = add(defs, "marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" });
    add(arrow, "path", { d: "M0,0.5 L8,4 L0,7.5 z", fill: "context-stroke" });
  }
  function drawRoles(px, from, to) {
    for (const lane of lanes) {
      const known = course[lane.number];
      for (let n = Math.max(0, lastAt(known, from)); n < known.length && known[n].at <= to; n++) {
        const one = known[n], next = known[n + 1];
        if (one.up && one.role !== "leader") continue;
        const x1 = px(Math.max(one.at, data.begins)), x2 = px(next ? next.at : data.ends);
        if (x2 > x1) add(svg, "rect", { x: x1, y: tops[lane.number] + 1, width: x2 - x1, height: heights[lane.number] - 2, ...(one.up ? { class: "lead" } : { fill: "url(#dotted)" }) });
      }
      add(svg, "line", { x1: 0, x2: 9999, y1: tops[lane.number], y2: tops[lane.number], class: "rule" });
    }
  }
  function drawFaults(px, from, to) {
    for (const one of faults) {
      if (one.begin > to || (one.end !== null && one.end < from)) continue;
      const x1 = px(Math.max(one.begin, data.begins)), x2 = px(one.end === null ? data.ends : Math.min(one.end, data.ends));
      for (const lane of one.lanes) {
        const band = add(svg, "rect", { x: x1, y: tops[lane] + 2, width: Math.max(3, x2 - x1), height: heights[lane] - 4, fill: "url(#hatched)", stroke: "var(--fault)", "stroke-opacity": 0.5 });
        title(band, `${one.kind}: ${seconds(one.begin, 3)} to ${one.end === null ? "the end" : seconds(one.end, 3)}. ${one.words}`);
        add(svg, "text", { x: Math.max(x1, LABEL) + 5, y: tops[lane] + heights[lane] - 6, class: "faultname halo" }, one.kind);
      }
    }
  }
  function drawClients(px, from, to) {
    const free = [];
    for (const one of operations) {
      if (one.begin > to || (one.end !== null && one.end < from)) continue;
      const x1 = px(Math.max(one.begin, data.begins)), x2 = Math.max(x1 + 3, px(one.end === null ? data.ends : Math.min(one.end, data.ends)));
      let row = free.findIndex((until) => until < x1 - 1);
      if (row < 0) row = free.length < 8 ? free.push(0) - 1 : free.indexOf(Math.min(...free));
      free[row] = x2;
      const y = tops[0] + 4 + row * 10.5;
      const bar = add(svg, "rect", { x: x1, y, width: x2 - x1, height: 8, rx: 2, class: one.end === null || one.end > data.ends ? "open" : one.outcome });
      title(bar, `${one.words}\n${seconds(one.begin)} to ${one.end === null ? "no answer" : seconds(one.end)}`);
      if (x2 - x1 > 6.2 * one.value.length + 4) add(svg, "text", { x: x1 + 3, y: y + 7, style: "font-size:8.5px;fill:var(--paper)" }, one.value);
    }
  }
  function drawLogs(px, from, to) {
    let low = Infinity, high = -Infinity;
    const within = brokers.map((broker) => {
      const known = course[broker.number];
      let last = lastAt(known, to) + 1;
      const part = known.slice(Math.max(0, lastAt(known, from)), last);
      for (const one of part) if (one.runs.length || one.hw >= 0) {
        const ends = one.hw >= 0 ? [endOf(one), one.hw] : [endOf(one)];
        low = Math.min(low, ...ends); high = Math.max(high, ...ends);
      }
      return { broker, part };
    });
    if (low === Infinity) return;
    const span = Math.max(1, high - low);
    for (const { broker, part } of within) {
      const top = tops[broker.number] + 20, height = heights[broker.number] - 34;
      const y = (offset) => top + height - (height * (offset - low)) / span;
      for (const [css, value] of [["end", endOf], ["hw", (one) => one.hw]]) {
        let path = "", drawing = false;
        part.forEach((one, number) => {
          const x = px(Math.max(one.at, data.begins)), value_ = value(one);
          if (value_ < 0 || (!one.runs.length && one.hw < 0)) { drawing = false; return; }
          path += drawing ? ` H${x.toFixed(1)} V${y(value_).toFixed(1)}` : ` M${x.toFixed(1)},${y(value_).toFixed(1)}`;
          drawing = true;
          if (number === part.length - 1) path += ` H${px(Math.min(data.ends, to)).toFixed(1)}`;
        });
        add(svg, "path", { d: path, class: css });
      }
    }
  }
  function drawMarks(px, from, to) {
    const busy = {};
    for (const one of entries) {
      if (one.at < from || one.at > to || !one.step || one.step.lane === 0) continue;
      const { lane, kind, numbers } = one.step, x = px(one.at), top = tops[lane];
      const say = (words, css) => {
        if (x < (busy[lane] ?? -1)) return;
        add(svg, "text", { x: x + 4, y: top + 13, class: `halo ${css}` }, words);
        busy[lane] = x + 6.3 * words.length + 8;
      };
      if (kind === "leader" || kind === "leads") say(`leads epoch ${numbers[0]}`, "strong");
      else if (kind === "follower") say(`follows, epoch ${numbers[0]}`, "");
      else if (kind === "controller") say(one.words, "strong");
      else if (kind === "truncate" && one.step.dropped > 0) { busy[lane] = -1; add(svg, "path", { d: `M${x - 5},${top + 18} h10 l-5,9 z`, fill: "var(--bad)" }); say(`−${one.step.dropped} at ${numbers[0]}`, "bad"); }
      else if (kind === "death") add(svg, "path", { d: `M${x - 6},${top + heights[lane] / 2 - 6} l12,12 m0,-12 l-12,12`, stroke: "var(--bad)", "stroke-width": 3 });
      else if (kind === "start") { add(svg, "path", { d: `M${x - 5},${top + heights[lane] / 2 + 5} h10 l-5,-10 z`, fill: "var(--good)" }); }
    }
    if (data.broken) {
      const x = px(data.ends);
      add(svg, "line", { x1: x, x2: x, y1: AXIS, y2: bottom, class: "breach" });
      add(svg, "text", { x: x + 6, y: AXIS + 13, class: "bad halo" }, `✕ ${data.broken.split(":")[0].slice(0, 12)}`);
    }
  }
  function drawMessages(px, from, to) {
    let drawn = 0;
    for (let n = Math.max(0, lastAt(messages, from - 1000000)); n < messages.length && drawn < MOST_MESSAGES; n++) {
      const one = messages[n];
      if (one.at > to) break;
      if (one.arrived !== null && one.arrived < from) continue;
      drawn++;
      const middle = (lane) => tops[lane] + heights[lane] / 2, x1 = px(one.at), y1 = middle(one.source), y2 = middle(one.target);
      const arrives = one.arrived !== null, x2 = arrives ? Math.max(px(one.arrived), x1 + 2) : x1 + 12, y3 = arrives ? y2 : y1 + (y2 - y1) * 0.6;
      const line = add(svg, "path", { d: `M${x1},${y1} L${x2},${y3}`, class: `message ${one.answer ? "answer" : ""} ${/^[A-Za-z]+$/.test(one.api) ? one.api : ""}`, ...(arrives ? { "marker-end": "url(#arrow)" } : {}) });
      title(line, `${lanes[one.source].name} → ${lanes[one.target].name}\n${one.api}${one.answer ? " answer" : ""}: ${one.words}\n${seconds(one.at)}${arrives ? `, arrives ${seconds(one.arrived)}` : one.lost ? ", never arrives" : ", under way at the end"}`);
      if (one.lost) add(svg, "path", { d: `M${x2 - 4},${y3 - 4} l8,8 m0,-8 l-8,8`, stroke: "var(--bad)", "stroke-width": 2 });
    }
  }
  function drawAxis(px, left, shown) {
    add(svg, "rect", { x: 0, y: 0, width: shown, height: AXIS - 4, class: "paper" });
    let last = -Infinity;
    for (let n = frameAtX(left + LABEL); n < frames.length; n++) {
      const x = px(frames[n]);
      if (x > shown) break;
      if (x < LABEL || x - last < 84) continue;
      add(svg, "line", { x1: x, x2: x, y1: AXIS - 4, y2: bottom, class: "rule", "stroke-opacity": 0.6 });
      add(svg, "text", { x: x + 3, y: 12 }, seconds(frames[n]));
      last = x;
    }
  }
  function drawQuiet(px, from, to) {
    for (let n = Math.max(1, lastFrame(from)); n < frames.length && frames[n - 1] <= to; n++) {
      const gap = frames[n] - frames[n - 1], x1 = px(frames[n - 1]), x2 = px(frames[n]);
      if (gap < QUIET || state.scale || x2 - x1 < 24) continue;
      const words = `${(gap / 1e6).toFixed(2)} s`, room = x2 - x1 > 6.2 * words.length + 6;
      add(svg, "text", { x: (x1 + x2) / 2, y: bottom - 4, "text-anchor": "middle", class: "halo", style: "font-style:italic" }, room ? words : "…");
    }
  }
  function drawNames() {
    add(svg, "rect", { x: 0, y: 0, width: LABEL, height: bottom + 4, class: "paper" });
    add(svg, "line", { x1: LABEL, x2: LABEL, y1: 0, y2: bottom, class: "rule" });
    const now = frames[state.frame];
    for (const lane of lanes) {
      const name = add(svg, "text", { x: 6, y: tops[lane.number] + 18, class: "name" }, lane.name.length > 9 ? `${lane.name.slice(0, 8)}…` : lane.name);
      title(name, lane.name);
      if (lane.number === 0) add(svg, "text", { x: 6, y: tops[0] + 33 }, "operations");
      if (!hasLog(lane.number)) continue;
      const one = stateAt(lane.number, now);
      add(svg, "text", { x: 6, y: tops[lane.number] + 35, style: "fill:var(--end)" }, `end ${endOf(one)}${isSure(one) ? "" : " ?"}`);
      add(svg, "text", { x: 6, y: tops[lane.number] + 50, style: "fill:var(--hw)" }, one.hw < 0 ? "HW ?" : `HW ${one.hw}`);
      add(svg, "text", { x: 6, y: tops[lane.number] + 65 }, one.epoch < 0 ? "" : `epoch ${one.epoch}`);
    }
  }

  // --- beside the picture -------------------------------------------------------------------------------------

  function element(tag, css, words) {
    const made = document.createElement(tag);
    if (css) made.className = css;
    if (words !== undefined) made.textContent = words;
    return made;
  }
  function showLogs(now, found) {
    const room = byId("logs").clientWidth || 600, columns = Math.max(4, Math.min(20, Math.floor((room - 175) / COLUMN)));
    const states = brokers.map((broker) => ({ broker, state: stateAt(broker.number, now) }));
    const upTo = acknowledged.slice(0, lastAt(acknowledged, now) + 1);
    const highest = Math.max(0, ...states.map((one) => endOf(one.state)), ...upTo.slice(-200).map((one) => one.offset + 1));
    let first = Math.max(0, highest - columns);
    if (found.lost.length && found.lost[0].offset < first) first = Math.max(0, found.lost[0].offset - 2);
    const acks = new Map(upTo.filter((one) => one.offset >= first && one.offset < first + columns).map((one) => [one.offset, one]));
    const table = element("table"), head = element("tr");
    head.appendChild(element("th", "", "offset"));
    for (let offset = first; offset < first + columns; offset++) {
      const ack = acks.get(offset), cell = element("th", ack ? "acked" : "", `${offset}${ack ? " ✓" : ""}`);
      if (ack) { cell.title = `acknowledged to a client: ${ack.value}`; cell.appendChild(element("br")); cell.appendChild(element("small", "", ack.value)); }
      head.appendChild(cell);
    }
    table.appendChild(element("thead")).appendChild(head);
    const body = table.appendChild(element("tbody"));
    for (const { broker, state: one } of states) {
      const row = body.appendChild(element("tr", one.up ? "" : "down")), name = row.appendChild(element("th"));
      name.appendChild(element("b", "", broker.name));
      name.append(" ");
      name.appendChild(element("span", `badge ${one.role}`, one.up ? (one.role ? `${one.role}, epoch ${one.epoch}` : "up") : "down"));
      name.appendChild(element("br"));
      name.append(`end ${endOf(one)}${isSure(one) ? "" : " or more"} · HW ${one.hw < 0 ? "unknown" : one.hw}`);
      for (let offset = first; offset < first + columns; offset++) {
        const epoch = epochOf(one, offset), ack = acks.get(offset), at = row.appendChild(element("td"));
        const lost = ack && one.up && one.role && dropped(one, ack);
        const css = lost ? "cell lost" : epoch === null ? "cell gone" : `cell e${(Math.max(0, epoch) % 6)}${one.hw > offset ? " known" : ""}`;
        at.appendChild(element("span", css, lost ? "✕" : epoch === null ? (isSure(one) ? " " : "?") : epoch < 0 ? "?" : String(epoch)));
      }
    }
    byId("logs").replaceChildren(table);
    byId("at").textContent = `at ${seconds(now, 6)}`;
  }
  function showEvents(now) {
    const here = lastAt(entries, now), list = byId("events");
    let begin = here;
    while (begin > 0 && entries[begin - 1].at === now) begin--;
    begin = Math.max(0, Math.min(begin, here - 2) - 7);
    list.replaceChildren();
    for (let n = begin; n < Math.min(entries.length, Math.max(here + 7, begin + 16)); n++) {
      const one = entries[n], item = element("li", `${one.at === now ? "now" : one.at > now ? "later" : ""} ${one.loud ? "loud" : ""}`);
      item.appendChild(element("time", "", (one.at / 1e6).toFixed(4)));
      item.appendChild(element("b", "", one.who));
      item.appendChild(element("span", "", one.words));
      item.addEventListener("click", () => go(lastFrame(one.at)));
      list.appendChild(item);
    }
  }
  function showVerdict(now, found) {
    const box = byId("verdict"), { leader, where } = found;
    box.className = found.lost.length && where === leader ? "lost" : "";
    let lacks = "";
    if (found.lost.length) {
      const one = found.lost[0], more = found.lost.length > 1 ? ` and ${found.lost.length - 1} more` : "", was = more ? "were" : "was";
      const why = one.offset >= endOf(where.state) ? `whose log ends at ${endOf(where.state)}` : "which has another record there";
      const acked = `offset ${one.offset} (${one.value})${more} ${was} acknowledged at ${seconds(one.at)}`;
      const is = more ? "are" : "is";
      if (where === leader) { box.textContent = `✕ Lost: ${acked} and ${is} not at the leader ${where.name}, ${why}.`; return; }
      lacks = ` ✕ No longer at ${where.name}: offset ${one.offset} (${one.value})${more}, acknowledged at ${seconds(one.at)}.`;
    }
    const acked = lastAt(acknowledged, now), last = acked < 0 ? null : acknowledged[acked];
    const held = faults.filter((one) => one.begin <= now && (one.end === null || one.end > now)).map((one) => `${one.kind} ${one.lanes.map((lane) => lanes[lane].name).join(", ")}`);
    box.textContent = `${leader ? `${leader.name} leads epoch ${leader.state.epoch}` : "Nobody is known to lead"}. ${last ? `Last acknowledged: offset ${last.offset} (${last.value}). ` : operations.length ? "Nothing is acknowledged yet. " : ""}${held.length ? `Under fault: ${held.join("; ")}.` : "No fault holds."}${lacks}`;
  }

  // --- moments: the few instants worth a visit ------------------------------------------------------------------

  const WORTH = new Set(["fault", "death", "leader", "leads", "start", "breach", "controller", "recovery_cut"]);
  const moments = [];
  for (const one of entries)
    if (WORTH.has(one.kind) || (one.kind === "truncate" && one.step.dropped > 0)) {
      const last = moments[moments.length - 1];
      if (last && last.at === one.at && one.kind !== "breach") { if (one.loud && !last.loud) Object.assign(last, one); } else moments.push({ ...one });
    }
  // A loss shows when a leader begins, a log is truncated, or a record is acknowledged that the leader does not have.
  const CAN_LOSE = new Set(["leader", "leads", "follower", "truncate", "breach"]);
  const losing = new Set(acknowledged.length ? entries.filter((one) => CAN_LOSE.has(one.kind)).map((one) => one.at) : []);
  for (const one of acknowledged) { const leader = leaderAt(one.at); if (leader && wrong(leader.state, one)) losing.add(Math.max(one.at, data.begins)); }
  for (const at of [...losing].sort((a, b) => a - b)) {
    const found = lostAt(at);
    if (!found.lost.length || (found.where !== found.leader && !(data.broken && at === data.ends))) continue;
    moments.push({ at, who: "", words: "first acknowledged record missing", loud: true, kind: "loss" });
    break;
  }
  moments.sort((a, b) => a.at - b.at);
  const shownMoments = moments.slice(-MOST_MOMENTS);
  const SHORT = { leads: (one) => `leads epoch ${one.step.numbers[0]}`, leader: (one) => `leads epoch ${one.step.numbers[0]}`, truncate: (one) => `truncates −${one.step.dropped}`, start: () => "starts", controller: () => "active controller", breach: () => "the breach" };
  for (const one of shownMoments) {
    const words = SHORT[one.kind] ? SHORT[one.kind](one) : one.words;
    one.button = element("button", "", `${one.loud ? "● " : ""}${(one.at / 1e6).toFixed(2)} ${one.who} ${words}`);
    one.button.addEventListener("click", () => go(lastFrame(one.at)));
    byId("moments").appendChild(one.button);
  }

  // --- moving ---------------------------------------------------------------------------------------------------

  function go(frame, follow = true) {
    state.frame = Math.max(0, Math.min(frames.length - 1, frame));
    const now = frames[state.frame], found = lostAt(now), view = byId("timeline"), x = xs[state.frame];
    if (follow && (x < view.scrollLeft + LABEL + 60 || x > view.scrollLeft + view.clientWidth - 60))
      view.scrollLeft = x - LABEL - (view.clientWidth - LABEL) * 0.6;
    byId("slider").value = state.frame;
    byId("slider").setAttribute("aria-valuetext", seconds(now));
    byId("now").textContent = seconds(now, 6);
    for (const one of shownMoments) one.button.classList.toggle("here", one.at === now);
    const near = shownMoments[Math.max(0, lastAt(shownMoments, now))];
    if (near) byId("moments").scrollLeft = near.button.offsetLeft - byId("moments").clientWidth / 2;
    draw(); showLogs(now, found); showEvents(now); showVerdict(now, found);
    clearTimeout(go.saving);
    go.saving = setTimeout(() => history.replaceState(null, "", `#t=${(now / 1e6).toFixed(6)}${state.messages ? "&messages" : ""}`), 200);
  }
  function play(on) {
    clearInterval(state.playing);
    state.playing = null;
    byId("play").textContent = on ? "⏸ Pause" : "▶ Play";
    if (!on) return;
    if (state.frame >= frames.length - 1) go(0);
    state.playing = setInterval(() => { if (state.frame >= frames.length - 1) play(false); else go(state.frame + 1); }, 1000 / byId("speed").value);
  }
  function toMoment(way) {
    const now = frames[state.frame], list = way > 0 ? shownMoments : [...shownMoments].reverse();
    const next = list.find((one) => (one.at - now) * way > 0);
    if (next) go(lastFrame(next.at));
  }
  const step = (by) => { play(false); go(state.frame + by); };
  if (!data.messages) byId("with-messages").remove();
  byId("first").onclick = () => step(-frames.length);
  byId("last").onclick = () => step(frames.length);
  byId("back").onclick = () => step(-1);
  byId("forth").onclick = () => step(1);
  byId("play").onclick = () => play(!state.playing);
  byId("speed").onchange = () => { if (state.playing) play(true); };
  byId("slider").oninput = (event) => { play(false); go(Number(event.target.value)); };
  if (data.messages) byId("messages").onchange = (event) => { state.messages = event.target.checked; go(state.frame, false); };
  byId("scale").onchange = (event) => { state.scale = event.target.checked; layOut(); byId("timeline").scrollLeft = xs[state.frame] - byId("timeline").clientWidth * 0.6; go(state.frame); };
  let waiting = false;
  byId("timeline").onscroll = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); } };
  svg.addEventListener("click", (event) => { play(false); go(frameAtX(event.clientX - svg.getBoundingClientRect().left + byId("timeline").scrollLeft), false); });
  window.addEventListener("resize", () => { layOut(); go(state.frame); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
    const by = event.shiftKey ? 10 : 1, toggle = (id) => { byId(id).checked = !byId(id).checked; byId(id).dispatchEvent(new Event("change")); };
    const keys = {
      ArrowLeft: () => step(-by), ArrowRight: () => step(by), Home: () => step(-frames.length), End: () => step(frames.length),
      " ": () => play(!state.playing), m: () => toggle("messages"), s: () => toggle("scale"), n: () => toMoment(1), p: () => toMoment(-1),
    };
    if (!keys[event.key] || (event.key === " " && event.target.tagName === "BUTTON") || (event.key === "m" && !data.messages)) return;
    event.preventDefault();
    keys[event.key]();
  });

  byId("slider").max = frames.length - 1;
  layOut();
  state.messages = byId("messages") !== null && location.hash.includes("messages");
  if (state.messages) byId("messages").checked = true;
  const asked = /^#t=(-?[\d.]+)/.exec(location.hash);
  byId("timeline").scrollLeft = 1e9;
  go(asked ? lastFrame(Math.round(Number(asked[1]) * 1e6)) : frames.length - 1);
  document.documentElement.dataset.ready = "yes";
})();

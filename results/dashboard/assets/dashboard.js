/* The dashboard's pages: filters, deep links, keys, lists of runs, two runs or nights side by side. Nothing is loaded;
   what comes from runs is only ever set as text. The state of a page is in its address: #q=words&show=invalid&run=KEY&point=ID. */
"use strict";
(() => {
  const root = document.documentElement;

  /* ---- light or dark, before the first paint where the script is in time */

  const THEME = "squall-theme";
  const stored = (name, value) => {
    try {
      if (value === undefined) return localStorage.getItem(name);
      localStorage.setItem(name, value);
    } catch { /* a browser may forbid storage to files */ }
    return null;
  };
  const isDark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const setTheme = (name) => { root.dataset.theme = name; stored(THEME, name); };
  if (stored(THEME)) root.dataset.theme = stored(THEME);

  /* ---- elements */

  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

  function make(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) made.setAttribute(key, value);
    made.append(...children.filter((one) => one !== null && one !== undefined && one !== ""));
    return made;
  }

  const number = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const digits = (value) => (Math.abs(value) >= 1000 ? number(Math.round(value)) : String(Number(value.toPrecision(3))));

  function seconds(value) {
    if (value === null || value === undefined) return "–";
    if (value === 0) return "0 s";
    for (const [least, name] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) if (value >= least) return `${digits(value / least)} ${name}`;
    return `${digits(value * 1e9)} ns`;
  }

  const mark = (outcome) => make("i", { class: `mark ${outcome}`, "aria-hidden": "true" });
  const cell = (classes, ...children) => make("td", classes ? { class: classes } : {}, ...children);
  const command = (text) => make("code", { class: "copy", title: "copy", tabindex: "0" }, text);

  /* ---- the address */

  function state() {
    const found = {};
    for (const part of location.hash.slice(1).split("&")) {
      const [name, ...rest] = part.split("=");
      if (!rest.length) continue;
      try { found[name] = decodeURIComponent(rest.join("=")); } catch { /* not one of ours */ }
    }
    return found;
  }

  function setState(changes, push = false) {
    const next = { ...state(), ...changes };
    const parts = Object.entries(next).filter(([, value]) => value).map(([name, value]) => `${name}=${encodeURIComponent(value)}`);
    const address = parts.length ? `#${parts.join("&")}` : location.pathname + location.search;
    if (push) history.pushState(null, "", address); else history.replaceState(null, "", address);
    apply();
  }

  /* ---- rows that are in the page: filter and move */

  let page = "", up = "", embedded = null;
  const matching = (words, text) => words.every((word) => text.includes(word));
  const wordsOf = (text) => (text || "").toLowerCase().split(/\s+/).filter(Boolean);
  let chosen = null;

  function filterRows({ q, show }) {
    const words = wordsOf(q);
    let shown = 0;
    const rows = $$("main [data-row]");
    for (const row of rows) {
      const fits = matching(words, (row.dataset.name || "").toLowerCase()) && (!show || row.dataset[show] === undefined || row.dataset[show] === "1");
      row.hidden = !fits;
      if (fits) shown++;
    }
    if ($("#matches") && !view) $("#matches").textContent = words.length || show ? `${shown} of ${rows.length}` : "";
  }

  function choose(step) {
    const rows = $$("main [data-row]").filter((row) => !row.hidden && row.offsetParent !== null);
    if (!rows.length) return;
    const at = rows.indexOf(chosen);
    const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))];
    if (chosen) { chosen.classList.remove("chosen"); chosen.removeAttribute("aria-current"); }
    chosen = next;
    chosen.classList.add("chosen");
    chosen.setAttribute("aria-current", "true");
    chosen.scrollIntoView({ block: "nearest" });
  }

  function keyed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const search = $("#search"), help = $("#help");
    const typing = event.target.closest("input, textarea, select");
    if (event.key === "Escape") {
      if (typing) { if (typing === search) { search.value = ""; setState({ q: "" }); } typing.blur(); }
      else if (state().q) { search.value = ""; setState({ q: "" }); }
      return;
    }
    if (typing || event.target.closest(".chart-plot")) {
      if (typing === search && event.key === "Enter") { search.blur(); choose(1); }
      return;
    }
    const pages = $$(".top nav a");
    const actions = {
      "/": () => search && search.focus(),
      "?": () => (help.open ? help.close() : help.showModal()),
      j: () => choose(1),
      k: () => choose(-1),
      d: () => setTheme(isDark() ? "light" : "dark"),
      Enter: () => {
        if (event.target.closest("a, button, summary, .copy")) return false;
        const link = chosen && $("a", chosen);
        if (!link) return false;
        link.click();
      },
    };
    const action = actions[event.key] || (pages[Number(event.key) - 1] && (() => pages[Number(event.key) - 1].click()));
    if (action && action() !== false) event.preventDefault();
  }

  function copied(event) {
    const target = event.target.closest(".copy");
    if (!target || (event.type === "keydown" && event.key !== "Enter")) return;
    const done = () => { target.classList.add("done"); setTimeout(() => target.classList.remove("done"), 1500); };
    const select = () => { const range = document.createRange(); range.selectNodeContents(target); getSelection().removeAllRanges(); getSelection().addRange(range); };
    if (navigator.clipboard) navigator.clipboard.writeText(target.textContent).then(done, select); else select();
  }

  /* ---- lists of runs */

  const STEP = 200;
  let limit = STEP, view = null;

  class RunList {
    /* Rows are made when they are shown: ten thousand are filtered, two hundred are drawn. */
    constructor(rows, draw, text) {
      this.rows = rows;
      this.draw = draw;
      this.text = rows.map((row) => text(row).toLowerCase());
    }

    apply({ q, show }) {
      const words = wordsOf(q);
      const fitting = this.rows.filter((row, at) => (!show || row.outcome === show) && matching(words, this.text[at]));
      chosen = null;
      $("#list tbody").replaceChildren(...fitting.slice(0, limit).map(this.draw));
      $("#matches").textContent = `${number(fitting.length)} of ${number(this.rows.length)} runs`;
      $("#more").hidden = fitting.length <= limit;
    }
  }

  function expanded({ columns, names, files }) {
    const named = (list, at) => (names[list] || [])[at];
    return columns.key.map((key, at) => ({
      key,
      scenario: named("scenarios", columns.scenario[at]),
      file: files[columns.scenario[at]],
      day: named("days", columns.day[at]),
      time: columns.time[at],
      outcome: named("outcomes", columns.outcome[at]),
      verdict: named("verdicts", columns.verdict[at]),
      seed: columns.seed[at],
      commit: named("commits", columns.commit[at]),
      p50: columns.p50 && columns.p50[at],
      p99: columns.p99 && columns.p99[at],
      p999: columns.p999 && columns.p999[at],
      outage: columns.outage && columns.outage[at],
    }));
  }

  const runAddress = (run) => `scenarios/${encodeURIComponent(run.file)}.html#run=${encodeURIComponent(run.key)}`;
  const row = (classes, ...cells) => make("tr", { "data-row": "", class: classes }, ...cells);

  function runsPage() {
    if (embedded.left) $("#left").textContent = `${number(embedded.left)} older runs are left out of this page.`;
    const text = (run) => `${run.scenario} ${run.verdict} ${run.seed} ${run.commit} ${run.day} ${run.key}`;
    const draw = (run) => row(null,
      cell("", mark(run.outcome)), cell("number", `${run.day} ${run.time}`),
      cell("", make("a", { class: "open", href: runAddress(run) }, run.scenario)), cell("", run.verdict),
      cell("number", String(run.seed)), cell("", make("code", {}, run.commit || "")));
    return new RunList(expanded(embedded), draw, text);
  }

  /* ---- a scenario: its runs, and one of them in detail */

  function scenarioPage() {
    const text = (run) => [run.verdict, run.seed, run.commit, run.day, run.key, ...(run.reasons || []), ...(run.hosts || [])].join(" ");
    const draw = (run) => row(null,
      cell("", mark(run.outcome)),
      cell("number", make("a", { class: "open", href: `#run=${encodeURIComponent(run.key)}` }, `${run.day} ${run.started.slice(11, 16)}`)),
      cell("", run.verdict, run.reasons ? make("small", {}, ` ${run.reasons[0]}`) : ""), cell("number", String(run.seed ?? "")),
      cell("", make("code", {}, (run.commit || "").slice(0, 10))), cell("number", seconds(run.latency && run.latency[1])), cell("number", seconds(run.outage)));
    return new RunList(embedded.runs, draw, text);
  }

  const BADNESS = ["invalid", "unknown", "expected", "valid"];

  function chosenRun({ run, night }) {
    if (run) return embedded.runs.find((one) => one.key === run) || null;
    const ofNight = embedded.runs.filter((one) => night && one.day === night);
    return BADNESS.map((outcome) => ofNight.find((one) => one.outcome === outcome)).find(Boolean) || null;
  }

  let shownKey = null;

  function showRun(address) {
    const panel = $("#run");
    const run = chosenRun(address);
    for (const one of $$(".history .here")) one.classList.remove("here");
    if (!run) {
      const problem = address.run ? `${address.run}: no such run is in this page; it may be older than those that are.`
        : address.night ? `No run of the night of ${address.night} is in this page.` : "";
      panel.hidden = !problem;
      panel.className = "";
      panel.replaceChildren(make("p", {}, problem));
      shownKey = null;
      return;
    }
    if (run.key === shownKey) return;
    shownKey = run.key;
    panel.hidden = false;
    panel.className = run.outcome;
    panel.replaceChildren(...details(run));
    const link = $$(".history a.mark").find((one) => one.hash === `#night=${run.day}`);
    if (link) link.classList.add("here");
    panel.scrollIntoView({ block: "start" });
  }

  function details(run) {
    const at = embedded.runs.indexOf(run);
    const neighbour = (one, name) => (one ? make("a", { href: `#run=${encodeURIComponent(one.key)}` }, name) : "");
    const parts = [make("h2", {}, mark(run.outcome), make("span", {}, run.verdict),
      make("span", { class: "others" }, neighbour(embedded.runs[at + 1], "← earlier"), neighbour(embedded.runs[at - 1], "later →")))];
    for (const reason of run.reasons || []) parts.push(make("p", {}, `Why: ${reason}`));
    for (const one of run.anomalies || []) {
      const places = one.places && one.places.length ? ` on ${one.places.join(", ")}` : "";
      parts.push(make("div", { class: "proof" },
        make("p", {}, make("code", {}, one.name), ` × ${number(one.count)}${places}: ${one.meaning}.`),
        one.witness ? make("p", { class: "line" }, make("b", {}, "Witness "), one.witness) : "",
        one.faults.length ? make("p", { class: "soft" }, `under ${one.faults.join(", ")}`) : ""));
    }
    if (run.report) parts.push(make("a", { class: "report", href: `${up}${run.report}${run.anomalies ? "#witnesses" : ""}` }, run.anomalies ? "Open the witness in the report" : "Open the report"));
    else parts.push(make("p", { class: "soft" }, "Its report is not here: ", make("code", {}, `${run.directory || "the run's directory"}/report.html`)));
    const [ok, info, fail] = run.sends || [];
    const facts = [
      ["began", `${run.started}, night of ${run.day}`],
      ["again", run.command ? command(run.command) : ""],
      ["seed", run.seed],
      ["suite", run.suite],
      ["commit", run.commit ? make("code", {}, run.commit) : ""],
      ["system", [run.system, ...(run.mutants || []).map((one) => `mutant ${one}`)].filter(Boolean).join(", ")],
      ["time", run.load ? `${seconds(run.load)} of load, ${seconds(run.check)} of check` : ""],
      ["sends", ok === null || ok === undefined ? "" : `${number(ok)} acknowledged, ${number(info ?? 0)} of unknown outcome, ${number(fail ?? 0)} refused`],
      ["latency", run.latency ? `p50 ${seconds(run.latency[0])}, p99 ${seconds(run.latency[1])}, p99.9 ${seconds(run.latency[2])}` : ""],
      ["longest outage", run.outage === undefined ? "" : seconds(run.outage)],
      ["hosts", (run.hosts || []).join(", ")],
      ["machine", run.machine && run.machine[0] !== null ? `canary loop ${digits(run.machine[0])} ms, varying by ${Math.round(100 * (run.machine[1] ?? 0))} %` : ""],
      ["directory", run.directory ? make("code", {}, run.directory) : ""],
      ["key", make("span", {}, run.key, " ", make("a", { href: `${up}compare.html#a=${encodeURIComponent(run.key)}` }, "compare with another"))],
    ];
    parts.push(make("dl", {}, ...facts.filter(([, value]) => value !== "" && value !== undefined && value !== null)
      .flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value instanceof Node ? value : String(value))])));
    if (run.faults) parts.push(faultTable(run.faults));
    return parts;
  }

  function faultTable(faults) {
    const head = ["", "fault", "on", "role", "from", "to", "recovered after", "ISR", "elections", "evidence or trouble"];
    const numeric = new Set(head.slice(4, 9));
    const body = faults.map(([id, , targets, role, proven, evidence, from, to, recovered, isr, elections]) => make("tr", {},
      cell("", mark(proven ? "valid" : "unknown")), cell("", id), cell("", targets), cell("", role), cell("number", seconds(from)),
      cell("number", seconds(to)), cell("number", seconds(recovered)), cell("number", isr === null ? "–" : String(isr)),
      cell("number", elections === null ? "–" : String(elections)), cell("", evidence)));
    return make("div", { class: "wide" }, make("table", {}, make("thead", {}, make("tr", {}, ...head.map((one) => make("th", numeric.has(one) ? { class: "number" } : {}, one)))), make("tbody", {}, ...body)));
  }

  /* ---- two nights or runs side by side */

  class Pair {
    constructor() {
      this.runs = expanded(embedded);
      this.days = [...new Set(this.runs.map((one) => one.day))].sort().reverse();
      $("#choices").append(...this.days.map((day) => make("option", { value: day })));
      for (const name of ["a", "b"]) $(`#${name}`).addEventListener("change", (event) => setState({ [name]: event.target.value.trim() }));
      $("#swap").addEventListener("click", () => setState({ a: $("#b").value, b: $("#a").value }));
    }

    chosen(name) { return this.runs.filter((one) => one.day === name || one.key === name); }

    /* One name, also if it contains a space; else several. */
    candidates(text) { return this.chosen(text).length ? [text] : text.split(/[\s,]+/).filter(Boolean); }

    apply(address) {
      const a = address.a || this.days[1] || "", b = address.b || this.days[0] || "";
      $("#a").value = a;
      $("#b").value = b;
      const before = this.chosen(a), candidates = this.candidates(b);
      const missing = [a, ...candidates].filter((name) => !this.chosen(name).length);
      const rows = [], scenarios = new Set();
      for (const candidate of candidates) {
        const after = this.chosen(candidate);
        for (const name of new Set([...before, ...after].map((one) => one.scenario))) {
          if (!matching(wordsOf(address.q), name.toLowerCase())) continue;
          scenarios.add(name);
          rows.push(this.row(name, candidates.length > 1 ? candidate : "", before.filter((one) => one.scenario === name), after.filter((one) => one.scenario === name)));
        }
      }
      rows.sort((one, other) => other.weight - one.weight || (one.name < other.name ? -1 : 1));
      chosen = null;
      $("#list tbody").replaceChildren(...rows.map((one) => one.drawn));
      const changed = rows.filter((one) => one.changed).length;
      $("#verdicts").textContent = missing.length ? `${missing.join(" and ")}: no such night or run is in this page.`
        : `${scenarios.size} scenarios, ${changed} with another outcome.`;
      $("#matches").textContent = "";
    }

    row(name, candidate, before, after) {
      const worst = (runs) => BADNESS.map((outcome) => runs.find((one) => one.outcome === outcome)).find(Boolean);
      const middle = (runs, figure) => {
        const values = runs.map((one) => one[figure]).filter((one) => one !== null && one !== undefined).sort((x, y) => x - y);
        return values.length ? values[values.length >> 1] : null;
      };
      const most = (runs) => runs.reduce((found, one) => (one.outage === null ? found : Math.max(found ?? 0, one.outage)), null);
      const [a, b] = [worst(before), worst(after)];
      const changed = Boolean(a && b && a.outcome !== b.outcome);
      const [first, second] = [middle(before, "p99"), middle(after, "p99")];
      const ratio = first && second ? second / first : null;
      const verdict = (run) => (run ? cell(changed ? "changed" : "", mark(run.outcome), " ", make("a", { href: runAddress(run) }, run.verdict)) : cell("soft", "not run"));
      const drawn = row(null, cell("", make("a", { class: "open", href: `scenarios/${encodeURIComponent((a || b).file)}.html` }, name), candidate && make("small", {}, ` ${candidate}`)), verdict(a), verdict(b),
        cell("number", seconds(middle(before, "p50"))), cell("number", seconds(middle(after, "p50"))), cell("number", seconds(first)), cell("number", seconds(second)),
        cell("", ...ratioBar(ratio)), cell("number", seconds(most(before))), cell("number", seconds(most(after))));
      return { name, drawn, changed, weight: (changed ? 100 : a && b ? 0 : 50) + (ratio ? Math.abs(Math.log(ratio)) : 0) };
    }
  }

  /* From half to twice; the middle is equal. */
  function ratioBar(ratio) {
    if (ratio === null) return ["–"];
    const SVG = "http://www.w3.org/2000/svg";
    const drawn = document.createElementNS(SVG, "svg"), rail = document.createElementNS(SVG, "path"), bar = document.createElementNS(SVG, "rect");
    const length = 50 * Math.min(1, Math.abs(Math.log2(ratio)));
    for (const [one, attributes] of [[drawn, { class: "ratio", viewBox: "0 0 100 12" }], [rail, { class: "rail", d: "M0 11H100M50 0V12" }],
      [bar, { class: ratio > 1 ? "up" : "down", x: ratio > 1 ? 50 : 50 - length, y: 2, width: length, height: 7 }]])
      for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
    drawn.append(rail, bar);
    return [drawn, ` ×${digits(ratio)}`];
  }

  /* ---- a change point that the address names */

  let shownPoint = null;

  function showPoint(id) {
    for (const one of $$(".pointed")) one.classList.remove("pointed");
    const found = id ? $$("[data-point]").filter((one) => one.dataset.point === id) : [];
    for (const one of found) {
      one.classList.add("pointed");
      const folded = one.closest("details");
      if (folded) folded.open = true;
    }
    if (found.length && id !== shownPoint) found[0].scrollIntoView({ block: "center" });
    shownPoint = id;
  }

  /* ---- all together */

  function apply() {
    const address = state();
    const search = $("#search");
    if (search && document.activeElement !== search) search.value = address.q || "";
    for (const button of $$("[data-show]")) button.tagName === "BUTTON" && button.setAttribute("aria-pressed", String((address.show || "") === button.dataset.show));
    if (view) view.apply(address); else filterRows(address);
    if (page === "scenario") showRun(address);
    showPoint(address.point);
  }

  function start() {
    ({ page, up } = document.body.dataset);
    if ($("#data")) embedded = JSON.parse($("#data").textContent);
    if (page === "runs") view = runsPage();
    if (page === "scenario") view = scenarioPage();
    if (page === "compare") view = new Pair();
    const search = $("#search");
    if (search) search.addEventListener("input", () => { limit = STEP; setState({ q: search.value }); });
    for (const button of $$("button[data-show]")) button.addEventListener("click", () => { limit = STEP; setState({ show: button.dataset.show }); });
    if ($("#more")) $("#more").addEventListener("click", () => { limit += 5 * STEP; apply(); });
    $("#theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
    $("#keys").addEventListener("click", () => $("#help").showModal());
    document.addEventListener("keydown", keyed);
    document.addEventListener("click", copied);
    document.addEventListener("keydown", copied);
    addEventListener("hashchange", apply);
    addEventListener("popstate", apply);
    apply();
    root.dataset.ready = "1";
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start); else start();
})();

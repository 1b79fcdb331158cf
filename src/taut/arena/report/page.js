"use strict";
const D = JSON.parse(document.getElementById("data").textContent), at = id => document.getElementById(id);
const GENERAL = ["fixed constraints", "changing constraints", "moving comparator"];
const FAMILIES = [["half-space", "#d55e00", "half-space learners"], ["clipped-ogd", "#0072b2", "Clipped-OGD"], ["", "", "other learners"]];
const COLOURS = ["#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d00", "#7a52a1", "#b2182b", "#4d9221"];
const FEW = 1e-6;  // violations below are drawn here, because the axis is logarithmic
const state = {
  setting: "", variant: "theory", stream: "", quantity: "violation", chosen: new Set(["half-space", "clipped-ogd"]),
  sort: { leaders: [2, 1], lines: [0, 1] },
};

// Numbers.
const plain = (x, digits) => {
  if (x === null || x === undefined) return "";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e5 || size < 1e-3 ? x.toExponential(Math.max(0, digits - 1)) : String(+x.toPrecision(digits));
};
const number = x => plain(x, 4);
const mean = v => v.reduce((a, b) => a + b, 0) / v.length;
const interval = v => {
  const m = mean(v), n = v.length;
  if (n < 2) return [m, null, null];
  const s = Math.sqrt(v.reduce((a, b) => a + (b - m) ** 2, 0) / (n - 1)), h = D.quantile[n] * s / Math.sqrt(n);
  return [m, m - h, m + h];
};
function shown([m, lo, hi]) {
  if (lo === null || lo === undefined) return number(m);
  const h = hi - m <= 1e-12 * Math.abs(m) ? 0 : hi - m, places = h > 0 ? Math.max(0, Math.min(12, 1 - Math.floor(Math.log10(h)))) : 4;
  const fixed = Math.abs(m) < 1e5 && places <= 7;
  return `${fixed && h > 0 ? m.toFixed(places) : number(m)} ± ${fixed && h > 0 ? h.toFixed(places) : plain(h, 2)}`;
}

// What is shown: the parameters of theory, or the best of the grid.
const cellOf = cell => state.variant === "tuned" ? cell.tuned : cell;
const roundsOf = stream => state.variant === "tuned" ? stream.tuned_T : stream.T;
const boardOf = stream => Object.entries(D.boards[stream]).filter(([, cell]) => cellOf(cell)).map(([name, cell]) => ({ name, cell, seen: cellOf(cell) }));
const inSetting = s => state.setting === "" || (state.setting === "general" ? GENERAL.includes(s.setting) : s.setting === state.setting);
const rankedStreams = () => D.streams.filter(s => s.ranked && inSetting(s));
const familyOf = name => FAMILIES.find(([prefix]) => prefix && name.startsWith(prefix));
function colourOf(name) {
  if (name === "half-space" || name === "clipped-ogd") return familyOf(name)[1];
  const others = [...state.chosen].filter(n => n !== "half-space" && n !== "clipped-ogd");
  return COLOURS[others.indexOf(name) % COLOURS.length];
}
function paretoFront(points) {
  const beaten = p => points.some(o => o !== p && o.x <= p.x && o.y <= p.y && (o.x < p.x || o.y < p.y));
  return points.filter(p => !beaten(p)).sort((p, q) => p.x - q.x || q.y - p.y);
}
function pointsOf(stream) {
  return boardOf(stream).map(({ name, cell, seen }) => ({
    name, cell, seen, x: Math.max(seen.values.violation[0], FEW), y: seen.values.regret[0],
  }));
}

function leaders() {
  const streams = rankedStreams(), found = [];
  for (const name of Object.keys(D.learners)) {
    const cells = streams.map(s => D.boards[s.name][name]).filter(c => c && cellOf(c));
    if (!cells.length) continue;
    const seeds = Array.from({ length: D.seeds }, (_, k) => k);
    const sums = cells.map(c => { const [r, v] = cellOf(c).parts; return seeds.map(k => Math.max(r[k % r.length] + v[k % v.length], D.smallest)); });
    const scores = seeds.map(k => Math.exp(mean(sums.map(s => Math.log(s[k])))));
    const times = cells.map(c => c.microseconds).filter(t => t !== null).sort((a, b) => a - b);
    found.push({
      name, score: interval(scores), regret: mean(cells.map(c => mean(cellOf(c).parts[0]))),
      violation: mean(cells.map(c => mean(cellOf(c).parts[1]))), count: cells.length,
      time: times.length ? times[Math.floor(times.length / 2)] : null, full: cells.length === streams.length,
    });
  }
  const full = found.filter(f => f.full);
  for (const one of found) one.rank = one.full ? 1 + full.filter(o => o.score[2] !== null && o.score[2] < one.score[1]).length : null;
  return { found, total: streams.length };
}

// Tables.
function table(id, heads, rows) {
  const [column, way] = state.sort[id], key = x => x === null || x === undefined ? Infinity : x;
  const order = (a, b) => (key(a) < key(b) ? -way : key(a) > key(b) ? way : 0);
  rows.sort((a, b) => (a.last || 0) - (b.last || 0) || order(a.keys[column], b.keys[column]));
  const element = at(id);
  element.textContent = "";
  const head = element.createTHead().insertRow();
  heads.forEach((text, i) => {
    const th = document.createElement("th"), button = document.createElement("button");
    button.textContent = text + (i === column ? (way > 0 ? " ▲" : " ▼") : "");
    th.setAttribute("aria-sort", i === column ? (way > 0 ? "ascending" : "descending") : "none");
    button.onclick = () => { state.sort[id] = [i, i === column ? -way : 1]; draw(); };
    th.append(button);
    head.append(th);
  });
  const body = element.createTBody();
  for (const row of rows) {
    const tr = body.insertRow();
    tr.className = row.kind || "";
    tr.tabIndex = 0;
    tr.dataset.name = row.name;
    for (const [name, value] of Object.entries(row.style || {})) tr.style.setProperty(name, value);
    row.cells.forEach(text => { tr.insertCell().textContent = text; });
    tr.onclick = () => toggle(row.name);
    tr.onkeydown = e => { if (e.key === "Enter") toggle(row.name); };
    if (row.tip) hover(tr, row.tip);
  }
}
function toggle(name) {
  state.chosen.has(name) ? state.chosen.delete(name) : state.chosen.add(name);
  draw();
}
function hover(element, text) {
  element.addEventListener("pointermove", e => {
    const tip = at("tip");
    tip.textContent = text;
    tip.style.visibility = "visible";
    tip.style.left = Math.max(4, Math.min(e.clientX + 12, innerWidth - tip.offsetWidth - 6)) + "px";
    tip.style.top = Math.max(4, Math.min(e.clientY + 14, innerHeight - tip.offsetHeight - 6)) + "px";
  });
  element.addEventListener("pointerleave", () => { at("tip").style.visibility = "hidden"; });
}

// Pictures.
function svg(parent, kind, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  parent.append(e);
  return e;
}
function axes(picture, x, y, labels) {
  picture.textContent = "";
  for (const [v, t] of x) {
    svg(picture, "line", { class: "axis", x1: v, y1: 12, x2: v, y2: 296 });
    svg(picture, "text", { x: v, y: 313, "text-anchor": v > 425 ? "end" : "middle" }, t);
  }
  for (const [v, t] of y) {
    svg(picture, "line", { class: "axis", x1: 60, y1: v, x2: 450, y2: v });
    svg(picture, "text", { x: 54, y: v + 4, "text-anchor": "end" }, t);
  }
  svg(picture, "text", { x: 255, y: 338, "text-anchor": "middle" }, labels[0]);
  svg(picture, "text", { x: 12, y: 154, "text-anchor": "middle", transform: "rotate(-90 12 154)" }, labels[1]);
}
const SUPERSCRIPTS = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const power = e => e === 0 ? "1" : e === 1 ? "10" : "10" + [...String(e)].map(c => SUPERSCRIPTS[c]).join("");
function powers(lo, hi, X) {
  const step = Math.max(1, Math.ceil((hi - lo) / 6)), ticks = [];
  for (let e = lo; e <= hi; e += step) ticks.push([X(10 ** e), power(e)]);
  return ticks;
}
function scales(points, left, right, top, bottom) {
  const logs = points.map(p => Math.log10(p.x)), lo = Math.floor(Math.min(...logs)), hi = Math.max(lo + 1, Math.ceil(Math.max(...logs)));
  const sizes = points.map(p => Math.abs(p.y)).sort((a, b) => a - b), unit = Math.max(sizes[Math.floor(sizes.length / 4)] || 0, 1e-9);
  const fold = v => Math.asinh(v / unit), ys = points.map(p => fold(p.y)), a = Math.min(0, ...ys), b = Math.max(...ys, a + 1e-9);
  return { lo, hi, X: v => left + (right - left) * (Math.log10(v) - lo) / (hi - lo), Y: v => bottom - (bottom - top) * (fold(v) - a) / (b - a) };
}
function overview() {
  at("overview").textContent = "";
  for (const stream of D.streams.filter(s => s.ranked && inSetting(s))) {
    const points = pointsOf(stream.name);
    if (!points.length) continue;
    const panel = document.createElement("button"), title = document.createElement("b");
    panel.className = "panel" + (stream.name === state.stream ? " on" : "");
    title.textContent = stream.name;
    panel.append(title);
    const picture = svg(panel, "svg", { viewBox: "0 0 160 110", "aria-hidden": "true" });
    const { X, Y } = scales(points, 8, 152, 8, 92), best = paretoFront(points);
    svg(picture, "line", { class: "axis", x1: 2, y1: Y(0), x2: 158, y2: Y(0) });
    svg(picture, "text", { x: 80, y: 107, "text-anchor": "middle" }, `best: ${winner(points)}`);
    svg(picture, "polyline", { class: "walk", points: best.map(p => `${X(p.x)},${Y(p.y)}`).join(" ") });
    for (const p of points.sort((p, q) => Boolean(familyOf(p.name)) - Boolean(familyOf(q.name)))) {
      const family = familyOf(p.name);
      const dot = svg(picture, "circle", { class: "dot", cx: X(p.x), cy: Y(p.y), r: best.includes(p) ? 4 : 2.6 });
      dot.style.fill = family ? family[1] : "var(--dot)";
    }
    panel.onclick = () => { state.stream = at("stream").value = stream.name; draw(); at("one").scrollIntoView({ behavior: "smooth" }); };
    hover(panel, `${stream.title}\nT = ${roundsOf(stream)}. On the front: ${best.map(p => p.name).join(", ")}`);
    at("overview").append(panel);
  }
}
const scoreOf = seen => mean(seen.parts[0].map((r, k) => Math.max(r + seen.parts[1][k], D.smallest)));
const winner = points => points.reduce((a, b) => scoreOf(b.seen) < scoreOf(a.seen) ? b : a).name;
function pareto(stream) {
  const points = pointsOf(stream.name), picture = at("pareto");
  if (!points.length) { axes(picture, [], [], ["", ""]); return new Set(); }
  const { lo, hi, X, Y } = scales(points, 72, 440, 22, 284);
  const values = [0, Math.min(...points.map(p => p.y)), Math.max(...points.map(p => p.y))];
  const marks = values.filter((v, i) => values.findIndex(o => Math.abs(Y(o) - Y(v)) < 16) === i).map(v => [Y(v), plain(v, 3)]);
  axes(picture, powers(lo, hi, X), marks, ["clipped violation (log scale)", "regret (asinh scale)"]);
  const best = paretoFront(points);
  svg(picture, "polyline", { class: "walk", points: best.map(p => `${X(p.x)},${Y(p.y)}`).join(" ") });
  for (const p of points.sort((p, q) => state.chosen.has(p.name) - state.chosen.has(q.name))) {
    const chosen = state.chosen.has(p.name), [, low, high] = p.seen.values.regret, [, left, right] = p.seen.values.violation;
    if (chosen && low !== null) svg(picture, "line", { class: "bar", x1: X(p.x), y1: Y(low), x2: X(p.x), y2: Y(high) });
    if (chosen && left !== null) svg(picture, "line", { class: "bar", x1: X(Math.max(left, FEW)), y1: Y(p.y), x2: X(Math.max(right, FEW)), y2: Y(p.y) });
    const kind = "point" + (best.includes(p) ? " best" : ""), radius = chosen ? 7 : best.includes(p) ? 6 : 4;
    const dot = svg(picture, "circle", { class: kind, cx: X(p.x), cy: Y(p.y), r: radius, tabindex: 0, "data-name": p.name });
    if (chosen) dot.style.fill = colourOf(p.name);
    hover(dot, describe(p.name, p.cell, p.seen));
    dot.onclick = () => toggle(p.name);
    dot.onkeydown = k => { if (k.key === "Enter") toggle(p.name); };
  }
  const placed = [];
  for (const p of [...points.filter(q => state.chosen.has(q.name)), ...best.filter(q => !state.chosen.has(q.name))]) {
    const end = X(p.x) > 300, x = X(p.x) + (end ? -10 : 10), reach = 7 * p.name.length, box = end ? [x - reach, x] : [x, x + reach];
    let y = Y(p.y) - 7;
    const taken = () => placed.some(([a, b, h]) => box[0] < b && a < box[1] && Math.abs(h - y) < 13);
    for (let tries = 0; taken() && tries < 6; tries++) y += 13;
    if (taken() || y > 292) continue;
    placed.push([...box, y]);
    svg(picture, "text", { class: state.chosen.has(p.name) ? "name" : "", x, y, "text-anchor": end ? "end" : "start" }, p.name);
  }
  return new Set(best.map(p => p.name));
}
function describe(name, cell, seen) {
  const learner = D.learners[name], title = learner.title === name ? name : `${name}: ${learner.title}`;
  const parameters = state.variant === "tuned" ? `parameters: ${seen.variant}` : cell.parameters;
  return [title, learner.reference, `regret ${shown(seen.values.regret)}`, `clipped violation ${shown(seen.values.violation)}`, parameters].filter(Boolean).join("\n");
}
function curves(stream) {
  const board = D.boards[stream.name], quantity = state.quantity, names = [...state.chosen].filter(n => board[n]), picture = at("curves");
  const positive = n => board[n].curve.T.map((T, i) => [T, ...board[n].curve[quantity][i]]).filter(([, v]) => v > 0);
  const all = names.flatMap(positive);
  at("legend").textContent = "";
  picture.setAttribute("aria-label", `${quantity} by number of rounds`);
  if (!all.length) {
    axes(picture, [], [], ["", ""]);
    svg(picture, "text", { x: 253, y: 154, "text-anchor": "middle" }, names.length ? `no positive ${quantity} to draw` : "choose learners in the table");
    return;
  }
  const xs = all.map(([T]) => Math.log2(T)), ys = all.map(([, v]) => Math.log10(v)), x0 = Math.min(...xs), x1 = Math.max(...xs, x0 + 1);
  const y0 = Math.floor(Math.min(...ys)), y1 = Math.max(Math.ceil(Math.max(...ys)), y0 + 1);
  const X = T => 66 + 374 * (Math.log2(T) - x0) / (x1 - x0), Y = v => 284 - 262 * (Math.log10(v) - y0) / (y1 - y0);
  const rounds = [...new Set(all.map(([T]) => T))].sort((a, b) => a - b);
  const ticks = rounds.filter((_, i) => rounds.length < 6 || i % 2 === (rounds.length - 1) % 2).map(T => [X(T), T.toLocaleString("en")]);
  axes(picture, ticks, powers(y0, y1, Y), ["rounds (log scale)", `${quantity === "violation" ? "clipped violation" : quantity} (log scale)`]);
  const middle = 10 ** mean(ys), centre = 2 ** ((x0 + x1) / 2), root = T => middle * Math.sqrt(T / centre);
  const ends = [2 ** x0, 2 ** x1].map(T => Math.min(Math.max(T, centre * (10 ** y0 / middle) ** 2), centre * (10 ** y1 / middle) ** 2));
  svg(picture, "line", { class: "guide", x1: X(ends[0]), y1: Y(root(ends[0])), x2: X(ends[1]), y2: Y(root(ends[1])) });
  svg(picture, "text", { x: X(ends[0]) + 14, y: Math.min(Y(root(ends[0])) + 16, 292) }, "slope 1/2");
  for (const n of names) {
    const colour = colourOf(n), points = positive(n), floor = v => Y(Math.max(v, 10 ** y0)), ceiling = v => Y(Math.min(v, 10 ** y1));
    const sure = points.filter(([, , low]) => low !== null && low !== undefined);
    const band = [...sure.map(([T, , , high]) => `${X(T)},${ceiling(high)}`), ...sure.reverse().map(([T, , low]) => `${X(T)},${floor(low)}`)];
    if (sure.length > 1) svg(picture, "polygon", { points: band.join(" "), fill: colour, opacity: 0.15 });
    svg(picture, "polyline", { class: "curve", stroke: colour, points: points.map(([T, v]) => `${X(T)},${Y(v)}`).join(" ") });
    for (const [T, v, low, high] of points) hover(svg(picture, "circle", { cx: X(T), cy: Y(v), r: 3.5, fill: colour }), `${n}\nT = ${T}\n${quantity} ${shown([v, low, high])}`);
    const item = document.createElement("span"), swatch = document.createElement("i");
    swatch.style.background = colour;
    item.append(swatch, n + (points.length ? "" : " (not positive)"));
    at("legend").append(item);
  }
}

function drawLeaders() {
  const { found, total } = leaders(), longest = Math.max(...found.map(f => f.regret + f.violation), 1e-12);
  const heads = ["rank", "learner", "score", "regret part", "violation part", "streams", "µs per round"];
  table("leaders", heads, found.map(f => ({
    name: f.name, last: f.full ? 0 : 1, kind: (f.full ? "" : "unranked ") + (state.chosen.has(f.name) ? "on" : ""),
    cells: [f.rank === null ? "" : String(f.rank), f.name, shown(f.score), plain(f.regret, 3), plain(f.violation, 3), `${f.count} of ${total}`, plain(f.time, 3)],
    keys: [f.rank, f.name, f.score[0], f.regret, f.violation, f.count, f.time],
    style: { "--both": (100 * (f.regret + f.violation) / longest).toFixed(1), "--first": `${(100 * f.regret / (f.regret + f.violation || 1)).toFixed(1)}%` },
    tip: [D.learners[f.name].title, D.learners[f.name].reference].filter(Boolean).join("\n"),
  })));
}
function drawLines(stream, best) {
  const wanted = ["regret", "violation", "squared violation", "peak violation", "excess"];
  const heads = ["score", "learner", "regret", "clipped", "squared", "peak", "signed", "growth of regret", "growth of violation", "µs per round"];
  table("lines", heads, boardOf(stream.name).map(({ name, cell, seen }) => {
    const score = scoreOf(seen), growth = q => cell.exponents[q] && cell.exponents[q][0] !== null ? cell.exponents[q] : null;
    const grown = ["regret", "violation"].map(growth);
    return {
      name, kind: (best.has(name) ? "front " : "") + (state.chosen.has(name) ? "on" : ""),
      cells: [plain(score, 3), name, ...wanted.map(q => seen.values[q] ? shown(seen.values[q]) : ""), ...grown.map(g => g ? shown(g) : ""), plain(cell.microseconds, 3)],
      keys: [score, name, ...wanted.map(q => seen.values[q] ? seen.values[q][0] : null), ...grown.map(g => g ? g[0] : null), cell.microseconds],
      tip: describe(name, cell, seen),
    };
  }));
}
function draw() {
  at("tip").style.visibility = "hidden";
  drawLeaders();
  overview();
  const stream = D.streams.find(s => s.name === state.stream), facts = Object.entries(stream.known).map(([k, v]) => `${k}: ${v}`).join("; ");
  at("about").textContent = `${stream.title[0].toUpperCase()}${stream.title.slice(1)}. ${roundsOf(stream).toLocaleString("en")} rounds. Comparator: ${stream.comparator}. ${facts ? facts + ". " : ""}Source: ${stream.source}.`;
  const best = pareto(stream);
  curves(stream);
  drawLines(stream, best);
}

// The page.
function options(id, values) {
  at(id).textContent = "";
  for (const [value, text] of values) {
    const o = document.createElement("option");
    o.value = value;
    o.textContent = text;
    at(id).append(o);
  }
}
const settings = [...new Set(D.streams.filter(s => s.ranked).map(s => s.setting))];
const general = settings.some(s => GENERAL.includes(s));
options("setting", [...(general ? [["general", "convex losses, fixed and changing constraints"]] : []), ["", "all streams"], ...settings.map(s => [s, s])]);
options("stream", D.streams.map(s => [s.name, `${s.name} (${s.setting})`]));
state.setting = at("setting").value;
state.stream = at("stream").value;
for (const id of ["setting", "variant", "stream", "quantity"]) at(id).onchange = () => { state[id] = at(id).value; draw(); };
const facts = [[D.streams.length, "streams"], [Object.keys(D.learners).length, "learners"], [D.seeds, "seeds"], [D.cells, "cells"], [D.bounds, "bounds checked"], [D.broken.length, "bounds exceeded"]];
for (const [value, text] of facts) {
  const li = document.createElement("li"), b = document.createElement("b");
  if (text === "bounds exceeded" && value) li.className = "bad";
  b.textContent = value.toLocaleString("en");
  li.append(b, text);
  at("facts").append(li);
}
for (const [, colour, text] of FAMILIES) {
  const item = document.createElement("span"), swatch = document.createElement("i");
  if (colour) swatch.style.background = colour;
  item.append(swatch, text);
  at("colours").append(item);
}
at("summary").textContent = `taut ${D.version}. ` + (D.broken.length ? `BOUNDS EXCEEDED: ${D.broken.join("; ")}` : "No bound was exceeded.") + ` The grid multiplies one number that a learner is told by ${D.factors.map(number).join(", ")}; its best result is chosen in hindsight, which no learner can do, so it is never mixed with theory's.`;
for (const [stream, learner, reason] of D.left_out) {
  const li = document.createElement("li");
  li.textContent = `${stream}${learner ? ", " + learner : ""}: ${reason}`;
  at("left").append(li);
}
draw();

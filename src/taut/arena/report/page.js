"use strict";
const D = JSON.parse(document.getElementById("data").textContent), at = id => document.getElementById(id);
const FAMILY = Object.fromEntries(D.families.map(f => [f.name, f]));
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "4 2", "1 2"];
const FEW = 1e-6;  // violations below are drawn here, because the axis is logarithmic
const CHOICES = ["board", "variant", "rounds", "shown", "profiled", "stream", "quantity"];
const state = { chosen: null, sort: { leaders: [0, 1], lines: [0, -1] } };

// Numbers.
const plain = (x, digits) => {
  if (x === null || x === undefined) return "";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e5 || size < 1e-3 ? x.toExponential(Math.max(0, digits - 1)) : String(+x.toPrecision(digits));
};
const number = x => plain(x, 4);
const percent = x => x === null || x === undefined ? "" : (100 * x).toFixed(1);
const mean = v => v.reduce((a, b) => a + b, 0) / v.length;
const many = (n, text) => `${n.toLocaleString("en")} ${text}${n === 1 ? "" : "s"}`;
function shown([m, lo, hi]) {
  if (lo === null || lo === undefined) return number(m);
  const h = hi - m <= 1e-12 * Math.abs(m) ? 0 : hi - m, places = h > 0 ? Math.max(0, Math.min(12, 1 - Math.floor(Math.log10(h)))) : 4;
  const fixed = Math.abs(m) < 1e5 && places <= 7;
  return `${fixed && h > 0 ? m.toFixed(places) : number(m)} ± ${fixed && h > 0 ? h.toFixed(places) : plain(h, 2)}`;
}

// What is shown.
const tuned = () => state.variant === "tuned";
const group = () => D.groups.find(g => g.title === state.board);
const view = () => group().views[tuned() ? "tuned" : state.rounds] || group().views.longest;
const streamOf = name => D.streams.find(s => s.name === name);
const familyOf = name => FAMILY[(D.learners[name] || {}).family || "other"];
const colourOf = name => familyOf(name).colour;
function dashOf(name) {
  const mine = [...state.chosen].filter(n => familyOf(n) === familyOf(name));
  return DASHES[Math.max(0, mine.indexOf(name)) % DASHES.length];
}
function chosenRows() {
  const rows = view().rows;
  return state.shown === "all" ? rows : rows.filter(r => r.headline || state.chosen.has(r.name));
}
function seenOf(stream, name) {
  const cell = D.boards[stream][name];
  if (!cell) return null;
  if (tuned()) return cell.tuned && { hit: cell.tuned.hit, values: cell.tuned.values, T: cell.tuned.T, variant: cell.tuned.variant };
  const i = cell.curve.T.indexOf(Number(state.rounds));
  if (state.rounds === "longest" || i < 0) return { hit: cell.hit, values: cell.values, T: cell.curve.T[cell.curve.T.length - 1] };
  const values = i === cell.curve.T.length - 1 ? cell.values : { regret: cell.curve.regret[i], violation: cell.curve.violation[i] };
  return { hit: cell.hits[i], values, T: cell.curve.T[i] };
}
const boardOf = stream => Object.keys(D.boards[stream]).map(name => ({ name, cell: D.boards[stream][name], seen: seenOf(stream, name) })).filter(p => p.seen);
function paretoFront(points) {
  const beaten = p => points.some(o => o !== p && o.x <= p.x && o.y <= p.y && (o.x < p.x || o.y < p.y));
  return points.filter(p => !beaten(p)).sort((p, q) => p.x - q.x || q.y - p.y);
}
const pointsOf = stream => boardOf(stream).map(p => ({ ...p, x: Math.max(p.seen.values.violation[0], FEW), y: p.seen.values.regret[0] }));

// The address says what is shown, so that a view can be sent to somebody.
function remember() {
  const told = new URLSearchParams(CHOICES.map(id => [id, state[id]]));
  told.set("learners", [...state.chosen].join(","));
  history.replaceState(null, "", "#" + told);
}
function recall() {
  const told = new URLSearchParams(location.hash.slice(1));
  for (const id of CHOICES) {
    const wanted = told.get(id), options = [...at(id).options].map(o => o.value);
    if (wanted !== null && options.includes(wanted)) at(id).value = wanted;
    state[id] = at(id).value;
  }
  const names = (told.get("learners") || "").split(",").filter(n => D.learners[n]);
  state.chosen = new Set(names.length ? names : Object.keys(D.learners).filter(n => representative(n)).slice(0, 12));
}
const representative = name => D.groups.some(g => g.views.longest.rows.some(r => r.name === name && r.headline));

// Elements.
function make(parent, kind, attributes = {}, text) {
  const e = document.createElement(kind);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  parent.append(e);
  return e;
}
function svg(parent, kind, attributes, text) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  if (text !== undefined) e.textContent = text;
  parent.append(e);
  return e;
}
function toggle(name) {
  state.chosen.has(name) ? state.chosen.delete(name) : state.chosen.add(name);
  draw();
}
function show(text, x, y) {
  const tip = at("tip");
  tip.textContent = text;
  tip.style.visibility = "visible";
  tip.style.left = Math.max(4, Math.min(x + 12, innerWidth - tip.offsetWidth - 6)) + "px";
  tip.style.top = Math.max(4, Math.min(y + 14, innerHeight - tip.offsetHeight - 6)) + "px";
}
const hide = () => { at("tip").style.visibility = "hidden"; };
function hover(element, text) {
  element.addEventListener("pointermove", e => show(text, e.clientX, e.clientY));
  element.addEventListener("pointerleave", hide);
  element.addEventListener("focus", () => { const box = element.getBoundingClientRect(); show(text, box.right, box.bottom); });
  element.addEventListener("blur", hide);
}
// A point that can be chosen with the pointer, Enter and Space, and has a name for screen readers.
function point(picture, x, y, radius, kind, name, text) {
  const dot = svg(picture, "circle", {
    class: kind, cx: x, cy: y, r: radius, tabindex: 0, role: "button", "aria-pressed": state.chosen.has(name), "aria-label": text.replaceAll("\n", ", "),
    "data-name": name, "data-key": picture.id + name,
  });
  dot.style.fill = colourOf(name);
  hover(dot, text);
  dot.onclick = () => toggle(name);
  dot.onkeydown = e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); toggle(name); } };
  return dot;
}
function table(id, heads, rows) {
  const [column, way] = state.sort[id], key = x => x === null || x === undefined || Number.isNaN(x) ? Infinity * way : x;
  const order = (a, b) => (key(a) < key(b) ? -way : key(a) > key(b) ? way : 0);
  rows.sort((a, b) => (a.last || 0) - (b.last || 0) || order(a.keys[column], b.keys[column]));
  const element = at(id);
  element.textContent = "";
  const head = element.createTHead().insertRow();
  heads.forEach((text, i) => {
    const th = make(head, "th", { scope: "col", "aria-sort": i === column ? (way > 0 ? "ascending" : "descending") : "none" });
    const button = make(th, "button", { type: "button", "data-key": `${id}-${i}` }, text + (i === column ? (way > 0 ? " ▲" : " ▼") : ""));
    button.onclick = () => { state.sort[id] = [i, i === column ? -way : 1]; draw(); };
  });
  const body = element.createTBody();
  for (const row of rows) {
    const tr = body.insertRow();
    tr.className = row.kind || "";
    tr.dataset.name = row.name;
    row.cells.forEach((text, i) => {
      const td = tr.insertCell();
      if (i === 1) {
        const button = make(td, "button", { type: "button", class: "pick", "data-key": `${id}-${row.name}`, "aria-pressed": state.chosen.has(row.name) }, text);
        button.style.setProperty("--family", colourOf(row.name));
        if (row.tip) hover(button, row.tip);
      } else if (row.bar && i === row.bar.at) {
        const bar = make(td, "span", { class: "bar", role: "img", "aria-label": row.bar.label });
        row.bar.parts.forEach(([kind, share]) => { make(bar, "i", { class: kind }).style.width = `${(100 * share).toFixed(2)}%`; });
      } else td.textContent = text;
    });
    tr.onclick = () => toggle(row.name);
  }
}
function rowsOf(id, heads, rows) {
  const element = at(id);
  element.textContent = "";
  const head = element.createTHead().insertRow();
  for (const text of heads) make(head, "th", { scope: "col" }, text);
  const body = element.createTBody();
  for (const cells of rows) {
    const tr = body.insertRow();
    for (const text of cells) tr.insertCell().textContent = text;
  }
}

// Pictures.
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
const shares = Y => [0, 0.25, 0.5, 0.75, 1].map(s => [Y(s), `${100 * s} %`]);
function nothing(picture, text) {
  axes(picture, [], [], ["", ""]);
  svg(picture, "text", { x: 253, y: 154, "text-anchor": "middle" }, text);
}
function line(picture, name, points, text) {
  const curve = svg(picture, "polyline", { class: "curve", "data-name": name, stroke: colourOf(name), "stroke-dasharray": dashOf(name), points: points.map(p => p.join(",")).join(" ") });
  hover(curve, text);
}
function profile() {
  const picture = at("profile"), curves = view().profiles[state.profiled], last = Math.log10(D.taus[D.taus.length - 1]);
  const X = tau => 60 + 390 * Math.log10(tau) / last, Y = s => 284 - 262 * s;
  axes(picture, powers(0, last, X), shares(Y), ["factor of the best (log scale)", "share of streams"]);
  for (const name of [...state.chosen].filter(n => curves[n])) line(picture, name, curves[name].map((s, i) => [X(D.taus[i]), Y(s)]), `${name}: best on ${percent(curves[name][0])} %`);
}
function targets() {
  const picture = at("targets"), views = group().views;
  const rounds = Object.keys(views).map(Number).filter(Boolean).sort((a, b) => a - b);
  if (!rounds.length) return nothing(picture, "no rounds");
  const x0 = Math.log2(rounds[0]), x1 = Math.max(Math.log2(rounds[rounds.length - 1]), x0 + 1);
  const X = T => 66 + 374 * (Math.log2(T) - x0) / (x1 - x0), Y = s => 284 - 262 * s;
  axes(picture, rounds.filter((_, i) => rounds.length < 6 || i % 2 === (rounds.length - 1) % 2).map(T => [X(T), T.toLocaleString("en")]), shares(Y), ["rounds (log scale)", "share of targets hit"]);
  for (const name of state.chosen) {
    const points = rounds.map(T => [T, views[T].rows.find(r => r.name === name)]).filter(([, r]) => r);
    if (!points.length) continue;
    line(picture, name, points.map(([T, r]) => [X(T), Y(r.hit[0])]), name);
    for (const [T, r] of points) hover(svg(picture, "circle", { cx: X(T), cy: Y(r.hit[0]), r: 3, fill: colourOf(name) }), `${name}\nT = ${T}: ${percent(r.hit[0])} % (${percent(r.hit[1])} to ${percent(r.hit[2])}), ${many(views[T].streams.length, "stream")}`);
  }
}
function cost() {
  costAgainst("cost", r => r.microseconds, "microseconds per round (log scale)");
  costAgainst("calls", r => D.learners[r.name].total, "calls of oracles per round (log scale)");
}
function costAgainst(id, spent, label) {
  const picture = at(id), rows = view().rows.filter(r => spent(r) && r.rank !== null);
  if (!rows.length) return nothing(picture, "not measured");
  const logs = rows.map(r => Math.log10(spent(r))), lo = Math.floor(Math.min(...logs)), hi = Math.max(lo + 1, Math.ceil(Math.max(...logs)));
  const X = t => 66 + 374 * (Math.log10(t) - lo) / (hi - lo), Y = s => 284 - 262 * s;
  axes(picture, powers(lo, hi, X), shares(Y), [label, "share of targets hit"]);
  for (const r of rows) point(picture, X(spent(r)), Y(r.hit[0]), state.chosen.has(r.name) ? 6 : 4, "point", r.name, `${r.name}\n${percent(r.hit[0])} % of targets\n${plain(r.microseconds, 3)} µs per round\ncalls per round: ${D.learners[r.name].calls || "not counted"}\n${D.learners[r.name].cost}`);
  labels(picture, rows.filter(r => state.chosen.has(r.name)).map(r => ({ name: r.name, px: X(spent(r)), py: Y(r.hit[0]) })));
}
function labels(picture, points) {
  const placed = [];
  for (const p of points) {
    const end = p.px > 300, x = p.px + (end ? -10 : 10), reach = 7 * p.name.length, box = end ? [x - reach, x] : [x, x + reach];
    let y = p.py - 7;
    const taken = () => placed.some(([a, b, h]) => box[0] < b && a < box[1] && Math.abs(h - y) < 13);
    for (let tries = 0; taken() && tries < 6; tries++) y += 13;
    if (taken() || y > 292 || y < 10) continue;
    placed.push([...box, y]);
    svg(picture, "text", { class: state.chosen.has(p.name) ? "name" : "", x, y, "text-anchor": end ? "end" : "start" }, p.name);
  }
}
function ranks() {
  const picture = at("ranks"), rows = view().rows.filter(r => r.rank !== null).sort((a, b) => a.mean_rank - b.mean_rank);
  picture.textContent = "";
  if (rows.length < 2) return;
  const few = rows.filter(r => r.headline || state.chosen.has(r.name)), n = rows.length, X = r => 40 + 840 * (r - 1) / (n - 1);
  const height = 62 + 15 * Math.ceil(few.length / 2);
  picture.setAttribute("viewBox", `0 0 920 ${height + 12}`);
  svg(picture, "line", { class: "axis strong", x1: X(1), y1: 42, x2: X(n), y2: 42 });
  for (let r = 1; r <= n; r += Math.max(1, Math.floor(n / 12))) svg(picture, "text", { x: X(r), y: 36, "text-anchor": "middle" }, r);
  svg(picture, "text", { x: X(1), y: 14 }, `mean rank over families of streams; critical difference ${plain(view().difference, 3)}`);
  const width = Math.min(view().difference, n - 1);
  svg(picture, "line", { class: "difference", x1: X(1), y1: 20, x2: X(1 + width), y2: 20 });
  few.forEach((r, i) => {
    const left = i < few.length / 2, y = 58 + 15 * (left ? i : few.length - 1 - i), end = left ? 8 : 912;
    const text = svg(picture, "text", { x: end, y: y + 4, "text-anchor": left ? "start" : "end", class: state.chosen.has(r.name) ? "name" : "" }, `${r.name} ${r.mean_rank.toFixed(1)}`);
    const edge = left ? end + 7 * text.textContent.length : end - 7 * text.textContent.length;
    svg(picture, "polyline", { class: "stem", stroke: colourOf(r.name), points: `${X(r.mean_rank)},42 ${X(r.mean_rank)},${y} ${left ? Math.min(edge, X(r.mean_rank)) : Math.max(edge, X(r.mean_rank))},${y}` });
  });
}
function scales(points, left, right, top, bottom) {
  const logs = points.map(p => Math.log10(p.x)), lo = Math.floor(Math.min(...logs)), hi = Math.max(lo + 1, Math.ceil(Math.max(...logs)));
  const sizes = points.map(p => Math.abs(p.y)).sort((a, b) => a - b), unit = Math.max(sizes[Math.floor(sizes.length / 4)] || 0, 1e-9);
  const fold = v => Math.asinh(v / unit), ys = points.map(p => fold(p.y)), a = Math.min(0, ...ys), b = Math.max(...ys, a + 1e-9);
  return { lo, hi, X: v => left + (right - left) * (Math.log10(v) - lo) / (hi - lo), Y: v => bottom - (bottom - top) * (fold(v) - a) / (b - a) };
}
function overview() {
  at("overview").textContent = "";
  for (const [name] of view().streams) {
    const stream = streamOf(name), points = stream ? pointsOf(name) : [];
    if (!points.length) continue;
    const best = paretoFront(points), winner = points.reduce((a, b) => b.seen.hit > a.seen.hit ? b : a).name;
    const panel = make(at("overview"), "button", { type: "button", class: "panel" + (name === state.stream ? " on" : ""), "data-key": "panel" + name, "aria-label": `${name}, most targets: ${winner}` });
    make(panel, "b", {}, name);
    const picture = svg(panel, "svg", { viewBox: "0 0 160 110", "aria-hidden": "true" }), { X, Y } = scales(points, 8, 152, 8, 92);
    svg(picture, "line", { class: "axis", x1: 2, y1: Y(0), x2: 158, y2: Y(0) });
    svg(picture, "text", { x: 80, y: 107, "text-anchor": "middle" }, winner);
    svg(picture, "polyline", { class: "walk", points: best.map(p => `${X(p.x)},${Y(p.y)}`).join(" ") });
    for (const p of points.sort((p, q) => best.includes(p) - best.includes(q))) svg(picture, "circle", { class: "dot", cx: X(p.x), cy: Y(p.y), r: best.includes(p) ? 4 : 2.6 }).style.fill = colourOf(p.name);
    panel.onclick = () => { state.stream = at("stream").value = name; draw(); at("one").scrollIntoView({ behavior: "smooth" }); at("one").focus({ preventScroll: true }); };
    hover(panel, `${stream.title}\nOn the front: ${best.map(p => p.name).join(", ")}`);
  }
}
function describe(name, cell, seen) {
  const learner = D.learners[name], title = learner.title === name ? name : `${name}: ${learner.title}`;
  const parameters = tuned() ? `parameters: ${seen.variant}` : cell.parameters;
  const from = cell.origin === "taut" ? "" : `reported by ${cell.origin}`;
  return [title, learner.reference, `regret ${shown(seen.values.regret)}`, `clipped violation ${shown(seen.values.violation)}`, parameters, from].filter(Boolean).join("\n");
}
function pareto(stream) {
  const points = pointsOf(stream.name), picture = at("pareto");
  if (!points.length) { nothing(picture, "no results"); return new Set(); }
  const { lo, hi, X, Y } = scales(points, 72, 440, 22, 284);
  const values = [0, Math.min(...points.map(p => p.y)), Math.max(...points.map(p => p.y))];
  const marks = values.filter((v, i) => values.findIndex(o => Math.abs(Y(o) - Y(v)) < 16) === i).map(v => [Y(v), plain(v, 3)]);
  axes(picture, powers(lo, hi, X), marks, ["clipped violation (log scale)", "regret (asinh scale)"]);
  const best = paretoFront(points);
  svg(picture, "polyline", { class: "walk", points: best.map(p => `${X(p.x)},${Y(p.y)}`).join(" ") });
  for (const p of points.sort((p, q) => state.chosen.has(p.name) - state.chosen.has(q.name))) {
    const chosen = state.chosen.has(p.name), [, low, high] = p.seen.values.regret, [, left, right] = p.seen.values.violation;
    const tall = v => Math.min(Math.max(Y(v), 12), 296), wide = v => Math.min(Math.max(X(Math.max(v, FEW)), 60), 450);
    if (chosen && low !== null) svg(picture, "line", { class: "whisker", x1: X(p.x), y1: tall(low), x2: X(p.x), y2: tall(high) });
    if (chosen && left !== null) svg(picture, "line", { class: "whisker", x1: wide(left), y1: Y(p.y), x2: wide(right), y2: Y(p.y) });
    point(picture, X(p.x), Y(p.y), chosen ? 7 : best.includes(p) ? 6 : 4, "point" + (best.includes(p) ? " best" : ""), p.name, describe(p.name, p.cell, p.seen));
  }
  labels(picture, [...points.filter(q => state.chosen.has(q.name)), ...best.filter(q => !state.chosen.has(q.name))].map(p => ({ name: p.name, px: X(p.x), py: Y(p.y) })));
  return new Set(best.map(p => p.name));
}
function curves(stream) {
  const board = D.boards[stream.name], quantity = state.quantity, names = [...state.chosen].filter(n => board[n]), picture = at("curves");
  const positive = n => board[n].curve.T.map((T, i) => [T, ...board[n].curve[quantity][i]]).filter(([, v]) => v > 0);
  const all = names.flatMap(positive);
  picture.setAttribute("aria-label", `${quantity} by number of rounds`);
  if (!all.length) return nothing(picture, names.length ? `no positive ${quantity} to draw` : "choose learners in the table");
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
    const points = positive(n), inside = v => Y(Math.min(Math.max(v, 10 ** y0), 10 ** y1));
    const sure = points.filter(([, , low]) => low !== null && low !== undefined);
    const band = [...sure.map(([T, , , high]) => `${X(T)},${inside(high)}`), ...sure.reverse().map(([T, , low]) => `${X(T)},${inside(low)}`)];
    if (sure.length > 1) svg(picture, "polygon", { points: band.join(" "), fill: colourOf(n), opacity: 0.15 });
    if (points.length) line(picture, n, points.map(([T, v]) => [X(T), Y(v)]), n);
    for (const [T, v, low, high] of points) hover(svg(picture, "circle", { cx: X(T), cy: Y(v), r: 3.5, fill: colourOf(n) }), `${n}\nT = ${T}\n${quantity} ${shown([v, low, high])}`);
  }
}

// Tables.
const HEADS = ["rank", "learner", "", "hit %", "95 %", "missed: regret", "missed: violation", "missed: both", "mean rank", "feasible rounds %", "violating rounds", "peak / (G D)", "µs per round", "calls per round", "streams"];
function leaderRows() {
  const total = view().streams.length;
  return chosenRows().map(r => ({
    name: r.name, last: r.rank === null ? 1 : 0, kind: (r.rank === null ? "unranked " : "") + (state.chosen.has(r.name) ? "on" : ""),
    cells: [r.rank === null ? "" : r.ranks[0] === r.ranks[1] ? String(r.rank) : `${r.rank} (${r.ranks[0]}–${r.ranks[1]})`, r.name, "", percent(r.hit[0]), `${percent(r.hit[1])}–${percent(r.hit[2])}`,
      ...r.missed.map(percent), r.mean_rank === null ? "" : r.mean_rank.toFixed(1), percent(r.columns["feasible rounds"]), plain(r.columns["violating rounds"], 3), plain(r.columns["peak violation"], 2), plain(r.microseconds, 3), plain(D.learners[r.name].total, 3), `${r.streams} of ${total}`],
    keys: [r.rank === null ? null : r.rank + 1e-3 * (1 - r.hit[0]), r.name, -r.hit[0], -r.hit[0], -r.hit[0], ...r.missed, r.mean_rank, -r.columns["feasible rounds"], r.columns["violating rounds"], r.columns["peak violation"], r.microseconds, D.learners[r.name].total, -r.streams],
    bar: { at: 2, label: `${percent(r.hit[0])} % hit`, parts: [["hit", r.hit[0]], ["regret", r.missed[0]], ["violation", r.missed[1]], ["both", r.missed[2]]] },
    tip: [D.learners[r.name].title, D.learners[r.name].reference, `family: ${familyOf(r.name).title}`, D.learners[r.name].calls ? `calls per round: ${D.learners[r.name].calls}` : "", r.same === null ? "" : `paired test against the first: p = ${plain(r.same, 2)}`].filter(Boolean).join("\n"),
  }));
}
function drawLeaders() {
  const seen = view(), votes = new Set(seen.streams.map(([n]) => streamOf(n).family)).size;
  table("leaders", HEADS, leaderRows());
  at("votes").textContent = `${many(seen.streams.length, "stream")} in ${votes} famil${votes === 1 ? "y" : "ies"}, one vote per family. Two learners share a rank unless one is better in 97.5 % of the samples of a bootstrap over streams and seeds; in brackets is the 95 % interval of the place.`;
  at("tests").textContent = seen.friedman === null || Object.keys(seen.better).length < 3 ? "" : `The hypothesis that all learners are alike has p = ${plain(seen.friedman, 2)} (Friedman). Mean ranks differ if they are more than ${plain(seen.difference, 3)} apart (Nemenyi).`;
}
function drawLines(stream, best) {
  const wanted = [...new Set(["regret", stream.regret, "violation", "squared violation", "peak violation", "excess", "violating rounds"])];
  const heads = ["hit %", "learner", ...wanted.map(q => ({ violation: "clipped", "squared violation": "squared", "peak violation": "peak", excess: "signed" })[q] || q), "growth of regret", "growth of violation", "µs per round"];
  table("lines", heads, boardOf(stream.name).map(({ name, cell, seen }) => {
    const grown = ["regret", "violation"].map(q => cell.exponents[q] && cell.exponents[q][0] !== null ? cell.exponents[q] : null);
    return {
      name, kind: (best.has(name) ? "front " : "") + (state.chosen.has(name) ? "on" : ""),
      cells: [percent(seen.hit), name, ...wanted.map(q => seen.values[q] ? shown(seen.values[q]) : ""), ...grown.map(g => g ? shown(g) : ""), plain(cell.microseconds, 3)],
      keys: [seen.hit, name, ...wanted.map(q => seen.values[q] ? seen.values[q][0] : null), ...grown.map(g => g ? g[0] : null), cell.microseconds],
      tip: describe(name, cell, seen),
    };
  }));
}
function legend() {
  at("legend").textContent = "";
  for (const name of state.chosen) {
    const item = make(at("legend"), "span"), picture = svg(item, "svg", { viewBox: "0 0 26 8", class: "key", "aria-hidden": "true" });
    svg(picture, "line", { x1: 0, y1: 4, x2: 26, y2: 4, stroke: colourOf(name), "stroke-width": 2.5, "stroke-dasharray": dashOf(name) });
    item.append(name);
  }
}
function csvText() {
  const quoted = text => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const heads = HEADS.map((h, i) => i === 2 ? "family" : h);
  const rows = [...leaderRows()].map(r => r.cells.map((c, i) => i === 2 ? familyOf(r.name).title : c));
  return [heads, ...rows].map(row => row.map(quoted).join(",")).join("\n") + "\n";
}
function download() {
  const content = URL.createObjectURL(new Blob([csvText()], { type: "text/csv" }));
  const link = make(document.body, "a", { href: content, download: `arena-${state.board.replaceAll(/[^a-z]+/gi, "-")}.csv` });
  link.click();
  link.remove();
}
function draw() {
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : undefined;
  hide();
  drawLeaders();
  ranks();
  profile();
  targets();
  legend();
  cost();
  overview();
  rowsOf("ways", ["choice", "leader", `place of ${group().ways.length ? group().ways[0][1] : "the leader"}`], group().ways);
  const stream = streamOf(state.stream), facts = Object.entries(stream.known).map(([k, v]) => `${k}: ${v}`).join("; ");
  const length = (boardOf(stream.name)[0] || { seen: { T: stream.T } }).seen.T;
  at("about").textContent = `${stream.title[0].toUpperCase()}${stream.title.slice(1)}. ${length.toLocaleString("en")} rounds. Scored: regret against ${stream.comparator}` +
    `${stream.fixed ? ` (shown as well: against ${stream.fixed})` : ""}, and the ${stream.violation === "excess" ? "signed" : "clipped"} violation. ` +
    `${stream.beaten ? "Every learner beats this comparator, so that only the violation separates them. " : ""}${facts ? facts + ". " : ""}Licence: ${stream.licence}. Version ${stream.stream_version} of the stream${stream.frozen ? `, as in ${D.suite}` : `, which is not in ${D.suite}`}.`;
  at("about").append(" Source: ");
  make(at("about"), "a", { href: `#provenance-${stream.name}`, "data-key": "source" }, stream.source).onclick = e => { e.preventDefault(); at(`provenance-${stream.name}`).scrollIntoView({ block: "center" }); };
  const best = pareto(stream);
  curves(stream);
  drawLines(stream, best);
  remember();
  const again = focused && document.querySelector(`[data-key="${CSS.escape(focused)}"]`);
  if (again && again !== document.activeElement) again.focus({ preventScroll: true });
}

// The page.
function options(id, values) {
  at(id).textContent = "";
  for (const [value, text] of values) make(at(id), "option", { value }, text);
}
const lengths = [...new Set(D.groups.flatMap(g => Object.keys(g.views).map(Number).filter(Boolean)))].sort((a, b) => a - b);
options("board", D.groups.map(g => [g.title, g.title]));
options("rounds", [["longest", "the most of each stream"], ...lengths.map(T => [String(T), T.toLocaleString("en")])]);
options("stream", D.streams.map(s => [s.name, `${s.name} (${s.setting})`]));
for (const id of CHOICES) at(id).onchange = () => { state[id] = at(id).value; draw(); };
at("download").onclick = download;
addEventListener("hashchange", () => { recall(); draw(); });
for (const [value, text] of [[D.streams.length, "streams"], [Object.keys(D.learners).length, "learners"], [D.seeds, "seeds"], [D.cells, "cells"], [D.bounds, "bounds checked"], [D.broken.length, "bounds exceeded"]]) {
  const li = make(at("facts"), "li", text === "bounds exceeded" && value ? { class: "bad" } : {});
  make(li, "b", {}, value.toLocaleString("en"));
  li.append(text);
}
for (const f of D.families.filter(f => Object.values(D.learners).some(l => l.family === f.name))) {
  const item = make(at("colours"), "span");
  make(item, "i").style.background = f.colour;
  item.append(f.title);
}
const played = D.run.date ? ` Played on ${D.run.date} (${D.run.machine}, Python ${D.run.python}, JAX ${D.run.jax}).` : "";
at("summary").textContent = `Suite "${D.suite}", taut ${D.version}.${played} ` + (D.broken.length ? `BOUNDS EXCEEDED: ${D.broken.join("; ")}` : "No bound was exceeded.") +
  ` The targets are ${D.targets[0]} values of r and of v from ${D.targets[1]} to ${D.targets[2]}. "Best of the grid" multiplies one number that a learner is told by ${D.factors.map(number).join(", ")} and keeps the best result afterwards. Nobody can do that in advance, so these results are ranked separately.`;
// Addresses are those of papers and of the documentation; a cell without one stays text.
function linked(cell, address, name) {
  if (!address) return;
  const text = cell.textContent;
  cell.textContent = "";
  make(cell, "a", { href: address, "aria-label": name }, text);
}
rowsOf("provenance", ["stream", "family", "what is decided", "rounds", "size", "scored against", "source", "licence", "version"], D.streams.map(s => [s.name, s.family, s.title, s.T.toLocaleString("en"), s.size, s.comparator, s.source, s.licence, String(s.stream_version)]));
D.streams.forEach((s, i) => {
  const row = at("provenance").tBodies[0].rows[i];
  row.id = `provenance-${s.name}`;
  linked(row.cells[6], s.link, `Source of ${s.name}: ${s.source}`);
});
rowsOf("methods", ["method", "family", "reference", "bounds", "calls per round", "work per round besides the loss gradient"], Object.entries(D.learners).map(([n, l]) => [n, familyOf(n).title, l.reference, l.bounds, l.calls, l.cost]));
Object.entries(D.learners).forEach(([name, l], i) => {
  const row = at("methods").tBodies[0].rows[i];
  row.id = `method-${name}`;
  linked(row.cells[0], l.page, `Documentation of ${name}`);
  linked(row.cells[2], l.paper, `Paper of ${name}: ${l.reference}`);
});
for (const [stream, learner, reason] of D.left_out) make(at("left"), "li", {}, `${stream}${learner ? ", " + learner : ""}: ${reason}`);
recall();
draw();

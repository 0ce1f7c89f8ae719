'use strict';
// The graph: nodes on rings by their roles, which a node keeps while others come and go.
const graph = (() => {
  const NS = 'http://www.w3.org/2000/svg';
  const at = new Map(), seen = { nodes: new Map(), links: new Map() };
  const svg = document.getElementById('graph');
  const layers = ['links', 'paths', 'nodes'].map(() => svg.appendChild(document.createElementNS(NS, 'g')));
  const ring = { client: 0, onion: 0, guard: 1, relay: 1, bridge: 1, middle: 2, exit: 2, last: 3, authority: 3 };
  const radius = [[60, 40], [220, 160], [340, 250], [455, 320]];

  function place(nodes) {
    const rings = [[], [], [], []];
    for (const n of nodes) rings[ring[n.role] ?? 2].push(n);
    at.clear();
    rings.forEach((all, i) => all.forEach((n, j) => {
      if (i === 0 && all.length === 1) return at.set(n.name, [500, 360]);
      const a = 2 * Math.PI * (j / all.length) + i * 0.35 - Math.PI / 2;
      return at.set(n.name, [500 + radius[i][0] * Math.cos(a), 360 + radius[i][1] * Math.sin(a)]);
    }));
  }

  function set(e, attributes) {
    for (const [k, v] of Object.entries(attributes)) if (e.getAttribute(k) !== String(v)) e.setAttribute(k, v);
  }

  // keep makes an element for each key, and removes those of keys that are gone.
  function keep(old, keys, layer, make) {
    for (const [k, e] of old) if (!keys.has(k)) { e.remove(); old.delete(k); }
    for (const k of keys) if (!old.has(k)) old.set(k, layer.appendChild(make()));
  }

  function draw(state, rates, chosen, choose) {
    place(state.nodes);
    const links = new Map(state.links.filter(l => at.has(l.a) && at.has(l.b)).map(l => [l.a + '\n' + l.b, l]));
    keep(seen.links, new Set(links.keys()), layers[0], () => document.createElementNS(NS, 'line'));
    for (const [k, l] of links) {
      const [x1, y1] = at.get(l.a), [x2, y2] = at.get(l.b);
      const rate = rates.get(k) ?? 0;
      const width = 1 + Math.min(7, Math.log10(1 + rate / 100) * 1.6);
      const mine = chosen.node === l.a || chosen.node === l.b;
      set(seen.links.get(k), { x1, y1, x2, y2, 'stroke-width': width.toFixed(1), class: 'link' + (rate > 0 ? ' busy' : '') + (mine ? ' chosen' : '') });
    }
    const few = state.nodes.length <= 40;
    keep(seen.nodes, new Set(state.nodes.map(n => n.name)), layers[2], () => {
      const g = document.createElementNS(NS, 'g');
      for (const t of ['title', 'circle', 'text']) g.appendChild(document.createElementNS(NS, t));
      return g;
    });
    for (const n of state.nodes) {
      const g = seen.nodes.get(n.name), [title, circle, text] = g.children, [cx, cy] = at.get(n.name);
      set(g, { class: `node ${n.role} is-${n.state}` + (chosen.node === n.name ? ' chosen' : '') });
      set(circle, { cx, cy, r: few ? 13 : 8 });
      set(text, { x: cx, y: cy + 30 });
      const label = n.label || n.name, shown = few || chosen.node === n.name ? label.replace(/^chive/, '') : '';
      if (text.textContent !== shown) text.textContent = shown;
      if (title.textContent !== label) title.textContent = label;
      g.onclick = () => choose(n.name);
    }
    const c = state.circuits.find(x => x.client + ' ' + x.id === chosen.circuit);
    const points = c ? [c.client, ...c.hops.map(h => h.node)].map(n => at.get(n)).filter(Boolean).map(p => p.join(',')).join(' ') : '';
    let path = layers[1].firstChild ?? layers[1].appendChild(document.createElementNS(NS, 'polyline'));
    set(path, { class: 'path', points });
  }

  // history draws bytes a second of the past minutes.
  function history(rows) {
    const h = document.getElementById('history');
    while (h.children.length < 2) h.appendChild(document.createElementNS(NS, 'polyline'));
    const top = Math.max(1, ...rows.map(r => Math.max(r[0], r[1])));
    ['in', 'out'].forEach((name, i) => set(h.children[i], {
      class: name, 'vector-effect': 'non-scaling-stroke',
      points: rows.map((r, x) => `${(600 * x / Math.max(1, rows.length - 1)).toFixed(1)},${(115 - 110 * r[i] / top).toFixed(1)}`).join(' '),
    }));
    return top;
  }
  return { draw, history };
})();

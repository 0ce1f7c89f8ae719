'use strict';
// What the page shows comes from the program, as it is; the page computes differences a second, and
// nothing else. All text goes into text nodes.
(() => {
  const { byId, say, count, put, rows, row, post } = acts;
  const cell = 514, remembered = 600, shownEvents = 60;
  const chosen = { node: '', circuit: '' };
  const past = [];
  let last = null, before = null, held = false, source = null;

  // A counter that is smaller than before has begun again.
  function perSecond(now, then, seconds) { return then === undefined || seconds <= 0 || now < then ? 0 : (now - then) / seconds; }

  function button(text, act, name) {
    const b = document.createElement('button');
    b.type = 'button';
    b.textContent = text;
    if (name) b.className = name;
    b.addEventListener('click', act);
    return b;
  }

  function choose(name) { chosen.node = chosen.node === name ? '' : name; chosen.circuit = ''; draw(); }

  async function end(name, b) {
    if (!confirm(`End ${name}? It does not come back.`)) return;
    b.closest('tr').cells[0].firstChild.focus(); // the button goes
    b.disabled = true;
    say(`${name} is ending`);
    try { await post('end', { node: name }); } catch (e) { say(`${name}: ${e.message}`); }
  }

  const labels = new Map();
  const labelOf = name => labels.get(name) ?? name;

  function hopText(h) {
    if (!h.handshake) return 'what protects it is not told';
    const pq = h.pq ? `${h.pq} by ${h.carriage}` : 'no post-quantum';
    return `${h.handshake}, ${pq}, ${h.layer || 'unknown layer'}`;
  }

  function drawNodes(s, seconds) {
    const olds = new Map((before?.nodes ?? []).map(n => [n.name, n.figures]));
    let ins = 0, outs = 0;
    rows('nodes', s.nodes.map(n => n.name), name => {
      const r = row(13, 3, true);
      r.cells[0].append(button(labelOf(name), () => choose(name), 'name'));
      r.cells[12].className = '';
      return r;
    }, (r, i) => {
      const n = s.nodes[i], f = n.figures, o = olds.get(n.name);
      put(r.cells[0].firstChild, n.label || n.name);
      r.cells[0].firstChild.setAttribute('aria-pressed', String(chosen.node === n.name));
      put(r.cells[1], n.role + (n.program && n.program !== 'chive' ? ` (${n.program})` : '') + (n.country ? ` {${n.country}}` : ''));
      put(r.cells[2], n.state + (n.note ? `: ${n.note}` : ''));
      r.cells[2].className = n.state;
      const known = k => f && !f.lacks?.includes(k);
      const rates = ['cells_in', 'cells_out', 'bytes_in', 'bytes_out'].map(k => known(k) ? perSecond(f[k], o?.[k], seconds) : null);
      const rest = ['cells_in', 'cells_out', 'queued', 'circuits', 'links'].map(k => known(k) ? f[k] : null);
      [...rates, ...rest].forEach((v, j) => put(r.cells[3 + j], v === null ? '–' : count(v)));
      if (n.can_end && !r.cells[12].firstChild) {
        const b = button('End', () => end(n.name, b), 'end');
        b.setAttribute('aria-label', `End ${n.name}`);
        r.cells[12].append(b);
      }
      if (!n.can_end && r.cells[12].firstChild) {
        if (r.cells[12].contains(document.activeElement)) r.cells[0].firstChild.focus();
        r.cells[12].replaceChildren();
      }
      if (f && (s.kind === 'network' || n.role === 'client')) { ins += rates[2]; outs += rates[3]; }
      const was = before?.nodes.find(x => x.name === n.name);
      if (was && was.state !== n.state) say(`${n.label || n.name}: ${n.state}`);
    });
    return [ins, outs];
  }

  function drawCircuits(s, seconds) {
    const key = c => c.client + ' ' + c.id;
    const olds = new Map((before?.circuits ?? []).map(c => [key(c), c]));
    rows('circuits', s.circuits.map(key), k => {
      const r = row(4, 2, true);
      r.cells[0].append(button(k, () => { chosen.circuit = chosen.circuit === k ? '' : k; chosen.node = ''; draw(); }, 'name'));
      return r;
    }, (r, i) => {
      const c = s.circuits[i], o = olds.get(key(c));
      r.cells[0].firstChild.setAttribute('aria-pressed', String(chosen.circuit === key(c)));
      const text = c.hops.map(h => `${h.label || h.node}${hopText(h)}`).join();
      if (r.cells[1].dataset.text !== text) {
        r.cells[1].dataset.text = text;
        r.cells[1].replaceChildren(...c.hops.flatMap((h, j) => {
          const e = document.createElement('span'), small = document.createElement('small');
          e.className = 'hop';
          small.textContent = ` (${hopText(h)})`;
          e.append(`${j ? '→ ' : ''}${s.kind === 'network' ? h.node : h.label || h.node}${h.country ? ` {${h.country}}` : ''}`, small);
          return [e, ' '];
        }));
      }
      put(r.cells[2], count(c.streams));
      put(r.cells[3], count(perSecond(c.read + c.written, o ? o.read + o.written : undefined, seconds)));
    });
  }

  function drawLinks(s, seconds) {
    const key = l => l.a + '\n' + l.b, rates = new Map();
    const olds = new Map((before?.links ?? []).map(l => [key(l), l]));
    const all = s.links.filter(l => l.measured);
    byId('links-section').hidden = all.length === 0;
    for (const l of all) {
      const o = olds.get(key(l));
      rates.set(key(l), perSecond(l.bytes_in, o?.bytes_in, seconds) + perSecond(l.bytes_out, o?.bytes_out, seconds));
    }
    rows('links', all.map(key), () => row(7, 2, true), (r, i) => {
      const l = all[i], o = olds.get(key(l));
      put(r.cells[0], labelOf(l.a));
      put(r.cells[1], labelOf(l.b));
      const out = perSecond(l.bytes_out, o?.bytes_out, seconds), back = perSecond(l.bytes_in, o?.bytes_in, seconds);
      [out / cell, back / cell, out, back, l.queued].forEach((v, j) => put(r.cells[2 + j], count(v)));
    });
    return rates;
  }

  function drawCountries(s) {
    const by = new Map();
    const at = c => { if (!by.has(c)) by.set(c, [0, 0]); return by.get(c); };
    if (s.kind === 'client') {
      for (const n of s.nodes) if (n.role === 'guard' && n.country) at(n.country)[0]++;
      for (const c of s.circuits) for (const h of c.hops) if (h.country) at(h.country)[1]++;
    }
    byId('countries-section').hidden = by.size === 0;
    const names = [...by.keys()].sort();
    rows('countries', names, () => row(3, 1, true), (r, i) => {
      [names[i] === '??' ? 'unknown' : names[i], ...by.get(names[i])].forEach((v, j) => put(r.cells[j], v));
    });
  }

  function drawFacts(s) {
    const facts = s.facts ?? [];
    byId('facts-section').hidden = facts.length === 0;
    const dl = byId('facts'), text = JSON.stringify(facts);
    if (dl.dataset.text === text) return;
    dl.dataset.text = text;
    dl.replaceChildren(...facts.flatMap(f => {
      const t = document.createElement('dt'), d = document.createElement('dd');
      t.textContent = f.name;
      d.textContent = f.value;
      return [t, d];
    }));
  }

  function draw(fresh) {
    const s = last;
    if (!s) return;
    const seconds = before ? (Date.parse(s.time) - Date.parse(before.time)) / 1000 : 0;
    labels.clear();
    for (const n of s.nodes) labels.set(n.name, n.label || n.name);
    put(byId('title'), `Chive: ${s.title}`);
    document.title = `Chive: ${s.title}`;
    const running = s.nodes.filter(n => n.state === 'running').length;
    put(byId('summary'), s.kind === 'network' ?
      `${s.nodes.length} nodes, of which ${running} run; ${s.links.length} links; ${s.circuits.length} open circuits of clients.` :
      `${s.circuits.length} open circuits over ${s.nodes.length - 1} relays.`);
    const [ins, outs] = drawNodes(s, seconds);
    const rates = drawLinks(s, seconds);
    drawCircuits(s, seconds);
    drawCountries(s);
    drawFacts(s);
    acts.draw(s, labelOf);
    graph.draw(s, rates, chosen, choose);
    if (fresh && before) {
      past.push([ins, outs]);
      if (past.length > remembered) past.shift();
      const top = graph.history(past);
      put(byId('history-text'), `Now ${count(ins)} in (solid) and ${count(outs)} out (dashed)${s.kind === 'network' ? ', of all nodes' : ''}. The most since this page was opened, in ${past.length} states: ${count(top)}.`);
    }
    document.body.dataset.states = Number(document.body.dataset.states ?? 0) + 1;
  }

  function event(e) {
    const li = document.createElement('li');
    const time = new Date(e.time).toISOString().slice(11, 23);
    li.textContent = e.kind === 'lost' ? `${time} ${e.client}: events were lost, as there were too many` :
      e.kind === 'circuit' ? `${time} ${e.client}: circuit ${e.id} ${e.state}, for ${e.purpose}, ${e.hops ?? 0} hops` + (e.took_ms ? ` in ${e.took_ms} ms` : '') :
        `${time} ${e.client}: stream ${e.id} ${e.state}` + (e.circuit ? ` on circuit ${e.circuit}` : '');
    return li;
  }

  function connect() {
    source = new EventSource('events');
    const line = byId('connection');
    source.onopen = () => { line.className = ''; put(line, 'Connected'); };
    source.onerror = () => {
      line.className = 'lost';
      put(line, source.readyState === EventSource.CLOSED ? 'Not connected: too many readers, or the program has ended. Load the page again.' : 'Not connected: the program does not answer. Trying again.');
    };
    source.addEventListener('state', m => { before = last; last = JSON.parse(m.data); draw(true); });
    source.addEventListener('events', m => {
      const { events, lost } = JSON.parse(m.data), list = byId('events');
      list.prepend(...events.slice(-shownEvents).reverse().map(event));
      if (lost) { const li = document.createElement('li'); li.textContent = `${lost} more, which are not shown`; list.prepend(li); }
      while (list.children.length > shownEvents) list.lastChild.remove();
    });
  }

  byId('pause').addEventListener('click', () => {
    held = !held;
    byId('pause').setAttribute('aria-pressed', String(held));
    if (held) { source.close(); put(byId('connection'), 'Held: nothing is asked'); } else { before = last = null; connect(); }
  });
  connect();
})();

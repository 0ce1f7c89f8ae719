'use strict';
// What a reader can do besides looking: follow a cell, and make a link worse. Also what both parts of the page need.
const acts = (() => {
  const byId = id => document.getElementById(id);
  const number = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
  const count = n => number.format(n);
  const say = text => { byId('live').textContent = text; };
  const put = (e, text) => { text = String(text); if (e.textContent !== text) e.textContent = text; };

  // rows keeps a table's rows by key, so that a reader's place and the focus stay.
  function rows(table, keys, make, fill) {
    const body = byId(table).tBodies[0], old = new Map([...body.rows].map(r => [r.dataset.key, r]));
    keys.forEach((key, i) => {
      let r = old.get(key);
      old.delete(key);
      if (!r) { r = make(key); r.dataset.key = key; }
      if (body.rows[i] !== r) body.insertBefore(r, body.rows[i] ?? null);
      fill(r, i);
    });
    for (const r of old.values()) r.remove();
  }

  function row(n, numbersFrom, header) {
    const r = document.createElement('tr');
    for (let i = 0; i < n; i++) {
      const c = document.createElement(i === 0 && header ? 'th' : 'td');
      if (i === 0 && header) c.scope = 'row';
      if (i >= numbersFrom) c.className = 'n';
      r.append(c);
    }
    return r;
  }

  // post asks the program for something; an error has its words.
  async function post(what, form) {
    let answer;
    try { answer = await fetch(what, { method: 'POST', body: new URLSearchParams(form) }); } catch { throw new Error('the program did not answer'); }
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.status === 204 ? null : answer.json();
  }

  const bytes = hex => hex.replace(/../g, '$& ').trim();

  // payload shows the first bytes, and the others if somebody opens them.
  function payload(hex) {
    const d = document.createElement('details'), s = document.createElement('summary');
    const first = document.createElement('code'), all = document.createElement('code');
    first.textContent = `${bytes(hex.slice(0, 32))} …`;
    all.textContent = bytes(hex);
    s.append(first);
    d.append(s, all);
    return d;
  }

  function layers(on, of) {
    const e = document.createElement('span');
    for (let i = 0; i < of; i++) {
      const b = document.createElement('span');
      b.className = i < on ? 'layer' : 'layer off';
      b.setAttribute('aria-hidden', 'true');
      e.append(b);
    }
    e.append(` ${on}`);
    return e;
  }

  function showTrace(t) {
    const n = t.passed.length, first = Date.parse(t.passed[0].time);
    const steps = t.passed.map((p, i) => ({ node: p.node, note: ` takes off ${p.layer}`, on: n - i, hex: p.came, after: Date.parse(p.time) - first }));
    const last = t.passed[n - 1];
    steps.push({ node: last.node, note: ' has opened it', on: 0, hex: last.left, after: null });
    byId('traced').tBodies[0].replaceChildren();
    rows('traced', steps.map((_, i) => String(i)), () => row(4, 3, true), (r, i) => {
      const s = steps[i];
      r.cells[0].append(s.node, s.note);
      r.cells[1].append(layers(s.on, n));
      r.cells[2].append(payload(s.hex));
      put(r.cells[3], s.after === null ? '' : s.after.toFixed(0));
    });
    put(byId('trace-request'), `${t.command} on stream ${t.stream}, as ${last.node} read it:\n\n${t.text.trim()}`);
    for (const id of ['trace-result', 'trace-request']) byId(id).hidden = false;
    put(byId('trace-text'), `Circuit ${t.circuit} of ${t.client}: ${n} layers of encryption, of which each node took one off.`);
  }

  byId('trace').addEventListener('click', async () => {
    const b = byId('trace');
    b.setAttribute('aria-disabled', 'true'); // and not disabled, which would lose the focus
    put(byId('trace-text'), 'The request is under way.');
    try { showTrace(await post('trace', {})); } catch (e) { put(byId('trace-text'), `No cell was followed: ${e.message}`); }
    b.removeAttribute('aria-disabled');
  });

  let seen = [];
  const fields = () => byId('emulated-form').elements;

  // fillForm shows the rules that a link has.
  function fillForm() {
    const n = seen.find(n => n.name === fields().node.value);
    if (!n) return;
    fields().delay.value = n.access.delay_ms;
    fields().loss.value = n.access.loss;
    fields().rate.value = n.access.rate;
  }

  byId('emulated-node').addEventListener('change', fillForm);
  byId('emulated-form').addEventListener('submit', async e => {
    e.preventDefault();
    const form = new FormData(byId('emulated-form')), node = form.get('node'), tell = text => put(byId('emulated-text'), text);
    try {
      await post('link', form);
      tell(`The link of ${node} is changed: ${form.get('delay')} ms, ${form.get('loss')} percent lost, ${form.get('rate') === '0' ? 'no bound of its rate' : `${form.get('rate')} kbit/s`}`);
    } catch (err) { tell(`The link of ${node} is not changed: ${err.message}`); }
  });

  function draw(s, labelOf) {
    byId('trace-section').hidden = !s.can_trace;
    const m = s.emulation;
    byId('emulated-section').hidden = !m;
    if (!m) return;
    put(byId('emulated-note'), m.note);
    for (const id of ['emulated-form', 'emulated-result']) byId(id).hidden = !m.on;
    seen = s.nodes.filter(n => n.access);
    const list = byId('emulated-node'), names = seen.map(n => n.name).join('\n');
    if (list.dataset.names !== names) {
      const chosen = list.value;
      list.dataset.names = names;
      list.replaceChildren(...seen.map(n => new Option(labelOf(n.name), n.name, false, n.name === chosen)));
      fillForm();
    }
    rows('emulated', seen.map(n => n.name), () => row(6, 1, true), (r, i) => {
      const n = seen[i], a = n.access;
      [labelOf(n.name), a.delay_ms, a.loss, a.rate ? count(a.rate) : 'no bound', count(a.packets), count(a.lost)].forEach((v, j) => put(r.cells[j], v));
    });
  }
  return { byId, say, count, put, rows, row, post, draw };
})();

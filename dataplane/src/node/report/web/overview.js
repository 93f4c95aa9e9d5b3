// What the cluster, or this node, does: figures of now, the last hour, and what needs attention.

import { Chart } from './charts.js';
import { bar, bytes, count, duration, make, percent, rate, say, short, show, table, words } from './format.js';

const sum = (numbers) => numbers.reduce((all, n) => all + (n ?? 0), 0);
const total = (byName) => sum(Object.values(byName));
const last = (values) => values[values.length - 1] ?? null;

export const ratio = (part, whole) => (whole > 0 ? Math.min(1, part / whole) : NaN);

const charts = {};

export function start() {
  charts.hits = new Chart('figure-hits', {
    title: 'Pages found, by tier', unit: 'share of pages looked up, %', about: 'Share of the pages looked up, by where they were found' });
  charts.rates = new Chart('figure-rates', {
    title: 'Throughput', unit: 'bytes per second', about: 'Bytes per second: read by engines, written by engines, read by other members' });
  charts.times = new Chart('figure-times', {
    title: 'Time of a get', unit: 'one call of an engine', about: 'Time of a get: half, and 99 of 100, took at most' });
  charts.misses = new Chart('figure-misses', {
    title: 'Pages missed, by reason', unit: 'pages in ten seconds', about: 'Pages missed, by reason' });
}

// Names whose numbers are not all 0, with a colour that a name keeps.
function series(byName, kind) {
  return Object.entries(byName)
    .map(([name, values], n) => ({ name: words(name), colour: `${kind}${n % 10}`, values }))
    .filter(({ values }) => values.some((n) => n > 0));
}

function hitChart(past) {
  const shares = series(past.delivered, 'tier').map((one) => ({
    ...one, values: one.values.map((n, i) => (past.looked_up[i] > 0 ? Math.min(1, n / past.looked_up[i]) : 0)) }));
  const parts = Object.keys(past.sum?.delivered ?? {});
  for (const one of shares) {
    const key = parts.find((name) => words(name) === one.name);
    one.latest = percent(ratio(past.sum.delivered[key], past.sum.looked_up));
  }
  const whole = past.sum ? ratio(total(past.sum.delivered), past.sum.looked_up) : NaN;
  return { series: shares, format: percent, stacked: true, max: 1, latest: percent(whole), of: 'of the hour',
    summary: `Over the last hour ${percent(whole)} of the pages looked up were found. The table below has the numbers.` };
}

function rateChart(past) {
  const lines = [['read', 'read_bytes_per_second', 'tier0'], ['written', 'written_bytes_per_second', 'tier4'],
    ['served to others', 'served_bytes_per_second', 'tier3']];
  const all = lines.map(([name, key, colour]) => ({ name, colour, values: past[key], latest: rate(last(past[key])) }));
  return { series: all, format: rate, latest: all[0].latest, of: 'read now',
    summary: `Throughput over the last hour; lately ${all.map((one) => `${one.name} ${one.latest}`).join(', ')}.` };
}

function timeChart(past) {
  const lines = [['p50', 'get_p50_seconds', 'tier0'], ['p99', 'get_p99_seconds', 'tier4']];
  const all = lines.map(([name, key, colour]) => ({ name, colour, values: past[key], latest: duration(past.sum?.[key] ?? null) }));
  return { series: all, format: duration, latest: all[1].latest, of: 'p99 of the hour',
    summary: `Time of a get over the last hour: ${all.map((one) => `${one.name} ${one.latest}`).join(', ')}.` };
}

function missChart(past) {
  const all = series(past.missed, 'why').map((one) => ({ ...one, latest: short(sum(one.values)) }));
  const missed = past.sum ? total(past.sum.missed) : NaN;
  return { series: all, format: short, stacked: true, sums: true, latest: short(missed), of: 'in the hour',
    summary: `Pages missed over the last hour: ${short(missed)}. The table below has the reasons.` };
}

function bars(id, caption, heads, byName, kind, whole) {
  const rows = Object.entries(byName).map(([name, pages], n) => [name, pages, n]).filter(([, pages]) => pages > 0)
    .sort((a, b) => b[1] - a[1])
    .map(([name, pages, n]) => [words(name), bar(pages / whole, `${kind}${n % 10}`), short(pages), percent(pages / whole)]);
  const caption_ = rows.length > 0 ? caption : `${caption}: none`;
  show(id, table(caption_, heads, rows, { class: 'bars' }));
}

export function showHour(history, scope) {
  const past = history[scope] ?? history.node;
  const at = past.at;
  const about = { at, now: history.now };
  charts.hits.update({ ...about, ...hitChart(past) });
  charts.rates.update({ ...about, ...rateChart(past) });
  charts.times.update({ ...about, ...timeChart(past) });
  charts.misses.update({ ...about, ...missChart(past) });
  const minutes = Math.round((at.length * history.step_seconds) / 60);
  say('hour-span', minutes >= 59 ? '' : `showing ${minutes} of 60 minutes, since ${scope === 'fleet' ? 'this node hosts discovery' : 'the node started'}`);
  if (!past.sum) return;
  bars('tiers', 'Where pages were found, last hour', ['tier', '', 'pages', 'of those looked up'], past.sum.delivered, 'tier',
    Math.max(past.sum.looked_up, 1));
  bars('reasons', 'Why pages were missed, last hour', ['reason', '', 'pages', 'of those missed'], past.sum.missed, 'why',
    Math.max(total(past.sum.missed), 1));
}

function tile(name, value, note) {
  return make('div', { class: 'tile' }, make('dt', {}, name), make('dd', { class: 'value' }, value), make('dd', { class: 'aside' }, note));
}

function tilesOf(flow, pool) {
  if (!flow) return [tile('Starting', '…', 'the first seconds')];
  return [
    tile('Hit ratio', percent(ratio(total(flow.delivered), flow.looked_up)), `${short(flow.looked_up / flow.seconds)} pages/s looked up`),
    tile('Read', rate(flow.read_bytes_per_second), `${rate(flow.served_bytes_per_second)} served to other members`),
    tile('Written', rate(flow.written_bytes_per_second), `${short(flow.evicted_per_second)} pages/s evicted`),
    tile('Get, p99', duration(flow.get_p99_seconds), `p50 ${duration(flow.get_p50_seconds)}`),
    tile('Set, p99', duration(flow.set_p99_seconds), `p50 ${duration(flow.set_p50_seconds)}`),
    tile('Memory', percent(ratio(pool.used_bytes, pool.capacity_bytes)), `${bytes(pool.used_bytes)} of ${bytes(pool.capacity_bytes)}`),
  ];
}

export function showNow(status, scope) {
  const { fleet } = status;
  if (scope === 'node' || !fleet) {
    show('tiles', ...tilesOf(status.activity, status.pool),
      tile('Engines', count(status.engines.length), status.node.ready ? 'attached to this node' : status.node.reason));
    return;
  }
  show('tiles', ...tilesOf(fleet.activity, fleet.pool), tile('Members', `${fleet.states.active} of ${fleet.members}`,
    `active; ${count(fleet.engines)} engines; ${fleet.rails.total > 0 ? `${fleet.rails.up} of ${fleet.rails.total} rails up` : 'no RDMA rails'}`));
}

// More than a few of the pages from other members came over TCP.
const fellBack = (flow) => flow && flow.delivered.tcp > 0.05 * (flow.delivered.tcp + flow.delivered.rdma);

const MOST_NAMED = 4;

function name(grade, ids, what) {
  if (ids.length === 0) return;
  const more = ids.length > MOST_NAMED ? ` and ${ids.length - MOST_NAMED} more` : '';
  grade(`${ids.length === 1 ? 'One member' : `${ids.length} members`} ${what}: ${ids.slice(0, MOST_NAMED).join(', ')}${more}`);
}

// What needs attention: [grade, text].
export function troubles(status) {
  const found = [];
  const bad = (text) => found.push(['bad', text]);
  const warn = (text) => found.push(['warn', text]);
  if (!status.node.ready) bad(`This node is not ready: ${status.node.reason}`);
  const those = (test) => status.members.filter(test).map(({ id }) => id);
  name(bad, those((m) => !m.reachable), 'in no ring, because hardly any member reaches it');
  name(warn, those((m) => m.reachable && m.breaker === 'open'), 'whose breaker is open at this node');
  for (const state of ['joining', 'draining']) name(warn, those((m) => m.state === state), state);
  for (const rail of status.transport.rails) {
    if (!rail.up) warn(`Rail ${rail.name} of this node is down: ${rail.why}`);
  }
  name(warn, those((m) => m.id !== status.node.id && m.health?.rails_up < m.health?.rails), 'with a rail that is down');
  name(bad, those((m) => m.health?.rails > 0 && fellBack(m.health.activity)), 'with rails that reads over TCP');
  name(warn, those((m) => ['threads_elsewhere', 'memory_elsewhere'].includes(m.health?.numa)), 'with threads or memory far from the rails');
  if (status.fleet?.warming) warn('This discovery host has just started: members may be missing');
  if (status.unserved_tenants > 0) warn(`${count(status.unserved_tenants)} folders of tenants-dir have no socket: their engines cannot attach`);
  if (status.tls.enabled && status.tls.certificate_expires_in_seconds < 3 * 86400) bad(`The certificate expires ${status.tls.certificate_expires}`);
  return found;
}

const MOST_TROUBLES = 12;

export function showTroubles(status) {
  const found = troubles(status);
  document.getElementById('attention').hidden = found.length === 0;
  const items = found.slice(0, MOST_TROUBLES).map(([grade, text]) => make('li', { class: grade }, text));
  if (found.length > MOST_TROUBLES) items.push(make('li', {}, `and ${found.length - MOST_TROUBLES} more`));
  show('attention-list', ...items);
  return found.length;
}

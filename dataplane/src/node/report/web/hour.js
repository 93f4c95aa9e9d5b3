// The last hour: what was found and where (parts 2 and 4), times (part 5) and throughput (part 7).

import { Chart } from './charts.js';
import { bar, duration, percent, rate, ratio, say, short, show, sum, table, total, words } from './format.js';
import { pastOf } from './worth.js';

const last = (values) => values[values.length - 1] ?? null;

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
    .map(([key, values], n) => ({ key, name: words(key), colour: `${kind}${n % 10}`, values }))
    .filter(({ values }) => values.some((n) => n > 0));
}

function hitChart(past) {
  const shares = series(past.delivered, 'tier').map((one) => ({
    ...one, values: one.values.map((n, i) => (past.looked_up[i] > 0 ? Math.min(1, n / past.looked_up[i]) : 0)),
    latest: percent(ratio(past.sum?.delivered[one.key], past.sum?.looked_up)) }));
  const whole = past.sum ? ratio(total(past.sum.delivered), past.sum.looked_up) : NaN;
  return { series: shares, format: percent, stacked: true, max: 1, latest: percent(whole), of: 'of the hour',
    summary: `Over the last hour ${percent(whole)} of the pages looked up were found. The table below has the numbers.` };
}

function rateChart(past) {
  const lines = [['read', 'read_bytes_per_second', 'tier0'], ['written', 'written_bytes_per_second', 'tier4'],
    ['served to others', 'served_bytes_per_second', 'tier3']];
  const all = lines.map(([name, key, colour], n) => ({ name, colour, dash: n, values: past[key], latest: rate(last(past[key])) }));
  return { series: all, format: rate, latest: all[0].latest, of: 'read now',
    summary: `Throughput over the last hour; lately ${all.map((one) => `${one.name} ${one.latest}`).join(', ')}.` };
}

function timeChart(past) {
  const lines = [['p50', 'get_p50_seconds', 'tier0'], ['p99', 'get_p99_seconds', 'tier4']];
  const all = lines.map(([name, key, colour], n) => ({ name, colour, dash: n, values: past[key], latest: duration(past.sum?.[key] ?? null) }));
  return { series: all, format: duration, decades: true, latest: all[1].latest, of: 'p99 of the hour',
    summary: `Time of a get over the last hour, on a logarithmic scale: ${all.map((one) => `${one.name} ${one.latest}`).join(', ')}.` };
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
  show(id, table(rows.length > 0 ? caption : `${caption}: none`, heads, rows, { class: 'bars' }));
}

// What is lost on the way from the question to the bytes. Absent pages were never stored, or are
// evicted; what is found and does not arrive has another reason, or no engine got it.
function showFunnel({ looked_up: asked, delivered, missed }) {
  const got = total(delivered);
  const found = Math.max(got, asked - missed.not_found - missed.absent);
  const step = (name, pages) => [name, bar(ratio(pages, asked)), short(pages), percent(ratio(pages, asked))];
  show('funnel', table('From the question to the bytes', ['step', '', 'pages', 'of looked up'],
    [step('looked up', asked), step('found', found), step('delivered', got)], { class: 'bars' }));
}

export function showHour(history, scope) {
  const past = pastOf(history, scope);
  const about = { at: past.at, now: history.now };
  charts.hits.update({ ...about, ...hitChart(past) });
  charts.rates.update({ ...about, ...rateChart(past) });
  charts.times.update({ ...about, ...timeChart(past) });
  charts.misses.update({ ...about, ...missChart(past) });
  const minutes = Math.round((past.at.length * history.step_seconds) / 60);
  say('hour-span', minutes >= 59 ? 'the last hour' : `showing ${minutes} of 60 minutes, since ${scope === 'fleet' ? 'this member hosts discovery' : 'the member started'}`);
  if (!past.sum) return;
  showFunnel(past.sum);
  bars('tiers', 'Where they were found', ['tier', '', 'pages', 'of looked up'], past.sum.delivered, 'tier', Math.max(past.sum.looked_up, 1));
  bars('reasons', 'Why pages were missed', ['reason', '', 'pages', 'of missed'], past.sum.missed, 'why', Math.max(total(past.sum.missed), 1));
}

// Machines with their members and rails, reads between members, memory, engines, events.

import { ago, bar, bytes, count, lasted, make, percent, rate, say, show, table, words } from './format.js';
import { ratio } from './overview.js';

const MOST_CARDS = 60;
const MOST_IN_MATRIX = 12;

const inTrouble = (m) => m.state !== 'active' || !m.reachable || m.breaker === 'open' || (m.health?.rails_up < m.health?.rails);
const traffic = ({ health }) => (health?.activity?.read_bytes_per_second ?? 0) + (health?.activity?.served_bytes_per_second ?? 0);

// Of many, those with trouble and the busiest; always in the order of their names, so that nothing moves.
function chosen(members) {
  const ranked = [...members].sort((a, b) => inTrouble(b) - inTrouble(a) || traffic(b) - traffic(a)).slice(0, MOST_CARDS);
  return members.filter((m) => ranked.includes(m));
}

// Members of one machine, by the name before the last dot where they share it.
function machinesOf(members) {
  const groups = new Map();
  for (const m of members) {
    const machine = m.health?.activity?.machine ?? null;
    const key = machine ?? '';
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(m);
  }
  return [...groups].map(([machine, list]) => {
    const names = new Set(list.map(({ id }) => (id.includes('.') ? id.slice(0, id.lastIndexOf('.')) : '')));
    const name = names.size === 1 && !names.has('') ? [...names][0] : `machine ${machine}`;
    return { name: machine === '' ? null : name, members: list };
  });
}

function railRows(rails) {
  const most = Math.max(...rails.map((r) => r.read_bytes_per_second), 1);
  return table('Rails: reads', ['rail', '', 'read'], rails.map((r) =>
    [r.name, bar(r.read_bytes_per_second / most, r.up ? 'accent' : 'bad'), r.up ? rate(r.read_bytes_per_second) : make('span', { class: 'bad' }, 'down')]), { class: 'bars rails' });
}

function pill(m) {
  const [grade, text] = !m.reachable ? ['bad', 'unreachable'] : m.breaker === 'open' ? ['warn', 'no answer'] :
    m.state === 'active' ? ['ok', 'active'] : ['warn', m.state];
  return make('span', { class: `pill ${grade}` }, text);
}

function fact(name, value) {
  return make('div', {}, make('dt', {}, name), make('dd', {}, value));
}

function card(m, self) {
  const { health } = m;
  const flow = health?.activity;
  const used = health ? ratio(health.pool_used_bytes, m.capacity_bytes) : NaN;
  const parts = [make('h4', {}, m.id, m.id === self ? make('small', {}, ' this node') : null), pill(m)];
  const facts = make('dl', { class: 'facts' },
    fact('pool', health ? `${percent(used)} of ${bytes(m.capacity_bytes)}` : bytes(m.capacity_bytes)),
    flow ? [fact('reads', rate(flow.read_bytes_per_second)), fact('serves others', rate(flow.served_bytes_per_second))] : [],
    health ? [
      fact('hits, last minute', percent(ratio(health.recent_delivered, health.recent_looked_up))),
      fact('engines', count(health.engines)),
      fact('group', health.group),
    ] : []);
  const rails = flow && flow.rails.length > 0 ? railRows(flow.rails) : null;
  const more = rails && health.rails > flow.rails.length ? make('p', { class: 'more' }, `and ${health.rails - flow.rails.length} more rails`) : null;
  return make('li', { class: 'card' }, make('div', { class: 'head' }, parts), bar(used), facts, rails, more);
}

export function showMembers(status) {
  const machines = machinesOf(chosen(status.members));
  const layout = machines.length === 1 ? 'machine alone' : 'machine';
  show('machines', ...machines.map(({ name, members }) => make('li', { class: layout },
    make('h3', {}, name ?? 'All members'),
    make('ul', { class: 'cards' }, members.map((m) => card(m, status.node.id))))));
  say('members-count', `${count(status.members.length)}${status.fleet ? '' : '; only discovery hosts show the rates of other members'}`);
  const more = document.getElementById('members-more');
  const hidden = status.members.length - MOST_CARDS;
  more.hidden = hidden <= 0;
  more.textContent = `Members with issues and the busiest ones are shown. ${hidden} more: kubectl peercache members`;
}

// The bytes per second of each pair, by reader and holder.
function pairs(status) {
  const all = status.members.flatMap((m) =>
    (m.health?.activity?.reads_from ?? []).map(({ id, bytes_per_second: speed }) => ({ reader: m.id, holder: id, speed })));
  if (all.length > 0 || status.fleet) return all;
  return (status.activity?.reads_from ?? []).map(({ id, bytes_per_second: speed }) => ({ reader: status.node.id, holder: id, speed }));
}

function busiest(all, side) {
  const sums = new Map();
  for (const pair of all) sums.set(pair[side], (sums.get(pair[side]) ?? 0) + pair.speed);
  const names = [...sums].sort((a, b) => b[1] - a[1]).slice(0, MOST_IN_MATRIX).map(([name]) => name).sort();
  return { names, of: sums.size };
}

export function showReads(status) {
  const hidden = status.asker === 'stranger';
  document.getElementById('reads-section').hidden = hidden;
  if (hidden) return;
  const all = pairs(status);
  if (all.length === 0) {
    show('reads', make('p', { class: 'none' }, 'No member reads from another one now.'));
    return;
  }
  const readers = busiest(all, 'reader');
  const holders = busiest(all, 'holder');
  const most = Math.max(...all.map(({ speed }) => speed));
  const speeds = new Map(all.map(({ reader, holder, speed }) => [JSON.stringify([reader, holder]), speed]));
  const rows = readers.names.map((reader) => [reader, ...holders.names.map((holder) => {
    const speed = speeds.get(JSON.stringify([reader, holder]));
    if (speed === undefined) return reader === holder ? '' : '·';
    const cell = make('span', { class: 'heat' }, rate(speed));
    cell.style.setProperty('--heat', (speed / most).toFixed(2));
    return cell;
  })]);
  const cut = readers.of > MOST_IN_MATRIX || holders.of > MOST_IN_MATRIX ? `; the ${MOST_IN_MATRIX} busiest of ${Math.max(readers.of, holders.of)}` : '';
  show('reads', table(`Bytes per second. Rows read what columns hold${cut}`, ['reads \\ holds', ...holders.names], rows, { class: 'matrix' }));
}

export function showMemory(status, scope) {
  const { pool } = status;
  if (scope === 'fleet' && status.fleet) {
    const { used_bytes: used, capacity_bytes: all } = status.fleet.pool;
    const groups = status.fleet.groups.map((g) => [g.name, count(g.members), g.rails > 0 ? `${g.rails_up} of ${g.rails}` : 'none']);
    say('memory-of', `of all pools: ${bytes(all)}`);
    show('memory', table('Pools of all members', ['what', '', 'bytes', 'share'],
      [['used', bar(ratio(used, all)), bytes(used), percent(ratio(used, all))], ['free', bar(ratio(all - used, all), 'quiet'), bytes(all - used), percent(ratio(all - used, all))]],
      { class: 'bars' }), table('Groups', ['group', 'members', 'rails up'], groups));
    return;
  }
  const part = (name, size, colour) => [name, bar(ratio(size, pool.capacity_bytes), colour), bytes(size), percent(ratio(size, pool.capacity_bytes))];
  say('memory-of', `of this node's pool: ${bytes(pool.capacity_bytes)}`);
  show('memory', table(`Pool of this node: ${count(pool.pages)} pages`, ['what', '', 'bytes', 'share'], [
    part('used', pool.used_bytes), part('of that, replicas', pool.replica_bytes),
    part('resting before reuse', pool.quarantined_bytes, 'quiet'), part('free', pool.free_bytes, 'quiet')], { class: 'bars' }));
}

export function showNode(status) {
  const { transport, engines } = status;
  say('transport', transport.kind === 'rdma' ? 'RDMA' : 'TCP');
  const lately = new Map((status.activity?.rails ?? []).map((r) => [r.name, r.read_bytes_per_second]));
  show('rails', transport.rails.length === 0 ? make('p', { class: 'none' }, transport.reason) :
    table(transport.reason, ['rail', 'state', 'read', 'NUMA', 'failures'], transport.rails.map((r) => [
      r.name, r.up ? 'up' : make('span', { class: 'bad' }, `down: ${r.why}`), rate(lately.get(r.name) ?? NaN),
      r.numa_node < 0 ? '–' : count(r.numa_node), count(r.queue_pair_failures)])));
  say('engines-count', count(engines.length));
  show('engines', engines.length === 0 ? make('p', { class: 'none' }, 'No engine is attached.') :
    table('Engines attached to this node', ['engine', 'tenant', 'connections', 'shared memory'], engines.map((e, n) => [
      e.name ? `${e.name} ${e.version ?? ''}`.trim() : `engine ${n + 1}`, e.tenant ?? '–', count(e.connections), bytes(e.region_bytes)])));
}

const GOOD = ['joined', 'reachable again', 'breaker closed', 'rail up'];
const BAD = ['lost', 'unreachable', 'rail down'];

export function showEvents(status) {
  document.getElementById('events-section').hidden = !status.events;
  if (!status.events) return;
  const grade = (what) => (GOOD.includes(what) ? 'ok' : BAD.includes(what) ? 'bad' : 'warn');
  show('events', status.events.length === 0 ? make('p', { class: 'none' }, `No events in ${lasted(status.node.uptime_seconds)}.`) :
    table('Events', ['source', 'event', 'when'], status.events.map((e) =>
      [e.whom, make('span', { class: `pill ${grade(e.what)}` }, words(e.what)), ago(e.seconds_ago)])));
}

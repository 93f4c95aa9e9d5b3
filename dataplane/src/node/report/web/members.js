// Part 6, second half: cards of members, by machine; the engines of this member; and part 8, events.

import { ago, bar, bytes, count, lasted, make, percent, rate, ratio, say, show, table, words } from './format.js';
import { chosenId, inTrouble, showStrip, traffic } from './strip.js';

const MOST_CARDS = 12;

// Of many, the one that was chosen, those with trouble and the busiest; always in the order of their
// names, so that nothing moves.
function shown(members) {
  const rank = (m) => (m.id === chosenId() ? 2 : Number(inTrouble(m)));
  const ranked = [...members].sort((a, b) => rank(b) - rank(a) || traffic(b) - traffic(a)).slice(0, MOST_CARDS);
  return members.filter((m) => ranked.includes(m));
}

// Members of one machine, by the name before the last dot where they share it.
function machinesOf(members) {
  const groups = new Map();
  for (const m of members) {
    const key = m.health?.activity?.machine ?? '';
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
  const parts = [make('h4', {}, m.id, m.id === self ? make('small', {}, ' this member') : null), pill(m)];
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
  return make('li', { class: m.id === chosenId() ? 'card chosen' : 'card' }, make('div', { class: 'head' }, parts), bar(used), facts, rails, more);
}

export function showMembers(status) {
  const { members, node } = status;
  showStrip(members);
  const machines = machinesOf(shown(members));
  const layout = machines.length === 1 ? 'machine alone' : 'machine';
  show('machines', ...machines.map(({ name, members: of }) => make('li', { class: layout },
    make('h3', {}, name ?? 'All members'), make('ul', { class: 'cards' }, of.map((m) => card(m, node.id))))));
  say('members-count', `${count(members.length)}${status.fleet ? '' : '; only discovery hosts show the rates of other members'}`);
  const more = document.getElementById('members-more');
  const hidden = members.length - MOST_CARDS;
  more.hidden = hidden <= 0;
  more.textContent = `Cards: the chosen member, those with trouble, and the busiest. ${count(hidden)} more are cells above, and rows of: kubectl peercache members`;
}

export function showEngines({ engines }) {
  say('engines-count', count(engines.length));
  show('engines', engines.length === 0 ? make('p', { class: 'none' }, 'No engine is attached.') :
    table('Engines attached to this member', ['engine', 'tenant', 'connections', 'shared memory', 'prefill'], engines.map((e, n) => [
      e.name ? `${e.name} ${e.version ?? ''}`.trim() : `engine ${n + 1}`, e.tenant ?? '–', count(e.connections), bytes(e.region_bytes),
      e.prefill_tokens_per_second > 0 ? `${count(e.prefill_tokens_per_second)} tokens/s` : 'not reported yet'])));
}

const GOOD = ['joined', 'reachable again', 'breaker closed', 'rail up'];
const BAD = ['lost', 'unreachable', 'rail down'];

export function showEvents({ events, node }) {
  document.getElementById('events-section').hidden = !events;
  if (!events) return;
  const grade = (what) => (GOOD.includes(what) ? 'ok' : BAD.includes(what) ? 'bad' : 'warn');
  const [newest] = events;
  say('events-last', newest ? `${events.length}; the last: ${newest.whom} ${words(newest.what)}, ${ago(newest.seconds_ago)}` : `none in ${lasted(node.uptime_seconds)}`);
  show('events', table('Events', ['source', 'event', 'when'], events.map((e) =>
    [e.whom, make('span', { class: `pill ${grade(e.what)}` }, words(e.what)), ago(e.seconds_ago)])));
}

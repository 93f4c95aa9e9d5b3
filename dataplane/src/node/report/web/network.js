// Part 7: rails and their share of line rate, what came over TCP instead, and who reads from whom.

import { bar, count, make, percent, rate, ratio, say, show, table, tile } from './format.js';
import { flowOf } from './worth.js';

const MOST_IN_MATRIX = 12;

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
    if (speed === undefined) return reader === holder ? '' : '–';
    const cell = make('span', { class: 'heat' }, rate(speed));
    cell.style.setProperty('--heat', (speed / most).toFixed(2));
    return cell;
  })]);
  const cut = readers.of > MOST_IN_MATRIX || holders.of > MOST_IN_MATRIX ? `; the ${MOST_IN_MATRIX} busiest of ${Math.max(readers.of, holders.of)}` : '';
  show('reads', table(`Bytes per second. Rows read what columns hold${cut}`, ['reads \\ holds', ...holders.names], rows, { class: 'matrix' }));
}

function tcpTile(status, flow) {
  const { tcp, rdma } = flow.delivered;
  const rails = status.fleet ? status.fleet.rails.total : status.transport.rails.length;
  const note = rails === 0 ? 'of the pages of other members: there are no rails' : tcp === 0 ? 'all went over rails' : 'of the pages of other members, although there are rails';
  return tile(rails === 0 ? 'Over TCP' : 'TCP instead of rails', percent(ratio(tcp, tcp + rdma)), note);
}

export function showNetwork(status, scope) {
  const flow = flowOf(status, scope);
  show('tiles-network', tile('Read', rate(flow?.read_bytes_per_second), 'by engines'),
    tile('Served', rate(flow?.served_bytes_per_second), 'to other members'), flow ? tcpTile(status, flow) : '');
  const { transport } = status;
  const lately = new Map((status.activity?.rails ?? []).map((r) => [r.name, r.read_bytes_per_second]));
  say('transport', transport.kind === 'rdma' ? 'RDMA' : 'TCP');
  if (transport.rails.length === 0) {
    show('rails', make('p', { class: 'none' }, transport.reason));
    return;
  }
  show('rails', table(transport.reason, ['rail', 'state', 'read', '', 'of line rate', 'NUMA', 'failures'], transport.rails.map((r) => {
    const speed = lately.get(r.name) ?? NaN;
    const share = ratio(speed, r.line_rate_bytes_per_second);
    return [r.name, r.up ? 'up' : make('span', { class: 'bad' }, `down: ${r.why}`), rate(speed), bar(share),
      r.line_rate_bytes_per_second > 0 ? `${percent(share)} of ${rate(r.line_rate_bytes_per_second)}` : 'not known',
      r.numa_node < 0 ? '–' : count(r.numa_node), count(r.queue_pair_failures)];
  }), { class: 'bars' }));
}

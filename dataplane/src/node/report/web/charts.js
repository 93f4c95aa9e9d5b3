// Charts over time: a title, the latest value, axes with units, a legend, and the same as a table.

import { clock, draw, make, table } from './format.js';

const HEIGHT = 180;
const ROOM = { top: 8, right: 12, bottom: 24, left: 60 };
const TABLE_ROWS = 12;

// About four steps of 1, 2 or 5 from 0 to at least `max`.
function ticks(max) {
  if (!(max > 0)) return [0, 1];
  const rough = max / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
  const all = [];
  for (let n = 0; n * step < max + step; n += 1) all.push(n * step);
  return all;
}

// Powers of ten around all `values` above 0; those of a scale are drawn at equal distances.
function decades(values) {
  const known = values.filter((n) => n > 0);
  if (known.length === 0) return [1e-3, 1e-2];
  const from = Math.floor(Math.log10(Math.min(...known)) + 1e-9);
  const to = Math.max(from + 1, Math.ceil(Math.log10(Math.max(...known)) - 1e-9));
  return Array.from({ length: to - from + 1 }, (_, n) => 10 ** (from + n));
}

// Each series on those below it.
function stack(series) {
  const below = [];
  return series.map(({ values }) => values.map((value, i) => {
    const from = below[i] ?? 0;
    below[i] = from + (value ?? 0);
    return [from, below[i]];
  }));
}

function line(xs, values, y) {
  let path = '';
  let drawing = false;
  values.forEach((value, i) => {
    if (value === null || value === undefined) {
      drawing = false;
      return;
    }
    path += `${drawing ? 'L' : 'M'}${xs[i].toFixed(1)} ${y(value).toFixed(1)}`;
    drawing = true;
  });
  return path;
}

function area(xs, bands, y) {
  if (xs.length === 0) return '';
  const point = (x, value) => `${x.toFixed(1)} ${y(value).toFixed(1)}`;
  const up = bands.map(([, to], i) => point(xs[i], to));
  const down = bands.map(([from], i) => point(xs[i], from)).reverse();
  return `M${up.join('L')}L${down.join('L')}Z`;
}

function axes(svg, plot, scale, format) {
  for (const value of scale) {
    const y = plot.y(value);
    svg.append(draw('line', { class: 'grid', x1: ROOM.left, x2: plot.width - ROOM.right, y1: y, y2: y }),
      draw('text', { class: 'tick', x: ROOM.left - 8, y: y + 4, 'text-anchor': 'end' }, format(value)));
  }
  const every = plot.width < 460 ? 1200 : 600;
  for (let at = Math.ceil(plot.from / every) * every; at <= plot.to; at += every) {
    const x = plot.x(at);
    if (x < ROOM.left + 12) continue;
    svg.append(draw('line', { class: 'grid', x1: x, x2: x, y1: HEIGHT - ROOM.bottom, y2: HEIGHT - ROOM.bottom + 4 }),
      draw('text', { class: 'tick', x: Math.min(x, plot.width - ROOM.right - 14), y: HEIGHT - 6, 'text-anchor': 'middle' },
        clock(at)));
  }
}

function paint(chart, width) {
  const { at, series, stacked, format } = chart;
  const bands = stacked ? stack(series) : null;
  const tops = bands ? bands.flatMap((band) => band.map(([, to]) => to)) : series.flatMap(({ values }) => values);
  const scale = chart.decades ? decades(tops) : chart.max ? ticks(chart.max).filter((n) => n <= chart.max) : ticks(Math.max(0, ...tops.map((n) => n ?? 0)));
  const top = scale[scale.length - 1];
  const plot = { width, from: chart.now - 3600, to: chart.now };
  const right = width - ROOM.right;
  plot.x = (time) => ROOM.left + ((time - plot.from) / 3600) * (right - ROOM.left);
  const share = chart.decades
    ? (value) => Math.max(0, Math.log10(value / scale[0]) / Math.log10(top / scale[0])) : (value) => value / top;
  plot.y = (value) => ROOM.top + (1 - share(value)) * (HEIGHT - ROOM.top - ROOM.bottom);
  const xs = at.map((time) => Math.max(ROOM.left, plot.x(time)));
  const svg = draw('svg', { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: 'img' });
  svg.setAttribute('aria-label', chart.summary);
  axes(svg, plot, scale, format);
  series.forEach(({ values, colour, dash }, n) => {
    const path = bands ? area(xs, bands[n], plot.y) : line(xs, values, plot.y);
    svg.append(draw('path', { class: `${bands ? 'area' : `line dash${dash ?? 0}`} ${colour}`, d: path }));
  });
  if (at.length === 0) {
    svg.append(draw('text', { class: 'tick', x: (ROOM.left + right) / 2, y: HEIGHT / 2, 'text-anchor': 'middle' },
      'no figures for the first ten seconds'));
  }
  return svg;
}

// Of the columns, rows of five minutes.
function digest(chart) {
  const size = Math.max(1, Math.ceil(chart.at.length / TABLE_ROWS));
  const rows = [];
  for (let from = 0; from < chart.at.length; from += size) {
    const to = Math.min(from + size, chart.at.length);
    const cells = chart.series.map(({ values }) => {
      const known = values.slice(from, to).filter((n) => n !== null && n !== undefined);
      if (known.length === 0) return '–';
      const all = known.reduce((sum, n) => sum + n, 0);
      return chart.format(chart.sums ? all : all / known.length);
    });
    rows.push([clock(chart.at[to - 1]), ...cells]);
  }
  return rows.reverse();
}

// A figure that keeps its parts, so that focus and an open table survive new figures.
export class Chart {
  constructor(id, { title, unit, about }) {
    this.figure = document.getElementById(id);
    this.title = make('h3', { id: `${id}-title` }, title, ' ', make('small', {}, unit));
    this.latest = make('p', { class: 'latest' });
    this.plot = make('div', { class: 'plot' });
    this.legend = make('ul', { class: 'legend' });
    this.table = make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': `${title}: table` });
    this.details = make('details', {}, make('summary', {}, 'Table', make('span', { class: 'unseen' }, ` of: ${title}`)), this.table);
    this.about = about;
    this.figure.setAttribute('aria-labelledby', `${id}-title`);
    this.figure.replaceChildren(make('div', { class: 'head' }, this.title, this.latest), this.plot, this.legend, this.details);
    this.details.addEventListener('toggle', () => this.tabulate());
    new ResizeObserver(() => this.paint()).observe(this.plot);
  }

  // { at, now, series: [{ name, colour, dash, values, latest }], format, stacked, decades, max, sums,
  //   latest, of, summary }
  update(chart) {
    this.chart = chart;
    this.latest.replaceChildren(chart.latest, ' ', make('small', {}, chart.of));
    this.legend.replaceChildren(...chart.series.map(({ name, colour, dash, latest }) =>
      make('li', {}, make('span', { class: `key ${colour} dash${dash ?? 0}`, 'aria-hidden': 'true' }), `${name} `, make('b', {}, latest))));
    this.paint();
    this.tabulate();
  }

  paint() {
    const width = Math.floor(this.plot.clientWidth);
    if (this.chart && width > 0) this.plot.replaceChildren(paint(this.chart, width));
  }

  tabulate() {
    if (!this.chart || !this.details.open) return;
    this.table.replaceChildren(table(this.about, ['until', ...this.chart.series.map(({ name }) => name)], digest(this.chart)));
  }
}

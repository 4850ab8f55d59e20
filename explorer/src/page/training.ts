// The second tab: what was measured in training.

import type { CurveData, PageData, RunData } from '../data.ts'
import { el, short, svg } from './dom.ts'

const [WIDTH, HEIGHT, LEFT, BOTTOM] = [560, 200, 48, 28]
/** Between the axis and the least value, so that a curve along it is seen. */
const LIFT = 8
/** Points are marked up to this many. */
const MOST_MARKS = 60

/** The curves of all runs, and room for the course of training; null where none was kept. */
/** Why a run has no curves. */
export function whyNone(run: RunData): string {
  const isConstructed = run.note.startsWith('Not trained')
  return `${run.title}: ${isConstructed ? 'no training, so no curve.' : 'no curve is stored in this page.'}`
}

/** What a figure of few values needs in words; empty where the curve is enough. */
export function fewText({ batches, values, unit }: CurveData): string {
  if (values.length === 0) return 'Not measured in this training.'
  if (values.length > 2) return ''
  const each = values.map((value, place) => `${short(value)} at batch ${batches[place]}`).join(' and ')
  return `Measured ${values.length === 1 ? 'once' : 'twice'}: ${unit === 'share' ? 'exact match' : unit} ${each}.`
}

export function trainingTab(data: PageData): HTMLElement | null {
  const figures = data.runs.flatMap((run) => run.curves.map((curve) => figure(run.title, curve, Math.max(1, ...run.curves.flatMap(({ batches }) => batches)))))
  const course = data.runs.some((run) => run.after_batches !== undefined)
  if (figures.length === 0 && !course) return null
  return el(
    'section', { 'aria-label': 'training', hidden: true },
    el('p', { class: 'faint' }, 'Exact match: share of strings without an error. Perplexity: 1 is a certain and correct prediction, on a logarithmic axis.'),
    el('div', { class: 'training' }, ...figures),
    ...data.runs.filter((run) => run.curves.length === 0 && !course).map((run) => el('p', { class: 'faint' }, whyNone(run))),
    course ? el('h2', {}, 'The memory over the course of training, on the input that is watched') : null, el('div', { class: 'course' }),
  )
}

/** `most` is the last batch of any curve of the run. */
function figure(title: string, curve: CurveData, most: number): HTMLElement {
  const { batches, values } = curve
  // A share has its own axis; a perplexity falls from large numbers towards 1.
  const isShare = curve.unit === 'share'
  const scaled = isShare ? values : values.map((value) => Math.log10(Math.max(value, 1)))
  const top = isShare ? 1 : Math.max(...scaled, 0.01)
  const x = (batch: number): number => LEFT + ((WIDTH - LEFT - 8) * batch) / most
  const y = (value: number): number => HEIGHT - BOTTOM - LIFT - ((HEIGHT - BOTTOM - LIFT - 12) * value) / top
  const points = batches.map((batch, place) => `${x(batch).toFixed(1)},${y(scaled[place]).toFixed(1)}`).join(' ')
  const topText = isShare ? '1' : short(10 ** top)
  const label = (text: string, at: [number, number], anchor: string): SVGElement =>
    svg('text', { x: at[0], y: at[1], 'text-anchor': anchor }, text)
  const last = values.at(-1) ?? Number.NaN
  return el(
    'figure', {},
    el('figcaption', {}, `${title}: ${curve.name}`),
    svg(
      'svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': values.length ? `${curve.name}: ${short(values[0])} at batch ${batches[0]}, ${short(last)} at batch ${batches.at(-1)}` : `${curve.name}: not measured` },
      svg('path', { class: 'axis', d: `M${LEFT} 8V${HEIGHT - BOTTOM}H${WIDTH - 8}` }),
      svg('path', { class: 'axis', d: `M${LEFT} ${y(top)}H${WIDTH - 8}` }),
      svg('polyline', { class: 'curve', points }),
      ...(values.length <= MOST_MARKS ? batches.map((batch, place) => svg('circle', { class: 'point', cx: x(batch).toFixed(1), cy: y(scaled[place]).toFixed(1), r: values.length > 2 ? 3 : 5 })) : []),
      label(topText, [LEFT - 6, y(top) + 4], 'end'),
      label(isShare ? '0' : '1', [LEFT - 6, y(0) + 4], 'end'),
      label(`${most} batches`, [WIDTH - 8, HEIGHT - 8], 'end'),
      label('0', [LEFT, HEIGHT - 8], 'middle'),
    ),
    fewText(curve) ? el('p', { class: 'faint' }, fewText(curve)) : null,
  )
}

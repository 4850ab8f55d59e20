// Lie access: the plane of keys, with the line that the read head went and the points of the rows.

import { el, resized, short, svg } from '../dom.ts'
import { StepMap } from './map.ts'
import { originText } from './rows.ts'
import type { View, ViewMaker } from './view.ts'

const SIZE = 320
const EDGE = 24
/** A row is joined to the read head by a line from this weight on. */
const READ = 0.05

export const planeView: ViewMaker = (session, inspect, seek): View => {
  const keySize = Number(session.run.model.memory!.options.key_size)
  const lines = svg('g', { class: 'reads' })
  const trail = svg('polyline', { class: 'trail' })
  const points = svg('g')
  const reader = svg('circle', { class: 'reader', r: 7 })
  const writer = svg('rect', { class: 'writer', width: 12, height: 12, x: -6, y: -6 })
  const plane = svg(
    'svg', { viewBox: `0 0 ${SIZE} ${SIZE}`, class: 'plane', role: 'group', 'aria-label': 'plane of keys' },
    svg('text', { x: SIZE - 4, y: SIZE - 6, 'text-anchor': 'end' }, 'key 1 →'), svg('text', { x: 6, y: 14 }, '↑ key 2'),
    lines, trail, points, writer, reader,
  )
  const map = new StepMap(session, inspect, seek)
  const element = el(
    'div', { class: 'memory' },
    el('figure', {}, el('figcaption', {}, `Keys${keySize > 2 ? ` (the first two of ${keySize} numbers)` : ''}: ○ read head, □ write head, dots are rows`), plane),
    map.element,
  )
  let scale = (key: Float64Array): [number, number] => [key[0], key[1] ?? 0]
  let trailPoints: string[] = []
  const dots: SVGCircleElement[] = []
  const textOf: (() => string)[] = []
  const drawnAs: string[] = []

  const dotAt = (place: number): SVGCircleElement => {
    if (!dots[place]) {
      const tell = (): void => {
        dots[place].setAttribute('aria-label', textOf[place]())
        inspect(textOf[place]())
      }
      dots[place] = svg('circle', { class: 'row', tabindex: 0, role: 'img', 'aria-label': `row ${place + 1}`, pointerenter: tell, focus: tell })
    }
    return dots[place]
  }

  const show = (step: number): void => {
    const { steps } = session
    const state = steps[step]?.state.memory
    if (!state) return
    const { keys, strengths, read_key: readKey, write_key: writeKey } = state.fields
    const weights = state.weights?.read ?? new Float64Array()
    const place = ([x, y]: [number, number]): string => `translate(${x.toFixed(1)} ${y.toFixed(1)})`
    const at = scale(readKey)
    reader.setAttribute('transform', place(at))
    writer.setAttribute('transform', place(scale(writeKey)))
    trail.setAttribute('points', trailPoints.slice(0, step + 1).join(' '))
    const joining: SVGElement[] = []
    strengths.forEach((strength, row) => {
      const [x, y] = scale(keys.subarray(row * keySize, (row + 1) * keySize))
      const dot = dotAt(row)
      // A row stays where it is, but for one that takes the place of another.
      const looks = `${x.toFixed(1)} ${y.toFixed(1)} ${strength}`
      if (drawnAs[row] !== looks) {
        drawnAs[row] = looks
        dot.setAttribute('cx', x.toFixed(1))
        dot.setAttribute('cy', y.toFixed(1))
        dot.setAttribute('r', String(2 + 4 * Math.min(1, strength)))
        dot.setAttribute('fill-opacity', String(0.15 + 0.85 * Math.min(1, strength)))
      }
      const origin = state.origins[row]
      const weight = weights[row] ?? 0
      textOf[row] = () => {
        const from = origin < 0 ? 'initial' : `${session.symbolAt(origin)}, written at step ${origin + 1}`
        const key = [...keys.subarray(row * keySize, (row + 1) * keySize)].map(short).join(', ')
        return `Row ${row + 1}: ${from}, at (${key}), strength ${short(strength)}, read with weight ${short(weight)}`
      }
      if (weight >= READ) {
        joining.push(svg('line', { x1: at[0], y1: at[1], x2: x, y2: y, 'stroke-opacity': weight }))
      }
    })
    resized(points, dots.slice(0, strengths.length))
    lines.replaceChildren(...joining)
    map.show(step)
  }

  const changed = (): void => {
    const { steps } = session
    const all = steps.flatMap((step) => [step.state.memory!.fields.read_key, step.state.memory!.fields.write_key])
    const range = (axis: number): [number, number] => {
      const numbers = all.map((key) => key[axis] ?? 0)
      return [Math.min(...numbers), Math.max(...numbers)]
    }
    const [[left, right], [low, high]] = [range(0), range(1)]
    // The same scale on both axes, so that a turn looks like one.
    const span = Math.max(right - left, high - low, 1e-6)
    const unit = (SIZE - 2 * EDGE) / span
    scale = (key) => [
      SIZE / 2 + unit * (key[0] - (left + right) / 2),
      SIZE / 2 - unit * ((key[1] ?? 0) - (low + high) / 2),
    ]
    trailPoints = steps.map((each) => scale(each.state.memory!.fields.read_key).map((number) => number.toFixed(1)).join())
    const rows = steps.length
    const weightAt = (step: number, row: number): number => {
      const state = steps[step].state.memory!
      // Rows by the step that wrote them; a row is read from the step after on.
      const place = state.origins.indexOf(row)
      const weight = place < 0 ? undefined : state.weights?.read?.[place]
      return weight ?? Number.NaN
    }
    map.draw({
      title: 'Read weight of each row over time, by the step that wrote it',
      steps: steps.length,
      rows,
      hue: 'blue',
      legend: ['weight 0', '1', 'no row yet'],
      label: (row) => originText(session, row),
      value: weightAt,
      textOf: (step, row) => {
        const weight = weightAt(step, row)
        if (Number.isNaN(weight)) return `Step ${step + 1}: the row of step ${row + 1} is not there yet.`
        return `Step ${step + 1} reads the row of step ${row + 1} (${session.symbolAt(row)}) with weight ${short(weight)}`
      },
    })
  }
  const words = (step: number): [string, string][] => {
    const state = session.steps[step].state.memory!
    const read = [...(state.weights?.read ?? [])].map((weight, row) => ({ weight, row })).filter(({ weight }) => weight >= READ)
    const rows = read.map(({ weight, row }) => `${session.symbolAt(state.origins[row])} of step ${state.origins[row] + 1} (${short(weight)})`)
    const at = (key: Float64Array): string => `(${[...key].map(short).join(', ')})`
    return [
      ['read head at', at(state.fields.read_key)],
      ['write head at', at(state.fields.write_key)],
      ['rows that are read', rows.join(', ') || 'none'],
    ]
  }
  changed()
  return { element, show, changed, words }
}

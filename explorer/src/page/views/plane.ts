// Lie access and random access: the plane of keys, with the paths of the read heads and the rows as dots.

import { type MemoryState, headNames } from '../../machine/memories/memory.ts'
import { el, resized, short, svg } from '../dom.ts'
import { StepMap } from './map.ts'
import { originText } from './rows.ts'
import type { View, ViewMaker } from './view.ts'

const SIZE = 320
const EDGE = 24
/** A row is joined to a read head by a line from this weight on. */
const READ = 0.05
/** Numbers of a key in a text. */
const MOST_NUMBERS = 4
/** Groups whose keys have a length of at most 1, and the name of the line that they do not pass. */
const BOUNDED: Record<string, string> = {
  sphere: 'the outline of the sphere',
  bounded_sphere: 'the outline of the sphere',
  learned_bound_sphere: 'the outline of the sphere',
  poincare_disk: 'the edge of the disk',
}

/** The first numbers of a key. */
export function keyText(key: Float64Array): string {
  const some = [...key.subarray(0, MOST_NUMBERS)].map(short).join(', ')
  return `(${some}${key.length > MOST_NUMBERS ? ', …' : ''})`
}

/** The keys of each head, one after the other. */
export function keysOf(keys: Float64Array, size: number): Float64Array[] {
  return Array.from({ length: keys.length / size }, (_, head) => keys.subarray(head * size, (head + 1) * size))
}

/** Where the heads of one kind are: a random-access memory keeps no key of a head in its state. */
export function headKeys({ fields, shown }: MemoryState, who: 'read' | 'write', size: number): Float64Array[] {
  return keysOf(fields[`${who}_key`] ?? shown![`${who}_key`], size)
}

/** The two coordinates of some keys that vary most, in their order, and the range of each. */
export function axesOf(keys: Float64Array[], size: number): { axis: number; least: number; most: number }[] {
  const axes = Array.from({ length: size }, (_, axis) => {
    const numbers = keys.map((key) => key[axis])
    return { axis, least: Math.min(...numbers), most: Math.max(...numbers) }
  })
  const varied = [...axes].sort((a, b) => b.most - b.least - (a.most - a.least))
  return varied.slice(0, 2).sort((a, b) => a.axis - b.axis)
}

export const planeView: ViewMaker = (session, inspect, seek): View => {
  const { options } = session.run.model.memory!
  const keySize = Number(options.key_size)
  const edge = BOUNDED[String(options.group)]
  const writers = headNames('write', Number(options.write_heads ?? 1))
  const readers = headNames('read', Number(options.read_heads ?? 1))
  /** The number of a head, where there are several. */
  const numbered = (names: string[], head: number): string => (names.length > 1 ? String(head + 1) : '')
  const marked = (shape: SVGElement, text: string): SVGGElement =>
    svg('g', {}, shape, svg('text', { class: 'number', x: 9, y: -7 }, text))
  const lines = svg('g', { class: 'reads' })
  const trails = readers.map(() => svg('polyline', { class: 'trail' }))
  const points = svg('g')
  const readMarks = readers.map((_, head) => marked(svg('circle', { class: 'reader', r: 7 }), numbered(readers, head)))
  const writeMarks = writers.map((_, head) => marked(svg('rect', { class: 'writer', width: 12, height: 12, x: -6, y: -6 }), numbered(writers, head)))
  const bounds = svg('circle', { class: 'axis', cx: SIZE / 2, cy: SIZE / 2, r: SIZE / 2 - EDGE })
  const axisTexts = [svg('text', { x: SIZE - 4, y: SIZE - 6, 'text-anchor': 'end' }), svg('text', { x: 6, y: 14 })]
  const plane = svg(
    'svg', { viewBox: `0 0 ${SIZE} ${SIZE}`, class: 'plane', role: 'group', 'aria-label': 'plane of keys' },
    ...axisTexts, edge ? bounds : null, lines, ...trails, points, ...writeMarks, ...readMarks,
  )
  const maps = readers.map(() => new StepMap(session, inspect, seek))
  const plural = (names: string[]): string => (names.length > 1 ? 's' : '')
  const parts = [
    `Keys${keySize > 2 ? ` (the two of ${keySize} numbers that vary most)` : ''}: ○ read head${plural(readers)}`,
    `□ write head${plural(writers)}`, 'dots are rows', ...(edge ? [`the circle is ${edge}`] : []),
  ]
  const element = el(
    'div', { class: 'memory' },
    el('figure', {}, el('figcaption', {}, parts.join(', ')), plane), el('div', { class: maps.length > 1 ? 'maps' : '' }, ...maps.map((map) => map.element)),
  )
  let scale = (key: Float64Array): [number, number] => [key[0], key[1]]
  let trailPoints: string[][] = []
  /** By step, the place of each row among those of the state; -1 where it is not there. */
  let places: Int32Array[] = []
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
  const writerOf = ({ shown }: MemoryState, row: number): number => shown?.writers?.[row] ?? 0
  const byHead = (writer: number): string => (writers.length > 1 ? ` by ${writers[writer]}` : '')

  const show = (step: number): void => {
    const state = session.steps[step]?.state.memory
    if (!state) return
    const { keys, strengths } = state.fields
    const put = (marks: SVGElement[], who: 'read' | 'write'): [number, number][] => {
      const at = headKeys(state, who, keySize).map(scale)
      marks.forEach((mark, head) => mark.setAttribute('transform', `translate(${at[head].map((number) => number.toFixed(1)).join(' ')})`))
      return at
    }
    const readAt = put(readMarks, 'read')
    put(writeMarks, 'write')
    trails.forEach((trail, head) => trail.setAttribute('points', trailPoints[head].slice(0, step + 1).join(' ')))
    const joining: SVGElement[] = []
    strengths.forEach((strength, row) => {
      const key = keys.subarray(row * keySize, (row + 1) * keySize)
      const [x, y] = scale(key)
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
      const weights = readers.map((name) => state.weights?.[name]?.[row] ?? 0)
      textOf[row] = () => {
        const origin = state.origins[row]
        const from = origin < 0 ? 'initial' : `${session.symbolAt(origin)}, written at step ${origin + 1}${byHead(writerOf(state, row))}`
        const read = weights.map((weight, head) => `${short(weight)}${readers.length > 1 ? ` by ${readers[head]}` : ''}`).join(', ')
        return `Row ${row + 1}: ${from}, at ${keyText(key)}, strength ${short(strength)}, read with weight ${read}`
      }
      weights.forEach((weight, head) => {
        if (weight >= READ) joining.push(svg('line', { x1: readAt[head][0], y1: readAt[head][1], x2: x, y2: y, 'stroke-opacity': weight }))
      })
    })
    resized(points, dots.slice(0, strengths.length))
    lines.replaceChildren(...joining)
    for (const map of maps) map.show(step)
  }

  const changed = (): void => {
    const { steps } = session
    const states = steps.map(({ state }) => state.memory!)
    const axes = axesOf(states.flatMap((state) => [...headKeys(state, 'read', keySize), ...headKeys(state, 'write', keySize)]), keySize)
    const [across, up] = axes
    // The same scale on both axes, so that a turn looks like one; all of a sphere or disk.
    const span = edge ? 2 : Math.max(...axes.map(({ least, most }) => most - least), 1e-6)
    const unit = (SIZE - 2 * EDGE) / span
    const placed = (key: Float64Array, range: typeof across | undefined): number =>
      range ? unit * (key[range.axis] - (edge ? 0 : (range.least + range.most) / 2)) : 0
    scale = (key) => [SIZE / 2 + placed(key, across), SIZE / 2 - placed(key, up)]
    axisTexts[0].textContent = `key ${across.axis + 1} →`
    axisTexts[1].textContent = up ? `↑ key ${up.axis + 1}` : ''
    trailPoints = readers.map((_, head) => states.map((state) => scale(headKeys(state, 'read', keySize)[head]).map((number) => number.toFixed(1)).join()))
    const rows = steps.length * writers.length
    places = states.map((state) => {
      const own = new Int32Array(rows).fill(-1)
      state.origins.forEach((origin, place) => {
        if (origin >= 0) own[origin * writers.length + writerOf(state, place)] = place
      })
      return own
    })
    const written = (row: number): [step: number, writer: number] => [Math.floor(row / writers.length), row % writers.length]
    readers.forEach((name, head) => {
      // A row is read from the step after that which wrote it on.
      const weightAt = (step: number, row: number): number => states[step].weights?.[name]?.[places[step][row]] ?? Number.NaN
      maps[head].draw({
        title: `Weight of each row to the ${name} over time, by the step that wrote it`,
        steps: steps.length,
        rows,
        hue: 'blue',
        legend: ['weight 0', '1', 'no row, or not yet'],
        label: (row) => {
          const [step, writer] = written(row)
          return `${originText(session, step)}${writers.length > 1 ? ` /${writer + 1}` : ''}`
        },
        value: weightAt,
        textOf: (step, row) => {
          const weight = weightAt(step, row)
          const [origin, writer] = written(row)
          const what = `the row that was written at step ${origin + 1}${byHead(writer)}`
          if (Number.isNaN(weight)) return `Step ${step + 1}: ${what} is not there.`
          return `At step ${step + 1} the ${name} reads ${what} (${session.symbolAt(origin)}) with weight ${short(weight)}`
        },
      })
    })
  }
  const words = (step: number): [string, string][] => {
    const state = session.steps[step].state.memory!
    const at = (names: string[], who: 'read' | 'write'): [string, string][] =>
      headKeys(state, who, keySize).map((key, head) => [`${names[head]} at`, keyText(key)])
    return [
      ...at(readers, 'read'), ...at(writers, 'write'),
      ...readers.map((name): [string, string] => {
        const read = [...(state.weights?.[name] ?? [])].map((weight, row) => ({ weight, row })).filter(({ weight }) => weight >= READ)
        const texts = read.map(({ weight, row }) => {
          const origin = state.origins[row]
          return origin < 0 ? `an initial row (${short(weight)})` : `${session.symbolAt(origin)} of step ${origin + 1}${byHead(writerOf(state, row))} (${short(weight)})`
        })
        return [`rows that the ${name} reads`, texts.join(', ') || 'none']
      }),
    ]
  }
  changed()
  return { element, show, changed, words }
}

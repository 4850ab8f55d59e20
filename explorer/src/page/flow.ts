// The drawing of a step: input, controller, heads, memory, read vector, output; what happens moves.

import { layerHeads } from '../machine/memories/memory.ts'
import { emptyOf, widthOf } from '../machine/memories/superposition.ts'
import { TRANSITIONS } from '../machine/memories/nondeterministic_stack.ts'
import { isPlainGate } from '../machine/heads.ts'
import { outputText } from '../machine/run.ts'
import { el, short, write } from './dom.ts'
import { type MemoryEvent, LEAST, eventsOf } from './events.ts'
import type { Session } from './session.ts'
import { sizesOf, topName, topPushes, topShares } from './views/automaton.ts'
import { MOVES } from './views/rolling.ts'
import { ACTIONS } from './views/superposition.ts'
import { headName, slotName } from './views/tape.ts'

const CONTROLLERS: Record<string, string> = { lstm: 'LSTM', gru: 'GRU', elman: 'recurrent units', deep_lstm: 'deep LSTM' }
const MEMORIES: Record<string, string> = {
  stack: 'Stack', queue: 'Queue', deque: 'Deque', superposition_stack: 'Stacks', superposition_list: 'Lists',
  turing_tape: 'Tape', rolling_tape: 'Rolling tape', dnc: 'Slots', nondeterministic_stack: 'Runs of an automaton',
  lie_access: 'Rows with keys', random_access: 'Rows with keys', delta_matrices: 'Matrices', attention_weights: 'Attention',
}
/** Gates and memory cells at most. */
const MOST_GATES = 5
const MOST_CELLS = 5
/** Rows of cells at most, of several heads. */
const MOST_ROWS = 8
/** Numbers of a vector that are drawn. */
const MOST_NUMBERS = 16

export interface Gate {
  name: string
  text: string
  value: number
}

/** The gates of a step as the heads set them. */
export function gatesOf(session: Session, step: number): Gate[] {
  const memory = session.run.model.memory
  const instruction = session.steps[step]?.instruction
  if (!memory || !instruction) return []
  if (memory.kind === 'nondeterministic_stack') {
    const { transitions } = session.steps[step].state.memory!.shown!
    return TRANSITIONS.map((name, place) => ({ name, text: '', value: transitions[place] }))
  }
  if (memory.kind === 'delta_matrices') {
    const steps = Number(memory.options.steps)
    return layerHeads(memory).flatMap((name, head) => [...instruction.strength.subarray(head * steps, (head + 1) * steps)].map((value) => ({ name, text: 'strength', value })))
  }
  if (memory.kind === 'attention_weights') {
    return Object.entries(session.model.memory!.weights(session.steps[step].state.memory!)).map(([name, weights]) => {
      const best = weights.indexOf(Math.max(...weights))
      return { name: headName(name), text: slotName(session, best), value: weights[best] }
    })
  }
  const gates: Gate[] = []
  for (const head of memory.heads) {
    const { name, shape } = head
    const numbers = instruction[name]
    const text = name.replaceAll('_', ' ')
    const styles = memory.kind === 'rolling_tape' ? MOVES : ACTIONS[memory.kind]
    if (name === 'action' && styles) {
      const [count, actions] = shape
      for (let place = 0; place < count; place++) {
        const own = numbers.subarray(place * actions, (place + 1) * actions)
        const best = own.indexOf(Math.max(...own))
        gates.push({ name: count > 1 ? `${place + 1}` : '', text: styles[best].name, value: own[best] })
      }
    } else if (isPlainGate(head)) {
      numbers.forEach((value, place) => gates.push({ name: numbers.length > 1 ? `${text} ${place + 1}` : text, text: '', value }))
    }
    else if (name.endsWith('_shift')) {
      const best = numbers.indexOf(Math.max(...numbers))
      const by = best - (numbers.length - 1) / 2
      gates.push({ name: text, text: by > 0 ? `+${by}` : String(by), value: numbers[best] })
    }
  }
  return gates
}

export interface Cell {
  text: string
  /** What happens to it at this step. */
  state: 'in' | 'out' | 'read' | 'empty' | ''
  strength: number
}

/** A row of cells of the memory, with a name where there are several. */
export interface CellRow {
  name: string
  cells: Cell[]
}

/** The part of the memory at which something happens, as few cells. */
export function cellsOf(session: Session, step: number, events: MemoryEvent[]): CellRow[] {
  const memory = session.run.model.memory
  const state = session.steps[step]?.state.memory
  if (!memory || !state) return []
  if (memory.kind in ACTIONS) return actionCells(session, step)
  const reads = new Set(events.filter(({ kind }) => kind === 'read').flatMap(({ origins }) => origins))
  if (memory.kind === 'delta_matrices') return matrixCells(session, step)
  if (memory.kind === 'turing_tape' || memory.kind === 'dnc' || memory.kind === 'attention_weights') {
    const weights = session.model.memory!.weights(state)
    return Object.entries(weights).map(([name, each]) => {
      const best = each.indexOf(Math.max(...each))
      const first = Math.max(0, Math.min(best - 2, each.length - MOST_CELLS))
      const cells = Array.from({ length: Math.min(MOST_CELLS, each.length) }, (_, k): Cell => {
        const slot = first + k
        const here = each[slot] >= LEAST
        // The input of a later step is shown where it is read, and not before.
        const symbol = state.origins[slot] < 0 || (state.origins[slot] > step && !here) ? '' : ` ${session.symbolAt(state.origins[slot])}`
        return { text: `${memory.kind === 'attention_weights' ? slot + 1 : slot}${symbol}`, state: here ? (name.startsWith('read') ? 'read' : 'in') : '', strength: Math.max(0.25, each[slot]) }
      })
      return { name: headName(name), cells }
    })
  }
  if (memory.kind === 'rolling_tape') return rollingCells(session, step)
  if (memory.kind === 'nondeterministic_stack') return automatonCells(session, step)
  if (memory.kind === 'lie_access' || memory.kind === 'random_access') {
    const { strengths } = state.fields
    const rows = [...strengths.keys()].filter((row) => strengths[row] >= LEAST).slice(-MOST_CELLS)
    for (const row of strengths.keys()) if (reads.has(state.origins[row]) && !rows.includes(row)) rows.unshift(row)
    const cells = rows.slice(0, MOST_CELLS + 1).map((row): Cell => ({
      text: session.symbolAt(state.origins[row]) || '·', strength: Math.min(1, strengths[row]),
      state: reads.has(state.origins[row]) ? 'read' : state.origins[row] === step ? 'in' : '',
    }))
    return cells.length ? [{ name: '', cells }] : []
  }
  const leaving = new Set(events.filter(({ kind }) => kind === 'pop').flatMap(({ origins }) => origins))
  const { strengths } = state.fields
  const before = session.before(step)
  const gone = [...before.origins.keys()].filter((row) => leaving.has(before.origins[row]) && before.fields.strengths[row] >= LEAST)
  const cell = (row: number): Cell => {
    const origin = state.origins[row]
    const happens = origin === step ? 'in' : leaving.has(origin) && strengths[row] < 0.5 ? 'out' : reads.has(origin) ? 'read' : ''
    return { text: session.symbolAt(origin), strength: Math.min(1, strengths[row]), state: happens }
  }
  const rows = [...strengths.keys()].filter((row) => strengths[row] >= LEAST)
  // A queue is read at its first rows, a stack at its last ones.
  const isQueue = memory.kind === 'queue'
  const ordered = isQueue ? rows : rows.reverse()
  // Both ends of a queue and of a deque are of interest, of a stack the top.
  const ends = memory.kind === 'stack' ? 0 : 2
  const cells = ordered.map(cell)
  if (cells.length > MOST_CELLS + 1) cells.splice(MOST_CELLS - ends, cells.length - MOST_CELLS, { text: '…', state: '', strength: 0 })
  const partly = new Set(ordered.map((row) => state.origins[row]))
  const out = (rowsOut: number[]): Cell[] => rowsOut.map((row) => ({ text: session.symbolAt(before.origins[row]), state: 'out', strength: 1 }))
  const left = gone.filter((row) => !partly.has(before.origins[row]))
  // What a deque's bottom loses stands after its last cell.
  const below = memory.kind === 'deque' ? left.filter((row) => row < before.origins.length / 2) : []
  return [{ name: '', cells: [...out(left.filter((row) => !below.includes(row)).slice(-2)), ...cells, ...out(below.slice(0, 2))] }]
}

/** How large each matrix is, as the root of the sum of its squares. */
function matrixCells(session: Session, step: number): CellRow[] {
  const memory = session.run.model.memory!
  const { matrix } = session.steps[step].state.memory!.fields
  const names = layerHeads(memory)
  const size = matrix.length / names.length
  return names.map((name, head) => {
    const length = Math.sqrt(matrix.subarray(head * size, (head + 1) * size).reduce((sum, each) => sum + each * each, 0))
    return { name, cells: [{ text: `size ${short(length)}`, state: 'read', strength: length / (1 + length) }] }
  })
}

/** The likeliest tops, and where they were pushed. */
function automatonCells(session: Session, step: number): CellRow[] {
  const memory = session.steps[step].state.memory!
  const sizes = sizesOf(session.run.model.memory!)
  const shares = topShares(memory, sizes)
  const likely = [...shares.keys()].filter((top) => shares[top] >= LEAST).sort((a, b) => shares[b] - shares[a]).slice(0, MOST_CELLS)
  return [
    { name: 'on top', cells: likely.map((top) => ({ text: topName(sizes, top), state: 'read', strength: shares[top] })) },
    {
      name: 'pushed at', cells: topPushes(memory).slice(0, MOST_CELLS).map(({ origin, share }) => ({
        text: origin < 0 ? 'bottom' : `${origin + 1} ${session.symbolAt(origin)}`, state: origin === step ? 'in' : 'read', strength: share,
      })),
    },
  ]
}

/** The cells around the head of each tape, which is read in the middle. */
function rollingCells(session: Session, step: number): CellRow[] {
  const { options } = session.run.model.memory!
  const { origins } = session.steps[step].state.memory!
  const [slots, tapes] = [Number(options.slots), Number(options.tapes)]
  const side = Math.floor((Math.min(MOST_CELLS, slots) - 1) / 2)
  return Array.from({ length: tapes }, (_, tape): CellRow => ({
    name: tapes > 1 ? `tape ${tape + 1}` : '',
    cells: Array.from({ length: 2 * side + 1 }, (_, k): Cell => {
      const origin = origins[tape * slots + ((k - side + slots) % slots)]
      const state = k === side ? 'read' : origin < 0 ? 'empty' : origin === step ? 'in' : ''
      return { text: origin < 0 ? '·' : session.symbolAt(origin), state, strength: origin < 0 ? 0.25 : 1 }
    }),
  }))
}

function actionCells(session: Session, step: number): CellRow[] {
  const { kind, heads } = session.run.model.memory!
  const { origins, fields } = session.steps[step].state.memory!
  const [count] = heads[0].shape
  const width = widthOf(session.run.model.memory!)
  const size = fields.cells.length / count / width
  const isList = kind === 'superposition_list'
  const empty = emptyOf(session.run.model.memory!)
  const first = isList ? Math.max(0, (size - 1) / 2 - 2) : 0
  return Array.from({ length: Math.min(count, 3) }, (_, place) => ({
    name: String(place + 1),
    cells: Array.from({ length: Math.max(0, Math.min(MOST_CELLS, size - first)) }, (_, k): Cell => {
      const at = place * size + first + k
      const isHead = isList ? first + k === (size - 1) / 2 : k === 0
      const held = fields.cells.subarray(at * width, (at + 1) * width)
      const isEmpty = origins[at] < 0 && held.every((each) => Math.abs(each - empty) < 1e-9)
      // A vector is shown by the input that wrote it.
      const text = width === 1 ? short(held[0]) : origins[at] < 0 ? '·' : session.symbolAt(origins[at])
      return { text: isEmpty ? '' : text, state: isEmpty ? 'empty' : origins[at] === step ? 'in' : isHead ? 'read' : '', strength: 1 }
    }),
  }))
}

/** A vector as a strip of cells: blue above 0, orange below. */
function paint(strip: HTMLElement, numbers: Float64Array): void {
  const some = numbers.subarray(0, MOST_NUMBERS)
  const most = Math.max(0.25, ...some.map(Math.abs))
  const width = 100 / Math.max(1, some.length)
  const stops = [...some].map((each, k) => {
    const share = Math.round((90 * Math.abs(each)) / most)
    const colour = `color-mix(in srgb, var(--${each < 0 ? 'orange' : 'blue'}) ${share}%, var(--ground))`
    return `${colour} ${(k * width).toFixed(2)}% ${((k + 1) * width).toFixed(2)}%`
  })
  strip.style.background = some.length ? `linear-gradient(90deg, ${stops.join(', ')})` : 'none'
}

export class Flow {
  readonly element: HTMLElement
  private readonly session: Session
  private readonly input = el('b')
  private readonly units = el('span', { class: 'strip' })
  private readonly gates = el('ul', { class: 'gates' })
  private readonly cells = el('div', { class: 'glyphs' })
  private readonly reads = el('span', { class: 'strip' })
  private readonly readText = el('span', { class: 'small' })
  private readonly output = el('b')
  private readonly outputText = el('span', { class: 'small' })
  private readonly change = el('i', { class: 'wire', 'aria-hidden': 'true' })
  private readonly read = el('i', { class: 'wire', 'aria-hidden': 'true' })
  private readonly caption = el('figcaption')
  private at = -1

  constructor(session: Session) {
    this.session = session
    const { memory, controller, output_read_vector: toOutput } = session.run.model
    const isLayers = controller.kind !== '' && !(controller.kind in CONTROLLERS)
    const wire = (): HTMLElement => el('i', { class: 'wire', 'aria-hidden': 'true' })
    const node = (name: string, title: string, ...parts: (Node | string)[]): HTMLElement =>
      el('div', { class: `node ${name}` }, el('span', { class: 'title' }, title), ...parts)
    const nodes: HTMLElement[] = [
      node('input', 'Input', this.input), wire(),
      node('controller', isLayers ? 'Network' : 'Controller', el('span', { class: 'small' }, CONTROLLERS[controller.kind] ?? controller.kind), this.units),
    ]
    if (memory) {
      nodes.push(
        wire(), node('heads', 'Heads', this.gates), this.change,
        node('store', MEMORIES[memory.kind] ?? 'Memory', this.cells), this.read,
        node('vector', 'Read vector', this.reads, this.readText),
      )
    }
    const back = memory
      ? el('div', { class: 'back' }, el('span', {}, isLayers ? 'Each layer has its own heads; its read vector goes to the next layer, and at the end to the output.' : `The read vector goes to the controller at the next step${toOutput ? ', and to the output at this step' : ''}.`))
      : null
    this.element = el(
      'figure', { class: `flow${memory ? '' : ' bare'}`, 'data-part': 'flow', 'aria-label': 'the data flow of this step' },
      el('div', { class: 'nodes' }, ...nodes, el('i', { class: 'wire down', 'aria-hidden': 'true' }), node('output', 'Output', this.output, this.outputText), back),
      this.caption,
    )
  }

  show(step: number): void {
    const { steps, task } = this.session
    const each = steps[step]
    if (!each) return
    // Two animations of the same form: to change from one to the other starts it again.
    if (step !== this.at) this.element.classList.toggle('tick', step % 2 === 0)
    if (step !== this.at) this.element.classList.toggle('tock', step % 2 === 1)
    this.at = step
    write(this.input, this.session.symbolAt(step))
    write(this.output, outputText(task, each.predicted))
    const judged = each.target === null ? 'no target' : each.target === each.predicted ? '✓ correct' : `✗ target ${outputText(task, each.target)}`
    write(this.outputText, judged)
    if (each.state.controller[0]) paint(this.units, each.state.controller[0])
    if (!each.instruction) {
      write(this.caption, `Step ${step + 1}: input ${this.session.symbolAt(step)}, predicted ${outputText(task, each.predicted)}.`)
      return
    }
    const events = eventsOf(this.session, step)
    const gates = gatesOf(this.session, step)
    this.gates.replaceChildren(...gates.slice(0, MOST_GATES).map(gateItem), ...(gates.length > MOST_GATES ? [el('li', {}, `and ${gates.length - MOST_GATES} more`)] : []))
    const rows = cellsOf(this.session, step, events)
    this.cells.replaceChildren(...rows.slice(0, MOST_ROWS).map(cellRow), ...(rows.length > MOST_ROWS ? [el('span', { class: 'small' }, `and ${rows.length - MOST_ROWS} more`)] : []))
    if (this.cells.childElementCount === 0 || !this.cells.querySelector('.cell')) this.cells.replaceChildren(el('span', { class: 'small' }, 'empty'))
    paint(this.reads, each.state.readVector)
    const strongest = (kinds: string[]): number => Math.max(0, ...events.filter(({ kind }) => kinds.includes(kind)).map(({ weight }) => weight))
    const isRead = each.state.readVector.some((number) => Math.abs(number) >= 0.01)
    write(this.readText, isRead ? numbersText(each.state.readVector.length) : 'all 0: nothing is read')
    this.change.classList.toggle('push', strongest(['push', 'write']) >= LEAST)
    this.change.classList.toggle('pop', strongest(['pop', 'move']) >= LEAST)
    this.read.classList.toggle('read', isRead)
    write(this.caption, captionOf(step, events))
  }
}

const numbersText = (count: number): string => (count > MOST_NUMBERS ? `the first ${MOST_NUMBERS} of ${count} numbers` : `${count} numbers`)

function captionOf(step: number, events: MemoryEvent[]): string {
  const some = events.slice(0, 4).map(({ text }) => text)
  const more = events.length > 4 ? [`and ${events.length - 4} more`] : []
  return `Step ${step + 1}. ${[...some, ...more].join('; ')}.`
}

function gateItem({ name, text, value }: Gate): HTMLElement {
  const item = el('li', { class: value >= 0.5 ? 'on' : '' }, el('span', {}, [name, text].filter((part) => part).join(' ')), el('span', { class: 'number' }, short(value)))
  item.style.setProperty('--share', Math.min(1, value).toFixed(2))
  return item
}

function cellRow({ name, cells }: CellRow): HTMLElement {
  const row = el('div', { class: 'glyph' }, name ? el('span', { class: 'small' }, name) : null)
  for (const { text, state, strength } of cells) {
    const cell = el('span', { class: `cell ${state}` }, text || '∅')
    cell.style.setProperty('--strength', strength.toFixed(2))
    row.append(cell)
  }
  return row
}

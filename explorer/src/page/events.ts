// What happens in the memory at a step: pushes, pops, moves, writes and reads, in words and weights.

import { headNames, layerHeads } from '../machine/memories/memory.ts'
import { TRANSITIONS } from '../machine/memories/nondeterministic_stack.ts'
import { type End, popped } from '../machine/memories/strengths.ts'
import { short } from './dom.ts'
import type { Session } from './session.ts'
import { pushText, sizesOf, topName, topPushes, topShares } from './views/automaton.ts'
import { headKeys, keyText } from './views/plane.ts'
import { MOVES } from './views/rolling.ts'
import { ACTIONS } from './views/superposition.ts'
import { slotName } from './views/tape.ts'

export type EventKind = 'push' | 'pop' | 'keep' | 'move' | 'write' | 'read'

export interface MemoryEvent {
  kind: EventKind
  text: string
  weight: number
  /** Rows that leave, enter or are read, by the step that wrote them. */
  origins: number[]
}

/** Weights below this are no event. */
export const LEAST = 0.05

/** An end of a stack, queue or deque: its name, its gates, and the end at which it pops. */
interface Gates {
  push: string
  pop: string
  popEnd: End
  pushPlace: string
  popPlace: string
}

const ENDS: Record<string, Gates[]> = {
  stack: [{ push: 'push', pop: 'pop', popEnd: 'top', pushPlace: 'top', popPlace: 'top' }],
  queue: [{ push: 'push', pop: 'pop', popEnd: 'bottom', pushPlace: 'back', popPlace: 'front' }],
  deque: [
    { push: 'top_push', pop: 'top_pop', popEnd: 'top', pushPlace: 'top', popPlace: 'top' },
    { push: 'bottom_push', pop: 'bottom_pop', popEnd: 'bottom', pushPlace: 'bottom', popPlace: 'bottom' },
  ],
}

export function eventsOf(session: Session, step: number): MemoryEvent[] {
  const kind = session.run.model.memory?.kind ?? 'none'
  if (!session.steps[step]?.instruction) return []
  if (kind in ENDS) return rowEvents(session, step, ENDS[kind])
  if (kind in ACTIONS) return actionEvents(session, step)
  if (kind === 'turing_tape' || kind === 'dnc' || kind === 'attention_weights') return tapeEvents(session, step)
  if (kind === 'rolling_tape') return rollingEvents(session, step)
  if (kind === 'nondeterministic_stack') return automatonEvents(session, step)
  if (kind === 'delta_matrices') return matrixEvents(session, step)
  return kind === 'lie_access' || kind === 'random_access' ? keyEvents(session, step) : []
}

/** Every action but a jump of the paper's form writes under the head before it moves. */
function rollingEvents(session: Session, step: number): MemoryEvent[] {
  const { options } = session.run.model.memory!
  const { instruction, state } = session.steps[step]
  const [slots, tapes] = [Number(options.slots), Number(options.tapes)]
  const events: MemoryEvent[] = []
  for (let tape = 0; tape < tapes; tape++) {
    const weights = [...instruction!.action.subarray(tape * MOVES.length, (tape + 1) * MOVES.length)]
    const where = tapes > 1 ? ` of tape ${tape + 1}` : ''
    const writes = options.variant === 'code' ? 1 : weights[0] + weights[1] + weights[2]
    if (writes >= LEAST) events.push({ kind: 'write', weight: writes, origins: [step], text: `a vector is written under the head${where} (${short(writes)})` })
    weights.forEach((weight, move) => {
      if (move > 0 && weight >= LEAST) events.push({ kind: 'move', weight, origins: [], text: `the tape${where} moves: ${MOVES[move].name} (${short(weight)})` })
    })
    const origin = state.memory!.origins[tape * slots]
    const what = origin < 0 ? 'a cell that nothing was written to' : `the cell of ${session.symbolAt(origin)}`
    events.push({ kind: 'read', weight: 1, origins: origin < 0 ? [] : [origin], text: `${what} is under the head${where}` })
  }
  return events
}

function rowEvents(session: Session, step: number, ends: Gates[]): MemoryEvent[] {
  const { instruction, state } = session.steps[step]
  const before = session.before(step)
  const events: MemoryEvent[] = []
  let strengths = before.fields.strengths
  for (const end of ends) {
    const gate = instruction![end.pop][0]
    const left = popped(strengths, gate, end.popEnd)
    const origins = [...left.keys()].filter((row) => strengths[row] - left[row] >= LEAST).map((row) => before.origins[row])
    strengths = left
    if (gate < LEAST) continue
    const what = origins.length ? `${names(session, origins)} ${origins.length > 1 ? 'leave' : 'leaves'} the ${end.popPlace}` : 'no item to remove'
    events.push({ kind: 'pop', weight: gate, origins, text: `${spaced(end.pop)} ${short(gate)}: ${what}` })
  }
  for (const end of ends) {
    const gate = instruction![end.push][0]
    if (gate < LEAST) continue
    const text = `${spaced(end.push)} ${short(gate)}: ${session.symbolAt(step)} enters at the ${end.pushPlace}`
    events.push({ kind: 'push', weight: gate, origins: [step], text })
  }
  if (events.length === 0) events.push({ kind: 'keep', weight: 1, origins: [], text: 'no push, no pop' })
  const weights = session.model.memory!.weights(state.memory!)
  for (const [end, each] of Object.entries(weights)) {
    const rows = [...each.keys()].filter((row) => each[row] >= LEAST)
    if (rows.length === 0) continue
    const where = ends.length > 1 ? ` ${end}` : ''
    const text = `read${where}: ${rows.map((row) => `${session.symbolAt(state.memory!.origins[row])} with weight ${short(each[row])}`).join(', ')}`
    events.push({ kind: 'read', weight: Math.max(...each), origins: rows.map((row) => state.memory!.origins[row]), text })
  }
  return events
}

/** The action with the largest weight, of each stack or list. */
function actionEvents(session: Session, step: number): MemoryEvent[] {
  const { kind, heads } = session.run.model.memory!
  const [count, actions] = heads[0].shape
  const { action, value } = session.steps[step].instruction!
  return Array.from({ length: count }, (_, place) => {
    const weights = action.subarray(place * actions, (place + 1) * actions)
    const best = weights.indexOf(Math.max(...weights))
    const { name } = ACTIONS[kind][best]
    const isNew = name === 'PUSH' || name === 'INSERT'
    const width = value.length / count
    const pushed = width > 1 ? `a vector of ${width} numbers` : `the number ${short(value[place])}`
    const what = isNew ? ` ${pushed}` : ''
    const what2 = kind === 'superposition_list' ? 'list' : 'stack'
    return {
      kind: isNew ? 'push' : name === 'POP' ? 'pop' : name === 'NO-OP' ? 'keep' : 'move',
      weight: weights[best], origins: isNew ? [step] : [],
      text: `${what2} ${place + 1}: ${name}${what} with weight ${short(weights[best])}`,
    }
  })
}

function tapeEvents(session: Session, step: number): MemoryEvent[] {
  const { instruction, state } = session.steps[step]
  const weights = session.model.memory!.weights(state.memory!)
  return Object.entries(weights).map(([name, each]) => {
    const slot = each.indexOf(Math.max(...each))
    const isRead = name.startsWith('read')
    const erased = isRead ? 0 : Math.max(...instruction!.erase)
    const doing = isRead ? 'reads' : erased >= LEAST ? `erases up to ${short(erased)} and adds` : 'adds'
    const text = each[slot] < LEAST ? `${name} is at no slot` : `${name} ${doing} at ${slotName(session, slot)} with weight ${short(each[slot])}`
    return { kind: isRead ? 'read' : 'write', weight: each[slot], origins: [], text }
  })
}

/** What each head replaces, at the strongest of its steps of the delta rule. */
function matrixEvents(session: Session, step: number): MemoryEvent[] {
  const data = session.run.model.memory!
  const steps = Number(data.options.steps)
  return layerHeads(data).map((name, head): MemoryEvent => {
    const strength = Math.max(...session.steps[step].instruction!.strength.subarray(head * steps, (head + 1) * steps))
    return { kind: 'write', weight: Math.min(1, strength), origins: [], text: `${name} replaces what it holds for its key, with strength ${short(strength)}` }
  })
}

function keyEvents(session: Session, step: number): MemoryEvent[] {
  const { key_size: keySize, write_heads: count } = session.run.model.memory!.options
  const { instruction, state } = session.steps[step]
  const { origins, weights } = state.memory!
  const events: MemoryEvent[] = []
  const several = Number(count ?? 1) > 1
  headNames('write', Number(count ?? 1)).forEach((name, head) => {
    const strength = instruction!.strength[head]
    if (strength < LEAST) return
    const at = keyText(headKeys(state.memory!, 'write', Number(keySize))[head])
    const text = `${several ? name : 'write'}: ${session.symbolAt(step)} becomes a row at ${at} with strength ${short(strength)}`
    events.push({ kind: 'write', weight: strength, origins: [step], text })
  })
  Object.entries(weights ?? {}).forEach(([name, read], head) => {
    const rows = [...read.keys()].filter((row) => read[row] >= LEAST).sort((a, b) => read[b] - read[a]).slice(0, 3)
    const what = rows.map((row) => `${session.symbolAt(origins[row]) || 'an initial row'} with weight ${short(read[row])}`).join(', ')
    events.push({
      kind: 'read', weight: rows.length ? read[rows[0]] : 0, origins: rows.map((row) => origins[row]),
      text: `${name} at ${keyText(headKeys(state.memory!, 'read', Number(keySize))[head])}: ${what || 'no row near it'}`,
    })
  })
  return events
}

/** What the runs of the automaton do, and what most of them have on top. */
function automatonEvents(session: Session, step: number): MemoryEvent[] {
  const memory = session.steps[step].state.memory!
  const does = { push: `push a symbol at input ${session.symbolAt(step)}`, replace: 'replace the symbol on top', pop: 'pop the symbol on top' }
  const events = TRANSITIONS.map((name, place): MemoryEvent => {
    const weight = memory.shown!.transitions[place]
    return { kind: name === 'replace' ? 'keep' : name, weight, origins: name === 'push' ? [step] : [], text: `${short(weight)} of the runs ${does[name]}` }
  }).filter(({ weight }) => weight >= LEAST)
  const sizes = sizesOf(session.run.model.memory!)
  const shares = topShares(memory, sizes)
  const best = shares.indexOf(Math.max(...shares))
  const [likeliest] = topPushes(memory)
  const where = likeliest ? `; on top is mostly ${pushText(session, likeliest.origin).replace(/^pushed/, 'what was pushed')}` : ''
  events.push({
    kind: 'read', weight: shares[best], origins: likeliest && likeliest.origin >= 0 ? [likeliest.origin] : [],
    text: `read: ${topName(sizes, best)} with share ${short(shares[best])}${where}`,
  })
  return events
}

const spaced = (name: string): string => name.replaceAll('_', ' ')

function names(session: Session, origins: number[]): string {
  return origins.map((origin) => session.symbolAt(origin) || 'an initial item').join(', ')
}

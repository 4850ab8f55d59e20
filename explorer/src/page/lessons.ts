// What a first-time reader gets: three sentences on each memory, the symbols of a task, and a tour.

import type { TaskData } from '../data.ts'
import { type MemoryEvent, eventsOf } from './events.ts'
import type { Session } from './session.ts'

const STRENGTH = 'Its push and pop are gates between 0 and 1; a push of 0.5 stores a vector with strength 0.5.'

/** Three sentences on each kind of memory. */
export const INTRODUCTIONS: Record<string, [title: string, ...sentences: string[]]> = {
  stack: [
    'Stack', 'A stack holds a pile of vectors.',
    'A push puts a vector on top and a pop removes the top, so the last vector in is the first out.', STRENGTH,
  ],
  queue: [
    'Queue', 'A queue holds a line of vectors.',
    'A push adds a vector at the back and a pop removes the front, so the first vector in is the first out.', STRENGTH,
  ],
  deque: [
    'Deque', 'A deque is a line of vectors with two open ends, top and bottom.',
    'Each end has its own push, its own pop and its own read vector.',
    'Pushes and pops are gates between 0 and 1; a push of 0.5 stores a vector with strength 0.5.',
  ],
  superposition_stack: [
    'Superposition stack', 'A superposition stack holds numbers in cells; cell 0 is the top.',
    'PUSH writes a number on top, POP removes the top, and NO-OP keeps the stack.',
    'The actions have weights with sum 1, and the next stack is the weighted mean of their results.',
  ],
  superposition_list: [
    'Superposition list', 'A superposition list holds numbers in a row of cells; HEAD marks one cell.',
    'LEFT and RIGHT move HEAD by a cell, INSERT writes a number at HEAD, and NO-OP keeps the list.',
    'The actions have weights with sum 1, and the next list is the weighted mean of their results.',
  ],
  turing_tape: [
    'Turing tape', 'A Turing tape has a fixed number of slots, each with a vector.',
    'A write head erases and adds at a slot, and a read head returns a slot.',
    'A head finds a slot by its content or moves by a slot, and its attention can cover several slots.',
  ],
  rolling_tape: [
    'Rolling tape', 'A rolling tape is a ring of cells under a fixed head, each with a vector.',
    'A step writes the cell under the head, and then the ring moves: by a cell, or by the length of the input.',
    'The moves have weights with sum 1, and the next ring is the weighted mean of their results.',
  ],
  dnc: [
    'Memory of a DNC', 'This memory has a fixed number of slots, each with a vector.',
    'The write head takes a free slot, or finds one by its content; a read head can free the slot that it has read.',
    'A read head finds a slot by its content, or goes to the slot written before or after its last one.',
  ],
  nondeterministic_stack: [
    'Nondeterministic stack', 'This memory holds all stacks that an automaton with weighted transitions can have at once.',
    'At each step a transition pushes a symbol, replaces the symbol on top or pops it, and leads to a state.',
    'A run of the automaton is one choice of transitions; the read vector has the share of the runs with each state and top symbol.',
  ],
  lie_access: [
    'Lie-access memory', 'A Lie-access memory holds rows, each a vector at a point, its key.',
    'A write adds a row at a write head, and a read returns the rows near a read head.',
    'Each head moves by a shift or a turn from its last point, or jumps to a new point.',
  ],
  random_access: [
    'Random-access memory', 'A random-access memory holds rows, each a vector with a key.',
    'A write adds a row with a new key; a read returns the rows whose keys have a large inner product with its key.',
    'With a tape, the read key can also be the key of the row after or before the one that was read last.',
  ],
  delta_matrices: [
    'DeltaNet and DeltaProduct', 'This network has no external memory; each head of a layer keeps a matrix that maps keys to values.',
    'A write replaces a part of the value that the matrix holds for a key; a DeltaProduct writes several times at a step.',
    'The head then multiplies its matrix by a query, and the next layer gets the result.',
  ],
  attention_weights: [
    'Transformer', 'A Transformer has no external memory; it keeps a key and a value of each step that it has seen.',
    'Each head of a layer compares a query with all keys, and so gives each step a weight.',
    'The weights sum to 1, and the head returns the weighted mean of the values.',
  ],
  none: [
    'No external memory', 'This network has no external memory.',
    'All its information is in the hidden units of the controller.', 'The output has no other source.',
  ],
}

const TASKS: Record<string, string> = {
  copy: 'The task: repeat the source.',
  reversal: 'The task: repeat the source in reverse order.',
  bigram_flip: 'The task: repeat the source with each pair of symbols swapped.',
  equal: 'The task: predict the next symbol; each run of n a is followed by n b.',
  dyck: 'The task: decide after each symbol whether the brackets so far are balanced; u opens and d closes.',
}

/** Where a pop removes a vector, and where a read begins. */
const END: Record<string, string> = { stack: 'on top', queue: 'at the front', deque: 'at an end' }
const START: Record<string, string> = { stack: 'the top', queue: 'the front', deque: 'each end' }

/** Symbols and words that need a meaning, in the order in which a reader meets them. */
export function termsOf(task: TaskData, kind: string): [string, string][] {
  const terms: [string, string][] = []
  if (task.inputs.includes('<s>')) terms.push(['<s>', 'starts the sequence'])
  if (task.inputs.includes('|||')) terms.push(['|||', 'ends the source; the answer follows'])
  if (task.output_to_input !== null) terms.push(['?', `an input that is not played yet: in the answer, each input is the network's own last output`])
  if (task.outputs.includes('</s>')) terms.push(['</s>', 'ends the answer'])
  if (task.answer_token !== null) terms.push(['input in the answer', `${task.inputs[task.answer_token]} at each step, not the network's own output`])
  if (['stack', 'queue', 'deque'].includes(kind)) terms.push(['push', 'stores a vector of the current step, with a strength'], ['pop', `removes the vector ${END[kind]}`])
  if (kind === 'nondeterministic_stack') terms.push(['weight of a run', 'the product of the weights of its transitions, which a head sets at each step'])
  else if (kind === 'delta_matrices') terms.push(['strength', 'how much of the value of a key a write replaces; above 1 it goes beyond the new value'])
  else if (kind === 'attention_weights') terms.push(['attention weight', 'the share of a step in what a head reads'])
  else if (kind !== 'none') terms.push(['gate', 'a number between 0 (no) and 1 (yes), set by a head'])
  if (kind === 'delta_matrices' || kind === 'attention_weights') terms.push(['read vector', 'what all heads of all layers read at a step'])
  else if (kind !== 'none') {
    const rows = kind in END ? `: vectors from ${START[kind]} on, until their strengths sum to 1;` : ';'
    terms.push(['read vector', `the output of the memory${rows} it goes to the controller at the next step`])
  }
  return terms
}

export function taskText(task: TaskData): string {
  return TASKS[task.rule?.name ?? ''] ?? `The task: ${task.name.replaceAll('_', ' ')}.`
}

/** A part of the page that a stop points at. */
export type Part = 'ribbon' | 'flow' | 'memory' | 'outputs' | 'edit'

export interface Stop {
  title: string
  text: string
  step: number
  part: Part
}

/** The first step with an event that fits; another step where there is none. */
function stepWith(session: Session, fits: (event: MemoryEvent, step: number) => boolean, otherwise: number): number {
  const found = session.steps.findIndex((_, step) => eventsOf(session, step).some((event) => fits(event, step)))
  return found < 0 ? otherwise : found
}

/** The events of a step, as one sentence. */
function happening(session: Session, step: number, kinds: string[]): string {
  const texts = eventsOf(session, step).filter(({ kind }) => kinds.includes(kind)).slice(0, 2).map(({ text }) => text)
  return texts.length ? `Here: ${texts.join('; ')}.` : 'Here the memory stays as it is.'
}

/** Five stops on the run that is shown; none without a memory. */
export function tourOf(session: Session): Stop[] {
  const kind = session.run.model.memory?.kind ?? 'none'
  const { steps, plan, task } = session
  if (kind === 'none' || steps.length === 0) return []
  const form = FORMS[kind] ?? 'rows'
  const last = steps.length - 1
  const inAnswer = plan.then !== 'stop'
  const start = task.inputs.includes('<s>') ? ' <s> starts the sequence, and grey outputs have no target.' : ' Grey outputs have no target.'
  const first: Stop = {
    title: 'A step', part: 'ribbon', step: 0,
    text: `Each column is a step: the network gets one input symbol and predicts one output symbol.${start} Outputs stay hidden until they are played.`,
  }
  const writing = stepWith(session, ({ kind: each, weight, origins }, step) => (each === 'push' || each === 'write') && weight >= 0.5 && (origins.includes(step) || each === 'write') && (step > 0 || !inAnswer), Math.min(1, last))
  const full = inAnswer ? Math.min(last, plan.prompt - 1) : fullest(session)
  const leaving = stepWith(session, ({ kind: each, weight, origins }, step) => step > writing && weight >= 0.5 && (each === 'pop' || each === 'move') && (origins.length > 0 || form !== 'rows'), full)
  const reading = stepWith(session, ({ kind: each, weight }, step) => step >= full && each === 'read' && weight >= 0.3, full)
  const noChange = session.isLive ? 'This memory has no gates that could be changed by hand.' : 'This page has a stored trace, so steps cannot be changed.'
  const lastStop: Stop = session.isLive && kind in CHANGES
    ? {
        title: 'Change a step by hand', part: 'edit', step: writing,
        text: `Here the memory stores ${session.symbolAt(writing)}. ${CHANGES[kind] ?? ''} Then play on: the rest is computed again, and the first error is marked. “Undo the changes” restores the network.`,
      }
    : { title: 'The distribution', part: 'outputs', step: last, text: `The bars are the probabilities of the output symbols. ${noChange}` }
  const ended = inAnswer ? '||| ends the source. ' : ''
  const kept = `Each row of ${kind === 'delta_matrices' ? 'a matrix is a place of the keys, each column a place of the values' : 'the picture is a step, each column a head'}`
  const middle: Record<string, [Stop, Stop, Stop]> = {
    rows: [
      { title: 'Push', part: 'flow', step: writing, text: `The heads set the gates, and the push gate stores a vector of this step. ${happening(session, writing, ['push'])}` },
      { title: `The items of the ${kind}`, part: 'memory', step: full, text: `${ended}The list shows the items: the blue bar is the strength, the amber bar the weight in the read vector. The map shows all strengths over time.` },
      { title: 'Pop and read', part: 'flow', step: leaving, text: `A pop removes the item ${END[kind]}. ${happening(session, leaving, ['pop', 'read'])} The controller gets this read vector at the next step.` },
    ],
    cells: [
      { title: kind === 'superposition_list' ? 'Insert' : 'Push', part: 'flow', step: writing, text: `The heads give each action a weight. ${happening(session, writing, ['push'])}` },
      { title: 'The cells', part: 'memory', step: full, text: 'Each column is one structure, with its strongest action above it. A hatched cell is empty: it counts as the number below the cells, and holds no written value.' },
      { title: kind === 'superposition_list' ? 'Move' : 'Pop', part: 'flow', step: leaving, text: `${kind === 'superposition_list' ? 'A move shifts HEAD by a cell.' : 'A pop moves every number up by a cell.'} ${happening(session, leaving, ['pop', 'move'])}` },
    ],
    tape: [
      { title: 'Write', part: 'flow', step: writing, text: `The write head erases and adds at its slot. ${happening(session, writing, ['write'])}` },
      { title: 'The tape', part: 'memory', step: full, text: 'Each row of the picture is a slot with its numbers: blue above 0, orange below 0. The maps show where each head is at every step.' },
      { title: 'Read', part: 'flow', step: reading, text: `The read vector is the mean of the slots, weighted by attention. ${happening(session, reading, ['read'])}` },
    ],
    ring: [
      { title: 'Write', part: 'flow', step: writing, text: `A vector is written under the head, and then the ring moves. ${happening(session, writing, ['write', 'move'])}` },
      { title: 'The ring', part: 'memory', step: full, text: `${ended}The upper map shows the cells around the head at every step, the lower one the moves. The head stays in the middle, and the cells move.` },
      { title: 'Read', part: 'flow', step: reading, text: `The read vector is the cell under the head. ${happening(session, reading, ['read'])}` },
    ],
    runs: [
      { title: 'Push', part: 'flow', step: writing, text: `The head weighs all transitions. A share is a part of the weight of all runs. ${happening(session, writing, ['push', 'keep', 'pop'])}` },
      { title: 'Where the symbol on top comes from', part: 'memory', step: full, text: `${ended}Each column of the first map is a step. It shows which step pushed the symbol that is on top now: up the diagonal where runs push, and back down where they pop.` },
      { title: 'Read', part: 'flow', step: leaving, text: `The read vector has the shares of all states and top symbols. ${happening(session, leaving, ['pop', 'read'])}` },
    ],
    keys: [
      { title: 'Write', part: 'flow', step: writing, text: `${kind === 'lie_access' ? 'The write head moves first, and then adds a row at its point.' : 'A write adds a row at the key that a head gives.'} ${happening(session, writing, ['write'])}` },
      { title: 'The plane', part: 'memory', step: full, text: `${ended}Each dot is a row; a circle is a read head, a square a write head. A line is the path of a read head so far.` },
      { title: 'Read', part: 'flow', step: reading, text: `${kind === 'lie_access' ? 'The rows nearest to a read head' : 'The rows whose keys have the largest inner product with the read key'} get the largest weights. ${happening(session, reading, ['read'])}` },
    ],
    matrices: [
      { title: 'Write', part: 'flow', step: writing, text: `Each head replaces the value of a key in its matrix. ${happening(session, writing, ['write'])}` },
      { title: 'The matrices', part: 'memory', step: full, text: `${kept}: blue above 0, orange below 0. The map shows the strength of each write at every step.` },
      { title: 'Read', part: 'flow', step: reading, text: 'Each head multiplies its matrix by a query. The read vector has the results of all heads.' },
    ],
    attention: [
      { title: 'Attention', part: 'flow', step: Math.min(1, last), text: `Each head gives the steps weights, and reads their mean. ${happening(session, Math.min(1, last), ['read'])}` },
      { title: 'The weights of a step', part: 'memory', step: full, text: `${kept}. The list has the steps with the largest weights.` },
      { title: 'The weights over time', part: 'memory', step: last, text: 'Each map has a column for each step, with the weights of one head. A diagonal means that the head looks back by a fixed distance.' },
    ],
  }
  return [first, ...middle[form], lastStop]
}

/** The form of the tour by the kind of memory, where it is no row of items with strengths. */
const FORMS: Record<string, string> = {
  superposition_stack: 'cells', superposition_list: 'cells', turing_tape: 'tape', dnc: 'tape', rolling_tape: 'ring',
  nondeterministic_stack: 'runs', lie_access: 'keys', random_access: 'keys', delta_matrices: 'matrices', attention_weights: 'attention',
}

const CHANGES: Record<string, string> = {
  stack: 'Move push to 0: the symbol is not stored.', queue: 'Move push to 0: the symbol is not stored.',
  deque: 'Move both pushes to 0: the symbol is not stored.',
  superposition_stack: 'Choose POP for a stack: the number is not stored.', superposition_list: 'Choose another action for a list.',
  turing_tape: 'Move the write gate: at 1 the head goes to content, at 0 it moves from its last slot.',
  rolling_tape: 'Choose another move: all later cells are under the head at another step.',
  dnc: 'Move the allocation gate: at 1 the head writes to a free slot, at 0 by content.',
  lie_access: 'Move strength to 0: the row is not written.', random_access: 'Move strength to 0: the row is not written.',
}

/** The step at which the memory has the most written cells or strength. */
function fullest(session: Session): number {
  let [best, most] = [0, -1]
  session.steps.forEach(({ state }, step) => {
    if (!state.memory) return
    const { strengths, cells } = state.memory.fields
    const held = state.memory.shown?.height ? state.memory.shown.height[0] : strengths ? strengths.reduce((sum, each) => sum + each, 0) : (cells ?? Object.values(state.memory.fields)[0]).reduce((sum, each) => sum + Math.max(0, each), 0)
    if (held > most + 1e-6) [best, most] = [step, held]
  })
  return best
}

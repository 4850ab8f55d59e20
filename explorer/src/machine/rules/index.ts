// The target of a typed source, and random sources, of the tasks whose rule the page knows.

import type { RuleData, TaskData } from '../../data.ts'
import { type Answer, EVEN, carried, ordered, repeated, sorted } from './answers.ts'
import { translated } from './grammar.ts'
import { added, backwards, counted, dyckLabels } from './streams.ts'

/** The target at each step of the answer or of the input, null where anything is; or why no one knows. */
export interface Targets {
  targets: (number | null)[] | null
  why: string
}

export function targetsOf(task: TaskData, source: number[]): Targets {
  const { rule } = task
  if (!rule) return { targets: null, why: task.no_rule }
  const answer = answerOf(task, rule, source)
  if (typeof answer === 'string') return { targets: null, why: answer }
  // The end is output 0, and symbols have their numbers behind it.
  if (answer) return { targets: [...answer.map((symbol) => symbol + 1), task.end_token], why: '' }
  const next = nextOf(rule, source)
  // The first step of a stream reads what stands before every stream.
  return { targets: task.layout === 'stream' ? [null, ...next] : next, why: '' }
}

/** The symbols of the answer, why there is none, or null where the task has no answers. */
function answerOf(task: TaskData, rule: RuleData, source: number[]): Answer | null {
  const symbols = source.map((token) => token - task.source[0])
  const mark = task.source[1] - 1
  if (rule.kind === 'order') return ordered(rule.name, symbols)
  if (rule.kind === 'digits') return carried(rule.name, symbols)
  if (rule.kind === 'marks') return rule.name === 'sort' ? sorted(symbols, mark) : repeated(symbols, mark)
  if (rule.kind !== 'grammar' || !rule.grammar) return null
  const sources = task.inputs.slice(task.source[0], task.source[0] + task.source[1])
  const words = symbols.map((symbol) => sources[symbol])
  return translated(rule.grammar, words, sources, task.outputs.slice(1)) ?? 'the grammar of this task does not derive it as a sentence.'
}

/** What is determined after each symbol of a stream, or of each prefix. */
function nextOf(rule: RuleData, source: number[]): (number | null)[] {
  if (rule.kind === 'counting') return counted(source, rule.name, rule.letters ?? 2, rule.repeats ?? 1)
  if (rule.kind === 'backwards') return backwards(source, 0)
  if (rule.kind === 'sum') return added(source)
  return dyckLabels(source, rule.kinds ?? 1, rule.last ?? false)
}

/** How many brackets are open after each, of the tasks that have a path; null of others. */
export function heightsOf(task: TaskData, source: number[]): number[] | null {
  if (task.rule?.kind !== 'dyck') return null
  let height = 0
  const kinds = task.rule.kinds ?? 1
  return source.map((token) => (height += token < kinds ? 1 : -1))
}

/** A random source of a length; null where only stored samples are. */
export function drawn(task: TaskData, length: number): number[] | null {
  const { rule } = task
  const [first, count] = task.source
  if (!rule || rule.kind === 'grammar') return null
  if (rule.kind === 'order' || rule.kind === 'digits') {
    const size = rule.name === 'addition' ? 2 * length : EVEN.has(rule.name) ? 2 * Math.max(1, Math.round(length / 2)) : length
    return Array.from({ length: size }, () => first + below(count))
  }
  if (rule.kind === 'marks') return drawnMarks(rule, length, count - 1).map((symbol) => first + symbol)
  if (rule.kind === 'dyck') return drawnWord(rule.kinds ?? 1, length)
  const lengths = [length, 1 + below(length)]
  if (rule.kind === 'sum') return lengths.flatMap(drawnSum)
  if (rule.kind === 'backwards') {
    return lengths.flatMap((n) => {
      const word = Array.from({ length: n }, () => 1 + below(count - 1))
      return [...word, 0, ...[...word].reverse()]
    })
  }
  return lengths.flatMap((n) => drawnRuns(rule, n))
}

/** A short input that shows what the memory does; null where only a stored sample can. */
export function instructive(task: TaskData): number[] | null {
  const { rule } = task
  const [first, count] = task.source
  if (!rule || !task.typed) return null
  if (rule.kind === 'order') {
    const length = Math.max(task.lengths[0], Math.min(4, task.lengths[1]))
    const size = EVEN.has(rule.name) ? 2 * Math.ceil(length / 2) : length
    return Array.from({ length: size }, (_, place) => first + (place % count))
  }
  if (rule.kind === 'counting') return [3, 2].flatMap((n) => runsOf(rule, n, 1))
  if (rule.kind !== 'dyck') return null
  const kinds = rule.kinds ?? 1
  const inner = kinds > 1 ? 1 : 0
  return [0, inner, kinds + inner, 0, kinds, kinds]
}

const TWO_RUNS = new Set(['sum', 'product', 'crossed'])

function drawnRuns(rule: RuleData, n: number): number[] {
  return runsOf(rule, n, 1 + below(Math.max(1, n - 1)))
}

/** A sequence of counting: a first run of n symbols, of which m belong to a second run where there are two. */
function runsOf(rule: RuleData, n: number, m: number): number[] {
  const two = TWO_RUNS.has(rule.name)
  const begin = [...new Array<number>(two ? Math.max(1, n - m) : n).fill(0), ...new Array<number>(two ? m : 0).fill(1)]
  const run = [...begin, two ? 2 : 1]
  // What comes then, up to the beginning of the next sequence, is determined.
  for (;;) {
    const next = counted(run, rule.name, rule.letters ?? 2, rule.repeats ?? 1).at(-1)
    if (!next) return run
    run.push(next)
  }
}

function drawnMarks(rule: RuleData, length: number, symbols: number): number[] {
  if (rule.name === 'sort') {
    const order = Array.from({ length }, (_, place) => place)
    for (let k = length - 1; k > 0; k--) {
      const other = below(k + 1)
      ;[order[k], order[other]] = [order[other], order[k]]
    }
    return order.flatMap((marks) => [...new Array<number>(marks).fill(symbols), below(symbols)])
  }
  const sequence = Array.from({ length: rule.sequence_length ?? 1 }, () => below(symbols))
  return [...new Array<number>(length).fill(symbols), ...sequence]
}

/** Two binary numbers of so many digits together, with what they make. */
function drawnSum(digits: number): number[] {
  const share = 1 + below(Math.max(1, digits - 1))
  const number = (size: number): number[] => Array.from({ length: Math.max(1, size) }, (_, place) => 3 + (place === 0 && size > 0 ? 1 : below(2)))
  const sum = [...number(share), 0, ...number(digits - share), 1]
  for (;;) {
    const next = added(sum).at(-1)
    if (next === null || next === undefined) return sum
    sum.push(next)
  }
}

function drawnWord(kinds: number, length: number): number[] {
  const open: number[] = []
  const even = 2 * Math.ceil(length / 2)
  return Array.from({ length: even }, (_, step) => {
    const mustClose = open.length >= even - step
    if (open.length === 0 || (!mustClose && Math.random() < 0.5)) {
      const kind = below(kinds)
      open.push(kind)
      return kind
    }
    return kinds + (open.pop() ?? 0)
  })
}

const below = (count: number): number => Math.floor(Math.random() * count)

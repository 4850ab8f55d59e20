// The truth for a typed source, and random sources, of the tasks whose rule is short.

import type { RuleData, TaskData } from '../data.ts'

/** The source place that stands at each place of the target, of `length` symbols. */
const ORDERS: Record<string, (place: number, length: number) => number> = {
  copy: (place) => place,
  reversal: (place, length) => length - 1 - place,
  bigram_flip: (place) => place ^ 1,
  odd_first: (place, length) =>
    2 * place < length ? 2 * place : 2 * place - 2 * Math.floor((length + 1) / 2) + 1,
}

const EVEN = new Set(['bigram_flip', 'odd_first'])

/** What each letter's number is, given n and m, in the order of the alphabet. */
const COUNTS: Record<string, (n: number, m: number) => number[]> = {
  anbn: (n) => [n, n],
  anbncn: (n) => [n, n, n],
  anbncndn: (n) => [n, n, n, n],
  anb2n: (n) => [n, 2 * n],
  anbmc_sum: (n, m) => [n, m, n + m],
  anbmc_product: (n, m) => [n, m, n * m],
  anbmcndm: (n, m) => [n, m, n, m],
}

/** Output tokens that are right at each step of the answer or of the input; null if unknown. */
export function truthOf(task: TaskData, source: number[]): (number | null)[] | null {
  const { rule } = task
  if (!rule) return null
  if (rule.kind === 'order') {
    if (EVEN.has(rule.name) && source.length % 2) return null
    const order = ORDERS[rule.name]
    // The end is output 0, and symbols have their numbers behind it.
    const answer = source.map((_, place) => source[order(place, source.length)] - task.source[0] + 1)
    return [...answer, task.end_token]
  }
  if (rule.kind === 'counting') {
    // The first step reads what stands before every stream.
    return [null, ...source.map((token, step) => {
      const next = source[step + 1]
      return rule.decided.includes(token) && next !== undefined ? next : null
    })]
  }
  if (rule.kind === 'backwards') return backwards(source, rule.decided[0])
  return dyckLabels(source, rule.kinds)
}

/** Of words that come backwards after a separator: what comes after it is determined. */
function backwards(source: number[], separator: number): (number | null)[] {
  const truth: (number | null)[] = [null]
  let word: number[] = []
  let left: number[] | null = null
  for (const token of source) {
    if (left) left = left.slice(0, -1)
    else if (token === separator) left = word
    else word.push(token)
    if (left?.length === 0) [left, word] = [null, []]
    truth.push(left?.at(-1) ?? null)
  }
  return truth
}

function dyckLabels(source: number[], kinds: number): number[] {
  const open: number[] = []
  let sound = true
  return source.map((token) => {
    if (token < kinds) open.push(token)
    else if (open.pop() !== token - kinds) sound = false
    return sound && open.length === 0 ? 1 : 0
  })
}

/** How many brackets are open after each, of the tasks that have a path; null of others. */
export function heightsOf(task: TaskData, source: number[]): number[] | null {
  if (task.rule?.kind !== 'dyck') return null
  let height = 0
  const { kinds } = task.rule
  return source.map((token) => (height += token < kinds ? 1 : -1))
}

/** A random source of a length; null where only stored samples are. */
export function drawn(task: TaskData, length: number): number[] | null {
  const { rule } = task
  const [first, count] = task.source
  if (!rule) return null
  if (rule.kind === 'order') {
    const even = EVEN.has(rule.name) ? 2 * Math.max(1, Math.round(length / 2)) : length
    return Array.from({ length: even }, () => first + below(count))
  }
  if (rule.kind === 'dyck') return drawnWord(rule, length)
  const words: number[] = []
  if (rule.kind === 'backwards') {
    for (const n of [length, 1 + below(length)]) {
      const word = Array.from({ length: n }, () => 1 + below(count - 1))
      words.push(...word, rule.decided[0], ...[...word].reverse())
    }
    return words
  }
  const counts = COUNTS[rule.name]
  if (!counts) return null
  for (const n of [length, 1 + below(length)]) {
    const two = /m/.test(rule.name)
    const m = two ? 1 + below(Math.max(1, n - 1)) : 0
    const letters = counts(two ? Math.max(1, n - m) : n, m)
    letters.forEach((times, letter) => words.push(...new Array<number>(times).fill(letter)))
  }
  return words
}

function drawnWord(rule: RuleData, length: number): number[] {
  const open: number[] = []
  const even = 2 * Math.ceil(length / 2)
  return Array.from({ length: even }, (_, step) => {
    const mustClose = open.length >= even - step
    if (open.length === 0 || (!mustClose && Math.random() < 0.5)) {
      const kind = below(rule.kinds)
      open.push(kind)
      return kind
    }
    return rule.kinds + (open.pop() ?? 0)
  })
}

const below = (count: number): number => Math.floor(Math.random() * count)

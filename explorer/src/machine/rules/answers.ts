// Answers that are computed: orders of symbols, digits that are carried, marks that count.

/** The target of an answer, or why there is none. */
export type Answer = number[] | string

/** The source place that stands at each place of the target, of `length` symbols. */
const ORDERS: Record<string, (place: number, length: number) => number> = {
  copy: (place) => place,
  reversal: (place, length) => length - 1 - place,
  bigram_flip: (place) => place ^ 1,
  odd_first: (place, length) =>
    2 * place < length ? 2 * place : 2 * place - 2 * Math.floor((length + 1) / 2) + 1,
}

/** Tasks whose sources have an even number of symbols. */
export const EVEN = new Set(['bigram_flip', 'odd_first', 'addition'])

const ODD = 'this task has sources with an even number of symbols.'

export function ordered(name: string, symbols: number[]): Answer {
  if (EVEN.has(name) && symbols.length % 2) return ODD
  const order = ORDERS[name]
  return symbols.map((_, place) => symbols[order(place, symbols.length)])
}

/** Twice a number, or the sum of two whose digits come in turns; the lowest digit first. */
export function carried(name: string, digits: number[]): Answer {
  if (EVEN.has(name) && digits.length % 2) return ODD
  const sums = name === 'addition'
    ? digits.filter((_, place) => place % 2 === 0).map((digit, place) => digit + digits[2 * place + 1])
    : digits.map((digit) => 2 * digit)
  let carry = 0
  const answer = sums.map((sum) => {
    const total = sum + carry
    carry = total >= 10 ? 1 : 0
    return total % 10
  })
  return [...answer, carry]
}

/** Symbols as often as there are marks before them. */
export function repeated(symbols: number[], mark: number): Answer {
  const times = symbols.findIndex((symbol) => symbol !== mark)
  const block = symbols.slice(Math.max(0, times))
  if (times < 1 || block.includes(mark)) return 'this task has sources of marks, and then symbols.'
  return Array.from({ length: times }, () => block).flat()
}

/** Symbols by the number of marks before each. */
export function sorted(symbols: number[], mark: number): Answer {
  const answer: number[] = []
  let marks = 0
  let count = 0
  for (const symbol of symbols) {
    if (symbol === mark) {
      marks++
      continue
    }
    if (answer[marks] !== undefined) return `two symbols have ${marks} marks before them; here each number of marks comes once.`
    answer[marks] = symbol
    marks = 0
    count++
  }
  const whole = marks === 0 && answer.length === count
  return whole ? answer : 'this task has sources of k symbols with 0 to k - 1 marks before them, each number once.'
}

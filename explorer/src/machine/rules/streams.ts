// What is determined in a stream: after each symbol the next one, or null where it may be any.

type Next = (number | null)[]

/** What each run's length is, given n and m. */
const RUNS: Record<string, (n: number, m: number, letters: number, repeats: number) => number[]> = {
  equal: (n, _, letters) => new Array<number>(letters).fill(n),
  repeated: (n, _, __, repeats) => [n, repeats * n],
  sum: (n, m) => [n, m, n + m],
  product: (n, m) => [n, m, n * m],
  crossed: (n, m) => [n, m, n, m],
}

/** Runs whose length is free; what follows them is determined from its first letter on. */
const FREE: Record<string, number> = { equal: 1, repeated: 1, sum: 2, product: 2, crossed: 2 }
/** The forms whose last run is of any of the letters that are left. */
const CHOSEN = new Set(['repeated', 'product'])

/** Sequences of runs of letters, one after the other. */
export function counted(source: number[], form: string, letters: number, repeats: number): Next {
  const free = FREE[form]
  const lengths = [0, 0]
  let expected: number[] = []
  let sound = true
  return source.map((letter) => {
    if (!sound) return null
    if (expected.length > 0) {
      const [right, ...rest] = expected
      sound = letter === right
      expected = rest
      // The first letter of the next sequence has been read.
      if (expected.length === 0) [lengths[0], lengths[1]] = [1, 0]
      return sound ? (expected[0] ?? null) : null
    }
    const runs = lengths[1] > 0 ? 2 : lengths[0] > 0 ? 1 : 0
    if (letter < free) {
      sound = letter === runs || letter === runs - 1
      lengths[letter]++
      return null
    }
    sound = runs === free && (letter === free || CHOSEN.has(form))
    if (!sound) return null
    const tail = RUNS[form](lengths[0], lengths[1], letters, repeats).slice(free)
    const all = tail.flatMap((length, place) => new Array<number>(length).fill(letter + place))
    expected = [...all.slice(1), 0]
    return expected[0]
  })
}

/** Of words that come backwards after a separator: what comes after it. */
export function backwards(source: number[], separator: number): Next {
  let word: number[] = []
  let left: number[] | null = null
  return source.map((token) => {
    if (left) left = left.slice(0, -1)
    else if (token === separator) left = word
    else word.push(token)
    if (left?.length === 0) [left, word] = [null, []]
    return left?.at(-1) ?? null
  })
}

const [PLUS, EQUALS, POINT, ZERO] = [0, 1, 2, 3]

/** Binary sums: two numbers, highest digit first, and what they make, lowest digit first. */
export function added(source: number[]): Next {
  let numbers: number[][] = [[]]
  let expected: number[] = []
  let sound = true
  return source.map((token) => {
    if (!sound) return null
    if (expected.length > 0) {
      sound = token === expected[0]
      expected = expected.slice(1)
      if (sound && expected.length === 0) numbers = [[]]
      return sound ? (expected[0] ?? null) : null
    }
    const own = numbers[numbers.length - 1]
    if (token >= ZERO) own.push(token - ZERO)
    else if (own.length === 0 || (token === PLUS) !== (numbers.length === 1)) sound = false
    else if (token === PLUS) numbers.push([])
    else if (token === EQUALS) expected = [...sumOf(numbers).map((digit) => ZERO + digit), POINT]
    else sound = false
    return sound ? (expected[0] ?? null) : null
  })
}

function sumOf([first, second]: number[][]): number[] {
  const digits: number[] = []
  let carry = 0
  for (let place = 1; place <= Math.max(first.length, second.length) + 1; place++) {
    const total = (first.at(-place) ?? 0) + (second.at(-place) ?? 0) + carry
    digits.push(total & 1)
    carry = total >> 1
  }
  while (digits.length > 1 && digits.at(-1) === 0) digits.pop()
  return digits
}

/** Whether each prefix is a Dyck word; with `last`, of the whole word alone. */
export function dyckLabels(source: number[], kinds: number, last: boolean): Next {
  const open: number[] = []
  let sound = true
  return source.map((token, step) => {
    if (token < kinds) open.push(token)
    else if (open.pop() !== token - kinds) sound = false
    if (last && step < source.length - 1) return null
    return sound && open.length === 0 ? 1 : 0
  })
}

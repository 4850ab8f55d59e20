// Sentences of a grammar that derives source and target together: the source is parsed, and what its
// derivation gives is the target. In the grammars of this library a source has one target.

import type { GrammarData } from '../../data.ts'

/** A symbol of a rule: a word, one of a class, or a nonterminal; -1 where it is none of these. */
interface Part {
  key: string
  word: number
  kind: number
  nonterminal: number
}

interface Rule {
  left: number
  source: Part[]
  target: string[]
  /** The places of the nonterminals in the source, two at the most. */
  inner: number[]
}

const bare = (symbol: string): string => symbol.replace(/\d+$/, '')

/** The target of a sentence, in places of the target's words; null if it is no sentence. */
export function translated(grammar: GrammarData, words: string[], sources: string[], targets: string[]): number[] | null {
  const names = [...new Set(grammar.rules.map(([left]) => left))]
  const part = (key: string): Part => {
    const kind = grammar.classes.findIndex(([name]) => name === bare(key))
    const nonterminal = names.indexOf(bare(key))
    return { key, kind, nonterminal, word: kind < 0 && nonterminal < 0 ? sources.indexOf(key) : -1 }
  }
  const rules: Rule[] = grammar.rules.map(([left, source, target]) => {
    const parts = source.split(' ').map(part)
    const inner = parts.flatMap(({ nonterminal }, place) => (nonterminal >= 0 ? [place] : []))
    return { left: names.indexOf(left), source: parts, target: target.split(' '), inner }
  })
  const tokens = words.map((word) => sources.indexOf(word))
  const [kinds, numbers] = classesOf(grammar, words)
  const size = words.length
  // Of each nonterminal and span, one more than the rule that derives it, and where its first part ends.
  const derived = names.map(() => new Int16Array((size + 1) * (size + 1)))
  const splits = names.map(() => new Int16Array((size + 1) * (size + 1)))
  const fits = ({ word, kind }: Part, place: number): boolean => (kind >= 0 ? kinds[place] === kind : word >= 0 && tokens[place] === word)

  const spread = (rule: Rule, begin: number, end: number): number | null => {
    const { source, inner } = rule
    const length = end - begin
    if (inner.length === 0 ? length !== source.length : length < source.length) return null
    const [first, last] = [inner[0] ?? source.length, inner.at(-1) ?? -1]
    for (let k = 0; k < first; k++) if (!fits(source[k], begin + k)) return null
    for (let k = source.length - 1; k > last && k >= first; k--) if (!fits(source[k], end - (source.length - k))) return null
    if (inner.length === 0) return end
    const [from, to] = [begin + first, end - (source.length - 1 - last)]
    const at = (place: number, a: number, b: number): boolean => derived[source[place].nonterminal][a * (size + 1) + b] > 0
    if (inner.length === 1) return at(first, from, to) ? to : null
    const between = last - first - 1
    for (let middle = from + 1; middle + between < to; middle++) {
      if (!at(first, from, middle) || !at(last, middle + between, to)) continue
      let whole = true
      for (let k = 0; k < between && whole; k++) whole = fits(source[first + 1 + k], middle + k)
      if (whole) return middle
    }
    return null
  }

  for (let length = 1; length <= size; length++) {
    for (let begin = 0; begin + length <= size; begin++) {
      const span = begin * (size + 1) + begin + length
      // Again while something was found: a nonterminal may stand for another one alone.
      for (let again = true; again;) {
        again = false
        rules.forEach((rule, number) => {
          if (derived[rule.left][span]) return
          const split = spread(rule, begin, begin + length)
          if (split === null) return
          derived[rule.left][span] = number + 1
          splits[rule.left][span] = split
          again = true
        })
      }
    }
  }

  const translate = (nonterminal: number, begin: number, end: number): number[] => {
    const span = begin * (size + 1) + end
    const { source, target, inner } = rules[derived[nonterminal][span] - 1]
    const split = splits[nonterminal][span]
    const parts = new Map<string, number[]>()
    let place = begin
    source.forEach(({ key, kind, nonterminal: own }, k) => {
      const next = own < 0 ? place + 1 : k === inner[0] ? split : end - (source.length - 1 - k)
      if (own >= 0) parts.set(key, translate(own, place, next))
      else if (kind >= 0) parts.set(key, [targets.indexOf(`${grammar.classes[kind][2]}${numbers[place]}`)])
      place = next
    })
    return target.flatMap((symbol) => parts.get(symbol) ?? [targets.indexOf(symbol)])
  }

  const root = names.indexOf(grammar.root)
  return size > 0 && derived[root][size] ? translate(root, 0, size) : null
}

/** The class of each word, -1 for one of none, and its number in it. */
function classesOf(grammar: GrammarData, words: string[]): [number[], number[]] {
  const kinds: number[] = []
  const numbers: number[] = []
  for (const word of words) {
    const number = Number(/\d+$/.exec(word)?.[0] ?? 0)
    const kind = grammar.classes.findIndex(([, prefix, , count]) => word === `${prefix}${number}` && number >= 1 && number <= count)
    kinds.push(kind)
    numbers.push(number)
  }
  return [kinds, numbers]
}

// The Lie-access memory: move the heads, read what was there, append a row at each write head. Yang
// 2016, arXiv:1602.08671, section 3.

import type { Instruction } from '../heads.ts'
import { grown } from '../grown.ts'
import { type Vector, joined } from '../tensors.ts'
import { groupOf } from './groups.ts'
import { type MemoryMaker, fieldsOf, headNames, optionOf } from './memory.ts'
import { readRows, shares } from './strengths.ts'

const DISTANCE_FLOOR = 1e-10
const TEMPERATURE_FLOOR = 1e-6
/** What is added to the square of an action's length; null leaves the length as it is. */
const STEPS: Record<string, number | null> = {
  free: null, normalised: 1e-12, bounded: 1, normalised_candidate: 1e-12,
}

/** Rows of the memory, each with the step and the write head that it came from. */
interface Rows {
  keys: Vector
  values: Vector
  strengths: Vector
  origins: Int32Array
  writers: Int32Array
}

export const lieAccess: MemoryMaker = (data) => {
  const width = optionOf(data, 'width')
  const keySize = optionOf(data, 'key_size')
  const counts = { read: Number(data.options.read_heads ?? 1), write: Number(data.options.write_heads ?? 1) }
  const readers = headNames('read', counts.read)
  const group = groupOf(String(data.options.group), keySize)
  const floor = STEPS[String(data.options.step)]
  /** Whether the candidate is brought to a length before it is mixed, and not the action after. */
  const candidateFirst = data.options.step === 'normalised_candidate'
  const capacity = data.options.capacity as number | null
  const drop = Number(data.options.drop ?? 1)
  const isSoftmax = data.options.weighting === 'softmax'

  const partOf = (numbers: Vector, head: number, count: number): Vector => {
    const size = numbers.length / count
    return numbers.subarray(head * size, (head + 1) * size)
  }

  /** The next key and action of a head. */
  const moved = (who: 'read' | 'write', head: number, instruction: Instruction, fields: Record<string, Vector>): [Vector, Vector] => {
    const own = (numbers: Vector): Vector => partOf(numbers, head, counts[who])
    const before = (name: string): Vector => own(fields[`${who}_${name}`])
    const mixed = (name: string, fresh: Vector, count = fresh.length): Vector => {
      const gate = instruction[`${who}_${name}_gate`]?.[head]
      if (gate === undefined) return fresh
      const old = before(name)
      return fresh.map((number, i) => (i < count ? gate * number + (1 - gate) * old[i] : old[i]))
    }
    const bounded = (action: Vector): Vector => (floor === null ? action : group.shorten(action, floor))
    const candidate = group.candidate(own(instruction[`${who}_action`]), before('action'))
    const action = candidateFirst
      ? mixed('action', bounded(candidate), group.mixed)
      : bounded(mixed('action', candidate, group.mixed))
    const applied = group.normalise(action)
    const key = mixed('key', group.candidateKey(own(instruction[`${who}_key`])))
    return [group.act(applied, group.place(key)), applied]
  }

  return {
    begin(initial) {
      const fields = fieldsOf(initial)
      const none = new Int32Array(fields.strengths.length).fill(-1)
      // A row that was learned stands for each write head.
      return { fields, origins: none, shown: { writers: Float64Array.from(none.keys(), (row) => row % counts.write) } }
    },
    step(state, instruction, step) {
      const { keys, values, strengths } = state.fields
      const fields: Record<string, Vector> = {}
      for (const who of ['read', 'write'] as const) {
        const heads = Array.from({ length: counts[who] }, (_, head) => moved(who, head, instruction, state.fields))
        fields[`${who}_key`] = joined(...heads.map(([key]) => key))
        fields[`${who}_action`] = joined(...heads.map(([, action]) => action))
      }
      const weights: Record<string, Vector> = {}
      readers.forEach((name, head) => {
        const readKey = partOf(fields.read_key, head, counts.read)
        const distances = strengths.map((_, row) => group.distance(readKey, keys.subarray(row * keySize, (row + 1) * keySize)))
        weights[name] = isSoftmax
          ? softmaxWeights(distances, strengths, instruction.temperature[head])
          : inverseSquares(distances, strengths)
      })
      const readVector = joined(...readers.map((name) => readRows(weights[name], values, width)))
      let rows: Rows = { keys, values, strengths, origins: state.origins, writers: Int32Array.from(state.shown!.writers) }
      const grows = capacity === null || strengths.length + counts.write <= capacity
      for (let head = 0; head < counts.write; head++) {
        const fresh = [partOf(fields.write_key, head, counts.write), partOf(instruction.value, head, counts.write), instruction.strength.subarray(head, head + 1)]
        rows = appended(rows, fresh, [step, head], grows)
      }
      return {
        readVector,
        state: {
          fields: { keys: rows.keys, values: rows.values, strengths: rows.strengths, ...fields },
          origins: rows.origins, weights, shown: { writers: Float64Array.from(rows.writers) },
        },
      }
    },
    weights: (state) => state.weights ?? {},
  }

  /** A row more; at the capacity the oldest make room. */
  function appended(rows: Rows, [key, value, strength]: Vector[], [step, writer]: [number, number], grows: boolean): Rows {
    const count = rows.strengths.length
    const joinedTo = (kept: number[], held: Vector): Rows => ({
      keys: grown(new Float64Array(), picked(rows.keys, keySize, kept), key),
      values: grown(new Float64Array(), picked(rows.values, width, kept), value),
      strengths: joined(picked(held, 1, kept), strength),
      origins: Int32Array.from([...kept.map((row) => rows.origins[row]), step]),
      writers: Int32Array.from([...kept.map((row) => rows.writers[row]), writer]),
    })
    const all = Array.from({ length: count }, (_, row) => row)
    if (grows) return joinedTo(all, rows.strengths)
    if (strength[0] <= 0) return rows
    const full = rows.strengths.every((each) => each > 0)
    const left = rows.strengths.map((each, row) => (full && row < drop ? 0 : each))
    const free = Math.max(0, left.findIndex((each) => each <= 0))
    return joinedTo(all.filter((row) => row !== free), left)
  }
}

function picked(numbers: Vector, width: number, rows: number[]): Vector {
  if (rows.length * width === numbers.length) return numbers
  return joined(...rows.map((row) => numbers.subarray(row * width, (row + 1) * width)))
}

function inverseSquares(distances: Vector, strengths: Vector): Vector {
  return shares(distances.map((distance) => 1 / (distance + DISTANCE_FLOOR)), strengths)
}

function softmaxWeights(distances: Vector, strengths: Vector, temperature: number): Vector {
  let nearest = Number.POSITIVE_INFINITY
  distances.forEach((distance, row) => {
    if (strengths[row] > 0) nearest = Math.min(nearest, distance)
  })
  if (nearest === Number.POSITIVE_INFINITY) nearest = 0
  const powers = distances.map((distance, row) => {
    const farther = strengths[row] > 0 ? distance - nearest : 0
    return Math.exp(-farther / (temperature + TEMPERATURE_FLOOR))
  })
  return shares(powers, strengths)
}

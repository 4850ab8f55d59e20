// The Lie-access memory: move both heads, read what was there, append a row at the write head. Yang
// 2016, arXiv:1602.08671, section 3.

import type { Instruction } from '../heads.ts'
import { grown } from '../grown.ts'
import { type Vector, joined } from '../tensors.ts'
import { GROUPS, shortened } from './groups.ts'
import { type MemoryMaker, type MemoryState, fieldsOf, optionOf } from './memory.ts'
import { readRows } from './strengths.ts'

const DISTANCE_FLOOR = 1e-10
const TEMPERATURE_FLOOR = 1e-6
const TOTAL_FLOOR = 1e-37
/** What is added to the square of an action's length; null leaves the length as it is. */
const STEPS: Record<string, number | null> = {
  free: null, normalised: 1e-12, bounded: 1, normalised_candidate: 1e-12,
}

export const lieAccess: MemoryMaker = (data) => {
  const width = optionOf(data, 'width')
  const keySize = optionOf(data, 'key_size')
  const group = GROUPS[String(data.options.group)]
  if (!group) throw new Error(`This page does not know the group ${String(data.options.group)}.`)
  const floor = STEPS[String(data.options.step)]
  /** Whether the candidate is brought to a length before it is mixed, and not the action after. */
  const candidateFirst = data.options.step === 'normalised_candidate'
  const capacity = data.options.capacity as number | null
  const drop = Number(data.options.drop ?? 1)
  const isSoftmax = data.options.weighting === 'softmax'

  const mixed = (gate: Vector | undefined, fresh: Vector, old: Vector): Vector =>
    gate ? fresh.map((number, i) => gate[0] * number + (1 - gate[0]) * old[i]) : fresh

  const moved = (who: string, instruction: Instruction, state: MemoryState): [Vector, Vector] => {
    const key = mixed(instruction[`${who}_key_gate`], instruction[`${who}_key`], state.fields[`${who}_key`])
    const bounded = (action: Vector): Vector =>
      floor !== null && group.hasLength ? shortened(action, floor) : action
    const candidate = candidateFirst ? bounded(instruction[`${who}_action`]) : instruction[`${who}_action`]
    let action = mixed(instruction[`${who}_action_gate`], candidate, state.fields[`${who}_action`])
    if (!candidateFirst) action = bounded(action)
    action = group.normalise(action)
    return [group.act(action, group.place(key)), action]
  }

  return {
    begin(initial) {
      const fields = fieldsOf(initial)
      return { fields, origins: new Int32Array(fields.strengths.length).fill(-1) }
    },
    step(state, instruction, step) {
      const { keys, values, strengths } = state.fields
      const [readKey, readAction] = moved('read', instruction, state)
      const [writeKey, writeAction] = moved('write', instruction, state)
      const distances = strengths.map((_, row) => {
        let sum = 0
        for (let k = 0; k < keySize; k++) sum += (readKey[k] - keys[row * keySize + k]) ** 2
        return sum
      })
      const weights = isSoftmax
        ? softmaxWeights(distances, strengths, instruction.temperature[0])
        : inverseSquares(distances, strengths)
      const rows = appended({ keys, values, strengths }, state.origins, [writeKey, instruction.value, instruction.strength], step)
      const fields = {
        ...rows.fields,
        read_key: readKey, read_action: readAction, write_key: writeKey, write_action: writeAction,
      }
      return {
        readVector: readRows(weights, values, width),
        state: { fields, origins: rows.origins, weights: { read: weights } },
      }
    },
    weights: (state) => state.weights ?? {},
  }

  /** A row more; at the capacity the oldest make room. */
  function appended(
    rows: Record<'keys' | 'values' | 'strengths', Vector>, origins: Int32Array,
    [key, value, strength]: Vector[], step: number,
  ): MemoryState {
    const count = rows.strengths.length
    const joinedTo = (kept: number[], held: Vector): MemoryState => ({
      fields: {
        keys: grown(new Float64Array(), picked(rows.keys, keySize, kept), key),
        values: grown(new Float64Array(), picked(rows.values, width, kept), value),
        strengths: joined(picked(held, 1, kept), strength),
      },
      origins: Int32Array.from([...kept.map((row) => origins[row]), step]),
    })
    const all = Array.from({ length: count }, (_, row) => row)
    if (capacity === null || count < capacity) return joinedTo(all, rows.strengths)
    if (strength[0] <= 0) return { fields: rows, origins }
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

/** Each part of the sum of all; a row without strength is no row. */
function shares(parts: Vector, strengths: Vector): Vector {
  const weighed = parts.map((part, row) => (strengths[row] <= 0 ? 0 : strengths[row] * part))
  const total = weighed.reduce((sum, each) => sum + each, 0)
  return weighed.map((each) => (total <= TOTAL_FLOOR ? 0 : each / total))
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

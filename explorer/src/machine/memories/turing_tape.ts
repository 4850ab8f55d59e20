// The tape of a Neural Turing Machine. Graves et al. 2014, arXiv:1410.5401, section 3; the choices
// of Deleu & Dureau 2016 are options.

import type { Instruction } from '../heads.ts'
import type { Vector } from '../tensors.ts'
import { addressed } from './addressing.ts'
import { type MemoryMaker, fieldsOf, headNames, optionOf } from './memory.ts'

/** A cell comes from the last step in which a head was there with at least this weight. */
const WROTE = 0.5
/** Added to weights before they are sharpened, by the variant. */
const FLOORS: Record<string, number> = { graves2014: 1e-15, deleu2016: 1e-6 }

export const turingTape: MemoryMaker = (data) => {
  const slots = optionOf(data, 'slots')
  const width = optionOf(data, 'width')
  const floor = FLOORS[String(data.options.variant)]
  const circular = data.options.shift === 'circular'
  const readsBefore = data.options.reads === 'before'
  const counts = { read: optionOf(data, 'read_heads'), write: optionOf(data, 'write_heads') }

  const address = (who: 'read' | 'write', cells: Vector, before: Vector, instruction: Instruction): Vector => {
    const weights = new Float64Array(counts[who] * slots)
    const shifts = instruction[`${who}_shift`].length / counts[who]
    for (let head = 0; head < counts[who]; head++) {
      const own = addressed(
        {
          key: instruction[`${who}_key`].subarray(head * width, (head + 1) * width),
          strength: instruction[`${who}_strength`][head],
          gate: instruction[`${who}_gate`][head],
          shift: instruction[`${who}_shift`].subarray(head * shifts, (head + 1) * shifts),
          sharpening: instruction[`${who}_sharpening`][head],
        },
        cells, before.subarray(head * slots, (head + 1) * slots), { circular, floor },
      )
      weights.set(own, head * slots)
    }
    return weights
  }

  return {
    begin: (initial) => ({ fields: fieldsOf(initial), origins: new Int32Array(slots).fill(-1) }),
    step(state, instruction, step) {
      const { cells, read_weights: reads, write_weights: writes } = state.fields
      const readWeights = address('read', cells, reads, instruction)
      const writeWeights = address('write', cells, writes, instruction)
      const after = new Float64Array(cells.length)
      const origins = state.origins.slice()
      for (let i = 0; i < slots; i++) {
        for (let head = 0; head < counts.write; head++) {
          if (writeWeights[head * slots + i] >= WROTE) origins[i] = step
        }
        for (let k = 0; k < width; k++) {
          let kept = 1
          let added = 0
          for (let head = 0; head < counts.write; head++) {
            const weight = writeWeights[head * slots + i]
            kept *= 1 - weight * instruction.erase[head * width + k]
            added += weight * instruction.add[head * width + k]
          }
          after[i * width + k] = cells[i * width + k] * kept + added
        }
      }
      const seen = readsBefore ? cells : after
      const readVector = new Float64Array(counts.read * width)
      for (let head = 0; head < counts.read; head++) {
        for (let i = 0; i < slots; i++) {
          const weight = readWeights[head * slots + i]
          for (let k = 0; k < width; k++) readVector[head * width + k] += weight * seen[i * width + k]
        }
      }
      const fields = { cells: after, read_weights: readWeights, write_weights: writeWeights }
      return { readVector, state: { fields, origins } }
    },
    weights(state) {
      const named: Record<string, Vector> = {}
      for (const who of ['read', 'write'] as const) {
        headNames(who, counts[who]).forEach((name, head) => {
          named[name] = state.fields[`${who}_weights`].subarray(head * slots, (head + 1) * slots)
        })
      }
      return named
    },
  }
}

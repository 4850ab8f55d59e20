// The memory of the differentiable neural computer. Graves et al. 2016, Nature 538, Methods.

import type { Vector } from '../tensors.ts'
import { contentWeights } from './addressing.ts'
import { type MemoryMaker, fieldsOf, headNames, optionOf } from './memory.ts'

/** A slot comes from the last step in which the head wrote there with at least this weight. */
const WROTE = 0.5
/** Least usage in the products of the free list. */
const LEAST_USAGE = 1e-6
/** Usages are compared in steps of this part. */
const USAGE_STEPS = 4096

/** The nearest whole number, of two equally near ones the even one. */
function rounded(x: number): number {
  const below = Math.floor(x)
  if (x - below !== 0.5) return Math.round(x)
  return below % 2 === 0 ? below : below + 1
}

/** The weights of the slots by the free list: the least used slot first. */
function allocated(usage: Vector): Vector {
  const keys = usage.map((held) => rounded(held * USAGE_STEPS))
  const order = [...usage.keys()].sort((one, other) => keys[one] - keys[other] || one - other)
  const weights = new Float64Array(usage.length)
  let product = 1
  for (const slot of order) {
    const held = LEAST_USAGE + (1 - LEAST_USAGE) * usage[slot]
    weights[slot] = (1 - held) * product
    product *= held
  }
  return weights
}

export const dnc: MemoryMaker = (data) => {
  const slots = optionOf(data, 'slots')
  const width = optionOf(data, 'width')
  const readers = optionOf(data, 'read_heads')
  const hasLinks = data.options.links === true

  return {
    begin: (initial) => ({ fields: fieldsOf(initial), origins: new Int32Array(slots).fill(-1) }),
    step(state, instruction, step) {
      const old = state.fields
      const usage = old.usage.map((held, n) => {
        let after = held + old.write_weights[n] - held * old.write_weights[n]
        for (let r = 0; r < readers; r++) after *= 1 - instruction.free_gate[r] * old.read_weights[r * slots + n]
        return after
      })
      const free = allocated(usage)
      const content = contentWeights(instruction.write_key, instruction.write_strength[0], old.cells)
      const [share, gate] = [instruction.allocation_gate[0], instruction.write_gate[0]]
      const writes = free.map((weight, n) => gate * (share * weight + (1 - share) * content[n]))
      const cells = old.cells.map((held, at) => {
        const [weight, k] = [writes[Math.floor(at / width)], at % width]
        return held * (1 - weight * instruction.erase[k]) + weight * instruction.write_value[k]
      })
      const origins = state.origins.map((origin, n) => (writes[n] >= WROTE ? step : origin))
      const reads = new Float64Array(readers * slots)
      for (let r = 0; r < readers; r++) {
        reads.set(contentWeights(instruction.read_key.subarray(r * width, (r + 1) * width), instruction.read_strength[r], cells), r * slots)
      }
      const fields: Record<string, Vector> = { cells, usage, write_weights: writes, read_weights: reads }
      if (hasLinks) {
        const links = old.links.map((link, at) => {
          const [i, j] = [Math.floor(at / slots), at % slots]
          return i === j ? 0 : (1 - writes[i] - writes[j]) * link + writes[i] * old.precedence[j]
        })
        const kept = 1 - writes.reduce((sum, weight) => sum + weight, 0)
        for (let r = 0; r < readers; r++) {
          const [backward, byContent, forward] = instruction.read_mode.subarray(3 * r, 3 * r + 3)
          const before = old.read_weights.subarray(r * slots, (r + 1) * slots)
          for (let n = 0; n < slots; n++) {
            let [back, on] = [0, 0]
            for (let m = 0; m < slots; m++) {
              back += links[m * slots + n] * before[m]
              on += links[n * slots + m] * before[m]
            }
            reads[r * slots + n] = backward * back + byContent * reads[r * slots + n] + forward * on
          }
        }
        fields.links = links
        fields.precedence = old.precedence.map((each, n) => kept * each + writes[n])
      }
      const readVector = new Float64Array(readers * width)
      for (let r = 0; r < readers; r++) {
        for (let n = 0; n < slots; n++) {
          for (let k = 0; k < width; k++) readVector[r * width + k] += reads[r * slots + n] * cells[n * width + k]
        }
      }
      return { readVector, state: { fields, origins } }
    },
    weights({ fields }) {
      const named: Record<string, Vector> = {}
      headNames('read', readers).forEach((name, r) => { named[name] = fields.read_weights.subarray(r * slots, (r + 1) * slots) })
      named['write head'] = fields.write_weights
      return named
    },
  }
}

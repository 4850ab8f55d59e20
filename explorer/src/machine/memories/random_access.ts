// Rows that are found by the inner product of a key (RAM), and by the keys after and before what was read
// last (RAM/tape). Yang & Rush 2017, arXiv:1611.02854, section 4 and appendix A.

import { grown } from '../grown.ts'
import { type Vector, joined } from '../tensors.ts'
import { type MemoryMaker, fieldsOf, optionOf } from './memory.ts'
import { readRows, shares, withOrigins } from './strengths.ts'

export const randomAccess: MemoryMaker = (data) => {
  const width = optionOf(data, 'width')
  const keySize = optionOf(data, 'key_size')
  const hasTape = data.options.tape === true
  const none = new Float64Array()

  /** s_i exp(beta <q, k_i>), as parts of their sum. */
  const weighed = (key: Vector, keys: Vector, strengths: Vector, sharpening: number): Vector => {
    const scores = strengths.map((_, row) => {
      let product = 0
      for (let k = 0; k < keySize; k++) product += key[k] * keys[row * keySize + k]
      return sharpening * product
    })
    const highest = scores.reduce((most, score, row) => (strengths[row] > 0 ? Math.max(most, score) : most), Number.NEGATIVE_INFINITY)
    return shares(scores.map((score, row) => (strengths[row] > 0 ? Math.exp(score - highest) : 0)), strengths)
  }

  /** The sum of the keys of the next rows, or of the previous ones, that are not absent. */
  const neighbours = (weights: Vector, keys: Vector, strengths: Vector, by: 1 | -1): Vector => {
    const sum = new Float64Array(keySize)
    weights.forEach((weight, row) => {
      let other = row + by
      while (other >= 0 && other < strengths.length && strengths[other] <= 0) other += by
      if (other < 0 || other >= strengths.length) return
      for (let k = 0; k < keySize; k++) sum[k] += weight * keys[other * keySize + k]
    })
    return sum
  }

  return {
    begin(initial) {
      const fields = fieldsOf(initial)
      return { fields, origins: new Int32Array(fields.strengths.length).fill(-1) }
    },
    step(state, instruction, step) {
      const { keys, values, strengths, forward_key: forward, backward_key: backward } = state.fields
      const given = instruction.read_key
      const [own, after, before] = instruction.link ?? []
      const key = hasTape ? given.map((number, k) => own * number + after * forward[k] + before * backward[k]) : given
      const weights = weighed(key, keys, strengths, instruction.sharpening?.[0] ?? 1)
      const fields: Record<string, Vector> = {
        keys: grown(none, keys, instruction.write_key),
        values: grown(none, values, instruction.value),
        strengths: joined(strengths, instruction.strength),
      }
      if (hasTape) {
        fields.forward_key = neighbours(weights, keys, strengths, 1)
        fields.backward_key = neighbours(weights, keys, strengths, -1)
      }
      return {
        readVector: readRows(weights, values, width),
        state: {
          fields, origins: withOrigins([], state.origins, [step]), weights: { 'read head': weights },
          shown: { read_key: key, write_key: instruction.write_key },
        },
      }
    },
    weights: (state) => state.weights ?? {},
  }
}

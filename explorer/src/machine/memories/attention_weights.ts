// The attention of a Transformer: its weights are given, and not computed from keys. Each step of the
// sequence is like a slot, and each head of a layer like a read head.

import type { Vector } from '../tensors.ts'
import { type MemoryMaker, fieldsOf, layerHeads, optionOf } from './memory.ts'

export const attentionWeights: MemoryMaker = (data) => {
  const positions = optionOf(data, 'positions')
  const names = layerHeads(data).map((name) => `read head, ${name}`)
  const origins = Int32Array.from({ length: positions }, (_, step) => step)
  /** The weights with a row for each step, and a column for each head. */
  const shownOf = (weights: Vector): Record<string, Vector> => ({
    cells: weights.map((_, at) => weights[(at % names.length) * positions + Math.floor(at / names.length)]),
  })
  return {
    begin(initial) {
      const fields = fieldsOf(initial)
      return { fields, origins, shown: shownOf(fields.read_weights) }
    },
    step: (_, instruction) => ({
      readVector: instruction.mean,
      state: { fields: { read_weights: instruction.weights }, origins, shown: shownOf(instruction.weights) },
    }),
    weights: (state) => Object.fromEntries(
      names.map((name, head) => [name, state.fields.read_weights.subarray(head * positions, (head + 1) * positions)]),
    ),
  }
}

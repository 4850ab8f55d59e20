// The matrices of a DeltaNet or DeltaProduct. Yang et al. 2024, arXiv:2406.06484; Siems et al. 2025,
// arXiv:2502.10297.

import { type MemoryMaker, fieldsOf, optionOf } from './memory.ts'

export const deltaMatrices: MemoryMaker = (data) => {
  const heads = optionOf(data, 'layers') * optionOf(data, 'num_heads')
  const size = optionOf(data, 'head_size')
  const steps = optionOf(data, 'steps')
  return {
    begin: (initial) => ({ fields: fieldsOf(initial), origins: new Int32Array() }),
    /** H <- H + b k (v - H^T k)^T for each step of a token; the read vector is H^T q of each head. */
    step(state, instruction) {
      const matrix = state.fields.matrix.slice()
      const readVector = new Float64Array(heads * size)
      for (let head = 0; head < heads; head++) {
        const own = matrix.subarray(head * size * size, (head + 1) * size * size)
        const times = (vector: Float64Array, place: number): number => {
          let sum = 0
          for (let i = 0; i < size; i++) sum += own[i * size + place] * vector[i]
          return sum
        }
        for (let step = head * steps; step < (head + 1) * steps; step++) {
          const key = instruction.key.subarray(step * size, (step + 1) * size)
          const written = Float64Array.from(key, (_, place) => instruction.strength[step] * (instruction.value[step * size + place] - times(key, place)))
          for (let i = 0; i < size; i++) {
            for (let place = 0; place < size; place++) own[i * size + place] += key[i] * written[place]
          }
        }
        const query = instruction.query.subarray(head * size, (head + 1) * size)
        for (let place = 0; place < size; place++) readVector[head * size + place] = times(query, place)
      }
      return { readVector, state: { fields: { matrix }, origins: state.origins } }
    },
    weights: () => ({}),
  }
}

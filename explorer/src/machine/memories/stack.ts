// The neural stack: pop, push, then read. Grefenstette et al. 2015, eq. 1-3.

import { grown } from '../grown.ts'
import { joined } from '../tensors.ts'
import { type MemoryMaker, fieldsOf, optionOf } from './memory.ts'
import { popped, readRows, readWeights, withOrigins } from './strengths.ts'

export const stack: MemoryMaker = (data) => {
  const width = optionOf(data, 'width')
  return {
    begin: (initial) => ({ fields: fieldsOf(initial), origins: new Int32Array() }),
    step(state, instruction, step) {
      const strengths = joined(popped(state.fields.strengths, instruction.pop[0], 'top'), instruction.push)
      const values = grown(new Float64Array(), state.fields.values, instruction.value)
      const readVector = readRows(readWeights(strengths, 'top'), values, width)
      const origins = withOrigins([], state.origins, [step])
      return { readVector, state: { fields: { values, strengths }, origins } }
    },
    weights: (state) => ({ top: readWeights(state.fields.strengths, 'top') }),
  }
}

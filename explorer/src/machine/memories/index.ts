// The memories by the name that a page gives.

import { attentionWeights } from './attention_weights.ts'
import { deltaMatrices } from './delta_matrices.ts'
import { deque } from './deque.ts'
import { dnc } from './dnc.ts'
import { lieAccess } from './lie_access.ts'
import type { MemoryMaker } from './memory.ts'
import { nondeterministicStack } from './nondeterministic_stack.ts'
import { queue } from './queue.ts'
import { randomAccess } from './random_access.ts'
import { rollingTape } from './rolling_tape.ts'
import { stack } from './stack.ts'
import { superpositionList } from './superposition_list.ts'
import { superpositionStack } from './superposition_stack.ts'
import { turingTape } from './turing_tape.ts'

export const MEMORIES: Record<string, MemoryMaker> = {
  stack,
  queue,
  deque,
  superposition_stack: superpositionStack,
  superposition_list: superpositionList,
  turing_tape: turingTape,
  rolling_tape: rollingTape,
  dnc,
  nondeterministic_stack: nondeterministicStack,
  lie_access: lieAccess,
  random_access: randomAccess,
  delta_matrices: deltaMatrices,
  attention_weights: attentionWeights,
}

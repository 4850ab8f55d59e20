// The views by the name of the memory.

import { automatonView } from './automaton.ts'
import { matricesView } from './matrices.ts'
import { noView } from './none.ts'
import { planeView } from './plane.ts'
import { rollingView } from './rolling.ts'
import { rowsView } from './rows.ts'
import { superpositionView } from './superposition.ts'
import { tapeView } from './tape.ts'
import type { ViewMaker } from './view.ts'

export const VIEWS: Record<string, ViewMaker> = {
  none: noView,
  stack: rowsView,
  queue: rowsView,
  deque: rowsView,
  superposition_stack: superpositionView,
  superposition_list: superpositionView,
  turing_tape: tapeView,
  rolling_tape: rollingView,
  dnc: tapeView,
  nondeterministic_stack: automatonView,
  lie_access: planeView,
  random_access: planeView,
  delta_matrices: matricesView,
  attention_weights: tapeView,
}

// The views by the name of the memory.

import { noView } from './none.ts'
import { rowsView } from './rows.ts'
import type { ViewMaker } from './view.ts'

export const VIEWS: Record<string, ViewMaker> = {
  none: noView,
  stack: rowsView,
  queue: rowsView,
  deque: rowsView,
}

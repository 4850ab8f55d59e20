// A network without a memory has nothing to show but its answers.

import { el } from '../dom.ts'
import type { View, ViewMaker } from './view.ts'

export const noView: ViewMaker = (): View => ({
  element: el('p', { class: 'memory faint' }, 'No memory: all that this network keeps is in its hidden units.'),
  show: () => {},
  changed: () => {},
  words: () => [],
})

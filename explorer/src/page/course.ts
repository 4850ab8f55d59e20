// The memory over the course of training: what it did of one input at each moment that was kept.

import { el } from './dom.ts'
import type { Session } from './session.ts'
import { VIEWS } from './views/index.ts'
import { noView } from './views/none.ts'
import { verdictOf } from './verdict.ts'

/** A figure for each session, which are of the moments in their order. */
export function courseFigures(sessions: Session[]): HTMLElement[] {
  return sessions.map((session) => {
    const view = (VIEWS[session.run.model.memory?.kind ?? 'none'] ?? noView)(session, () => {}, () => {})
    view.show(session.steps.length - 1)
    const caption = `After ${session.run.after_batches} batches: ${verdictOf(session).text}`
    return el('figure', { class: 'moment' }, el('figcaption', {}, caption), view.element)
  })
}

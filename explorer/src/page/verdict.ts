// How an answer stands beside the truth, in a sentence.

import { firstError, sayingText } from '../machine/run.ts'
import type { Session } from './session.ts'

export interface Verdict {
  text: string
  /** Null where there is nothing to compare with. */
  right: boolean | null
}

export function verdictOf({ steps, task, plan, edited }: Session): Verdict {
  const judged = steps.filter((step) => step.wanted !== null).length
  const missing = plan.wanted.slice(steps.length).filter((wanted) => wanted !== null).length
  const error = firstError(steps)
  const changes = edited ? ' You have changed this run by hand.' : ''
  if (error !== null) {
    const { said, wanted } = steps[error]
    const text = `First error at step ${error + 1}: it says ${sayingText(task, said)}, right is ${sayingText(task, wanted ?? 0)}.`
    return { text: text + changes, right: false }
  }
  if (missing) return { text: `It ended ${missing} symbol${missing > 1 ? 's' : ''} too early.${changes}`, right: false }
  if (judged) {
    const text = judged === 1 ? 'The one symbol that counts is right.' : `All ${judged} symbols that count are right.`
    return { text: text + changes, right: true }
  }
  const text = plan.why ? `There is no truth to compare this with: ${plan.why}` : 'Nothing is determined in this input.'
  return { text: text + changes, right: null }
}

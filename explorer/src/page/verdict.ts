// The comparison of outputs and targets, in a sentence.

import { firstError, outputText } from '../machine/run.ts'
import type { Session } from './session.ts'

export interface Verdict {
  text: string
  /** Null where there is nothing to compare with. */
  correct: boolean | null
}

/** The verdict on the steps up to `shown`; on the whole run where that is the last one. */
export function verdictOf({ steps, task, plan, edited }: Session, shown = steps.length - 1): Verdict {
  const judged = steps.filter((step) => step.target !== null).length
  const missing = plan.targets.slice(steps.length).filter((target) => target !== null).length
  const error = firstError(steps.slice(0, shown + 1))
  const changes = edited ? ' This run was changed by hand.' : ''
  if (error !== null) {
    const { predicted, target } = steps[error]
    const text = `First error at step ${error + 1}: predicted ${outputText(task, predicted)}, target ${outputText(task, target ?? 0)}.`
    return { text: text + changes, correct: false }
  }
  if (shown < steps.length - 1) {
    const any = steps.slice(0, shown + 1).some((step) => step.target !== null)
    const text = any ? 'No error so far. Play on to see the rest.' : 'No output with a target so far. Play on to see the rest.'
    return { text: text + changes, correct: null }
  }
  if (missing) return { text: `The output ended ${missing} symbol${missing > 1 ? 's' : ''} early.${changes}`, correct: false }
  if (judged) {
    const text = judged === 1 ? 'The one output that counts is correct.' : `All ${judged} outputs that count are correct.`
    return { text: text + changes, correct: true }
  }
  const text = plan.why ? `There is no target for this input: ${plan.why}` : 'No symbol of this input is determined.'
  return { text: text + changes, correct: null }
}

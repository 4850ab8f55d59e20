// What a view of a memory is: it is made for a session and shows one step of it.

import type { Session } from '../session.ts'

export interface View {
  element: HTMLElement
  /** Show the state after a step. */
  show(step: number): void
  /** The steps have changed from `from` on. */
  changed(): void
  /** The state after a step in words, for the table. */
  words(step: number): [string, string][]
}

/** Says what stands in a cell that a reader points at, or nothing. */
export type Inspect = (text: string) => void

export type ViewMaker = (session: Session, inspect: Inspect, seek: (step: number) => void) => View

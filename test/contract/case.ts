import type { Called } from '../support/http.ts'

/** One way to get one answer of one operation. `answer` is `201`, or `409 price_changed`. */
export type Case = {
  readonly operation: string
  readonly answer: string
  readonly how: string
  readonly send: () => Promise<Called>
}

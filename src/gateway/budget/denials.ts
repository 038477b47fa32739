import { refuse } from '../proxy/refusals.ts'

export const trafficExhausted = refuse(
  466,
  'traffic_exhausted',
  'The traffic of this plan is used up. Top it up, and the same line works again.',
)

export const booksAway = refuse(
  503,
  'gateway_unavailable',
  'The gateway cannot reach its books. Try again shortly; nothing was counted.',
  5,
)

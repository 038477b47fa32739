import type { Denied } from '../proxy/ports.ts'

export const trafficExhausted: Denied = {
  denied: true,
  status: 466,
  error: 'traffic_exhausted',
  detail: 'The traffic of this plan is used up. Top it up, and the same line works again.',
}

export const booksAway: Denied = {
  denied: true,
  status: 503,
  error: 'gateway_unavailable',
  detail: 'The gateway cannot reach its books. Try again shortly; nothing was counted.',
  retryAfterSeconds: 5,
}

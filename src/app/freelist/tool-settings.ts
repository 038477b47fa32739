import type { z } from 'zod'
import type { Rate } from '../../platform/http/rate-limit.ts'
import { rate } from '../setting-forms.ts'

/** The settings of the free tools, as `farebox settings` prints them. */
export const freeToolSettings = {
  FAREBOX_RATE_LIST: rate
    .prefault('120/2')
    .describe(
      'Requests of one client address for the free proxy list and the networks: at once, and a second.',
    ),
  FAREBOX_RATE_LOOKUP: rate
    .prefault('120/5')
    .describe('Look-ups of addresses by one client address: at once, and a second.'),
  FAREBOX_RATE_CHECK: rate
    .prefault('40/1')
    .describe('Proxies that one client address may have checked: at once, and a second.'),
} as const

export type FreeToolConfig = {
  readonly list: Rate
  readonly lookup: Rate
  readonly check: Rate
}

type Values = z.output<z.ZodObject<typeof freeToolSettings>>

export const freeToolConfigOf = (values: Values): FreeToolConfig => ({
  list: values.FAREBOX_RATE_LIST,
  lookup: values.FAREBOX_RATE_LOOKUP,
  check: values.FAREBOX_RATE_CHECK,
})

import { isIP } from 'node:net'
import { z } from 'zod'

const form = 'an IPv4 or IPv6 address such as 8.8.8.8 or 2001:4860:4860::8888, without a port or a zone'

/** An address as text. */
export const ipField = (description: string) =>
  z
    .string()
    .refine((text) => isIP(text) !== 0 && !text.includes('%'), `must be ${form}`)
    .meta({ description, words: form })

import { isIP } from 'node:net'
import { z } from 'zod'
import { type CrashAt, crashPoints, parseCrashAt } from '../../kernel/crash-points.ts'
import { addressExpected, parseAddress } from '../eventstore/eventstoredb/address.ts'
import { type TrustedProxies, trustedProxies } from '../http/connections.ts'
import type { Rate } from '../http/rate-limit.ts'

/*
 * The forms of settings. The message of each form describes the accepted values. It appears in refusals ("PORT:
 * expected a whole number …") and in the output of `farebox settings`.
 */

/** Any text. `expected` describes the accepted values. */
export const text = (expected: string) => z.string({ error: expected })

/** A whole number, `min` to `max`. */
export const whole = (min: number, max: number) => {
  const expected = `a whole number from ${min} to ${max}`
  return text(expected)
    .regex(/^-?\d{1,15}$/, expected)
    .transform(Number)
    .refine((value) => value >= min && value <= max, expected)
}

export const oneOf = <const Values extends readonly [string, ...string[]]>(values: Values) =>
  z.enum(values, { error: `one of ${values.join(', ')}` })

export const onOff = z.enum(['on', 'off'], { error: 'on or off' }).transform((value) => value === 'on')

/** An address of one of these protocols, each with its colon. */
export const url = (protocols: readonly string[], example: string) => {
  const expected = `an address such as ${example}`
  return text(expected).refine((value) => {
    try {
      return protocols.includes(new URL(value).protocol)
    } catch {
      return false
    }
  }, expected)
}

/**
 * An EventStoreDB, or the nodes of a cluster. The message gives the problem and not the value, which may contain a
 * password.
 */
export const eventStore = text(addressExpected).superRefine((value, context) => {
  try {
    parseAddress(value)
  } catch (error) {
    context.addIssue(`${addressExpected} (${(error as Error).message})`)
  }
})

export const keyExpected = '32 bytes in base64, e.g. what `openssl rand -base64 32` prints'
/** 32 bytes. */
export const key = text(keyExpected)
  .refine((value) => /^[A-Za-z0-9+/]{43}=$/.test(value), keyExpected)
  .transform((value) => Buffer.from(value, 'base64'))

const rateExpected = 'burst/perSecond, two whole numbers from 1 to 1000000, e.g. 300/50'
export const rate = text(rateExpected)
  .regex(/^([1-9]\d{0,5}|1000000)\/([1-9]\d{0,5}|1000000)$/, rateExpected)
  .transform((value): Rate => {
    const [burst = 0, perSecond = 0] = value.split('/').map(Number)
    return { burst, perSecond }
  })

const proxiesExpected = 'addresses and networks separated by commas, e.g. 127.0.0.1, 10.0.0.0/8'
export const proxies = text(proxiesExpected).transform((value, context): TrustedProxies => {
  try {
    return trustedProxies(value)
  } catch (error) {
    context.addIssue(`${proxiesExpected} (${(error as Error).message})`)
    return z.NEVER
  }
})

const addressesExpected = 'addresses separated by commas, e.g. 127.0.0.1, ::1'
export const addresses = text(addressesExpected).transform((value, context): readonly string[] => {
  const addressList = value.split(',').map((address) => address.trim())
  if (addressList.every((address) => isIP(address) !== 0)) return addressList
  context.addIssue(addressesExpected)
  return z.NEVER
})

const portsExpected = 'two ports separated by a slash, e.g. 80/443'
export const ports = text(portsExpected)
  .regex(/^\d{1,5}\/\d{1,5}$/, portsExpected)
  .transform((value, context): readonly [number, number] => {
    const [first = 0, second = 0] = value.split('/').map(Number)
    if ([first, second].every((port) => port >= 1 && port <= 65_535) && first !== second)
      return [first, second]
    context.addIssue(portsExpected)
    return z.NEVER
  })

const crashExpected = `<point>:<n>, with one of the points ${crashPoints.join(', ')}`
export const crashAt = text(crashExpected).transform((value, context): CrashAt => {
  const parsed = parseCrashAt(value)
  if (parsed) return parsed
  context.addIssue(crashExpected)
  return z.NEVER
})

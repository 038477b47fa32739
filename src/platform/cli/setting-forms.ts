import { isIP } from 'node:net'
import { z } from 'zod'
import { crashPoints, parseCrashAt } from '../../kernel/crash-points.ts'
import { addressExpected, parseAddress } from '../eventstore/eventstoredb/address.ts'
import { trustedProxies } from '../http/connections.ts'
import type { Rate } from '../http/rate-limiter.ts'

/*
 * The forms of settings. The message of each form describes the accepted values. It appears in refusals ("PORT:
 * expected a whole number …") and in the output of `farebox settings`.
 */

/** Any text. `expected` describes the accepted values. */
export const text = (expected: string) => z.string({ error: expected })

/** A text that `parse` accepts. Null or an error refuses it; the message of the error is added. */
const form = <Value>(expected: string, parse: (value: string) => Value | null) =>
  text(expected).transform((value, context): Value => {
    try {
      const parsed = parse(value)
      if (parsed !== null) return parsed
      context.addIssue(expected)
    } catch (error) {
      context.addIssue(`${expected} (${(error as Error).message})`)
    }
    return z.NEVER
  })

/** A whole number, `min` to `max`. */
export const whole = (min: number, max: number) =>
  form(`a whole number from ${min} to ${max}`, (value) =>
    /^-?\d{1,15}$/.test(value) && Number(value) >= min && Number(value) <= max ? Number(value) : null,
  )

export const oneOf = <const Values extends readonly [string, ...string[]]>(values: Values) =>
  z.enum(values, { error: `one of ${values.join(', ')}` })

export const onOff = z.enum(['on', 'off'], { error: 'on or off' }).transform((value) => value === 'on')

/** An address of one of these protocols, each with its colon. */
export const url = (protocols: readonly string[], example: string) =>
  form(`an address such as ${example}`, (value) =>
    URL.canParse(value) && protocols.includes(new URL(value).protocol) ? value : null,
  )

/** An address of Postgres. `sslmode` means what it means in libpq. The modes that fall back to no TLS are refused. */
export const postgresUrl = (user: string) =>
  form(
    `an address such as postgres://${user}:password@host:5432/database; its sslmode is disable (the default), require, verify-ca with sslrootcert, or verify-full`,
    (value) => {
      if (!URL.canParse(value)) return null
      const { protocol, searchParams } = new URL(value)
      const mode = searchParams.get('sslmode') ?? 'disable'
      const isMode =
        ['disable', 'require', 'verify-full'].includes(mode) ||
        (mode === 'verify-ca' && searchParams.has('sslrootcert'))
      return isMode && ['postgres:', 'postgresql:'].includes(protocol) ? value : null
    },
  )

/**
 * An EventStoreDB, or the nodes of a cluster. The message gives the problem and not the value, which may contain a
 * password.
 */
export const eventStore = form(addressExpected, (value) => {
  parseAddress(value)
  return value
})

export const keyExpected = '32 bytes in base64, e.g. what `openssl rand -base64 32` prints'
/** 32 bytes. */
export const key = form(keyExpected, (value) =>
  /^[A-Za-z0-9+/]{43}=$/.test(value) ? Buffer.from(value, 'base64') : null,
)

export const rate = form(
  'burst/perSecond, two whole numbers from 1 to 1000000, e.g. 300/50',
  (value): Rate | null => {
    if (!/^([1-9]\d{0,5}|1000000)\/([1-9]\d{0,5}|1000000)$/.test(value)) return null
    const [burst = 0, perSecond = 0] = value.split('/').map(Number)
    return { burst, perSecond }
  },
)

export const proxies = form(
  'addresses and networks with commas between, e.g. 127.0.0.1, 10.0.0.0/8',
  trustedProxies,
)

export const addresses = form(
  'addresses with commas between, e.g. 127.0.0.1, ::1',
  (value): readonly string[] | null => {
    const addressList = value.split(',').map((address) => address.trim())
    return addressList.every((address) => isIP(address) !== 0) ? addressList : null
  },
)

export const ports = form(
  'two ports with a slash between, e.g. 80/443',
  (value): readonly [number, number] | null => {
    if (!/^\d{1,5}\/\d{1,5}$/.test(value)) return null
    const [first = 0, second = 0] = value.split('/').map(Number)
    const areValid = [first, second].every((port) => port >= 1 && port <= 65_535) && first !== second
    return areValid ? [first, second] : null
  },
)

export const crashAt = form(`<point>:<n>, with one of the points ${crashPoints.join(', ')}`, parseCrashAt)

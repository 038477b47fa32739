import { z } from 'zod'
import {
  locationExpected,
  parseStoreLocation,
  type StoreLocation,
} from '../../platform/outgoing/object-store.ts'
import type { StoreAccess, StoreSettings } from '../../platform/outgoing/open-object-store.ts'

const textSchema = (expected: string) => z.string({ error: expected })

const target = textSchema(locationExpected).transform((value, context): StoreLocation => {
  const storeLocation = parseStoreLocation(value)
  if (storeLocation !== null) return storeLocation
  context.addIssue(locationExpected)
  return z.NEVER
})

const endpointExpected = 'an address without a path, e.g. https://s3.eu-central-1.amazonaws.com'
const endpoint = textSchema(endpointExpected).refine((value) => {
  const storeLocation = parseStoreLocation(value)
  return storeLocation?.kind === 'http' && new URL(storeLocation.url).pathname === '/'
}, endpointExpected)

const secretExpected = 'a text of 1 to 500 printable characters without spaces'
const secret = textSchema(secretExpected).regex(/^[!-~]{1,500}$/, secretExpected)

const regionExpected = 'lower-case letters, digits and dashes, e.g. eu-central-1'

/** The settings of the external seal target. They are part of the schema in `src/app/config.ts`. */
export const sealTargetSettings = {
  FAREBOX_SEAL_TARGET: target
    .optional()
    .describe("Upload each seal to this address. Use storage that this machine's operators cannot modify."),
  FAREBOX_SEAL_TARGET_TOKEN: secret.optional().describe('The bearer token of that address, if it needs one.'),
  FAREBOX_SEAL_TARGET_PRIVATE: z
    .enum(['on', 'off'], { error: 'on or off' })
    .transform((value) => value === 'on')
    .prefault('off')
    .describe('on: allow an address in a private network, and plain http.'),
  FAREBOX_SEAL_S3_ENDPOINT: endpoint
    .optional()
    .describe('The address of the store of s3://…; default: AWS in FAREBOX_SEAL_S3_REGION.'),
  FAREBOX_SEAL_S3_REGION: textSchema(regionExpected)
    .regex(/^[a-z0-9-]{1,60}$/, regionExpected)
    .prefault('us-east-1')
    .describe('The region in its request signatures.'),
  FAREBOX_SEAL_S3_ACCESS_KEY: secret.optional().describe('Its access key id.'),
  FAREBOX_SEAL_S3_SECRET_KEY: secret.optional().describe('Its secret access key.'),
} as const

type Values = z.output<z.ZodObject<typeof sealTargetSettings>>

/** Settings whose values are never shown. A rejected target may contain a password. */
export const sealTargetSecrets: readonly string[] = [
  'FAREBOX_SEAL_TARGET',
  'FAREBOX_SEAL_TARGET_TOKEN',
  'FAREBOX_SEAL_S3_ACCESS_KEY',
  'FAREBOX_SEAL_S3_SECRET_KEY',
]

/** The reason why a target cannot be used with this access; null when it can. */
export const accessProblem = (storeLocation: StoreLocation, access: StoreAccess): string | null => {
  if (storeLocation.kind === 's3' && access.s3 === null)
    return 's3://… needs FAREBOX_SEAL_S3_ACCESS_KEY and FAREBOX_SEAL_S3_SECRET_KEY'
  const { allowPrivate, s3 } = access
  if (!allowPrivate && storeLocation.kind === 'http' && storeLocation.url.startsWith('http:'))
    return 'an address over plain http needs FAREBOX_SEAL_TARGET_PRIVATE=on'
  if (!allowPrivate && storeLocation.kind === 's3' && s3?.endpoint?.startsWith('http:'))
    return 'FAREBOX_SEAL_S3_ENDPOINT over plain http needs FAREBOX_SEAL_TARGET_PRIVATE=on'
  return null
}

export const sealTargetConfigOf = (values: Values): StoreSettings => {
  const { FAREBOX_SEAL_S3_ACCESS_KEY: accessKey, FAREBOX_SEAL_S3_SECRET_KEY: secretKey } = values
  return {
    location: values.FAREBOX_SEAL_TARGET ?? null,
    access: {
      token: values.FAREBOX_SEAL_TARGET_TOKEN ?? null,
      s3:
        accessKey === undefined || secretKey === undefined
          ? null
          : {
              endpoint: values.FAREBOX_SEAL_S3_ENDPOINT ?? null,
              region: values.FAREBOX_SEAL_S3_REGION,
              accessKey,
              secretKey,
            },
      allowPrivate: values.FAREBOX_SEAL_TARGET_PRIVATE,
    },
  }
}

const schema = z.object(sealTargetSettings)

export const sealTargetProblems = (env: Readonly<Record<string, string | undefined>>): string[] => {
  const problems: string[] = []
  if ((env.FAREBOX_SEAL_S3_ACCESS_KEY === undefined) !== (env.FAREBOX_SEAL_S3_SECRET_KEY === undefined))
    problems.push('FAREBOX_SEAL_S3_ACCESS_KEY and FAREBOX_SEAL_S3_SECRET_KEY are set together, or not at all')
  const parsed = schema.safeParse(env)
  if (!parsed.success || problems.length > 0) return problems // the schema reports its own problems
  const { location, access } = sealTargetConfigOf(parsed.data)
  const problem = location && accessProblem(location, access)
  return problem === null ? [] : [`FAREBOX_SEAL_TARGET: ${problem}`]
}

import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import type { LogSealed, SealEvent, SealKeyRotated } from '../../domain/seals/events.ts'
import { CliMisuse } from '../../platform/cli/output.ts'
import { parsePublicKey, rotationIsSigned, sealIsSigned } from './seal-key.ts'

const hex = (bytes: number) => z.string().regex(new RegExp(`^[0-9a-f]{${2 * bytes}}$`))
const ordinal = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER)

const Sealed = z.strictObject({
  throughOrdinal: ordinal.min(1),
  throughEventId: z.uuid(),
  digest: hex(32),
  sealedAt: z.string(),
  publicKey: hex(32),
  checkedEvents: z.exactOptional(ordinal),
  signature: hex(64),
})

const Rotated = z.strictObject({
  sealedOrdinal: ordinal,
  sealedDigest: hex(32),
  previousPublicKey: hex(32),
  publicKey: hex(32),
  rotatedAt: z.string(),
  signature: hex(64),
})

/** An event of the `seal` stream with all its fields. */
export const sealEventForm = z.discriminatedUnion('type', [
  z.strictObject({ type: z.literal('LogSealed'), data: Sealed }),
  z.strictObject({ type: z.literal('SealKeyRotated'), data: Rotated }),
])

const File = z.strictObject({
  format: z.literal('farebox-seals'),
  version: z.literal(1),
  logId: z.string(),
  /** The id of the first event of the log. It distinguishes a file of another log from a changed log. */
  firstEventId: z.uuid(),
  exportedAt: z.string(),
  seals: z.array(sealEventForm).min(1),
})

/** An export of seals, in order, with every key rotation (docs/seals.md). */
export type SealsFile = {
  readonly format: 'farebox-seals'
  readonly version: 1
  readonly logId: string
  readonly firstEventId: string
  readonly exportedAt: string
  readonly seals: readonly SealEvent[]
}

/** The text is not a seals file, or its signatures are wrong. The message contains the reason. */
export class SealsFileRefused extends Error {
  override readonly name = 'SealsFileRefused'
}

/** @throws SealsFileRefused */
export const parseSealsFile = (text: string): SealsFile => {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    throw new SealsFileRefused('it is no JSON; "ledger seals export" writes a file of seals')
  }
  const parsed = File.safeParse(json)
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw new SealsFileRefused(
    `it is no file of seals: ${issue?.path.join('.') || 'its top'} is not as expected (${issue?.message}); "ledger seals export" writes one`,
  )
}

export type KeyWalk = {
  /**
   * Why the event is not a seal or rotation of the current key, else null. The key of a valid event becomes the
   * current one.
   */
  step(event: SealEvent): string | null
  /** Whether the current key is the pinned key or one that it handed over to. */
  trusted(): boolean
  readonly publicKey: string | null
}

const sealProblem = (seal: LogSealed['data'], key: string | null): string | null => {
  if (key !== null && seal.publicKey !== key)
    return `it is by the key ${seal.publicKey}, but ${key} signs since the last change of the key`
  return sealIsSigned(seal) ? null : 'its signature is not that of its key over what it says'
}

const rotationProblem = (rotation: SealKeyRotated['data'], key: string | null): string | null => {
  if (key !== null && rotation.previousPublicKey !== key)
    return `it hands over from the key ${rotation.previousPublicKey}, but ${key} signed until then`
  return rotationIsSigned(rotation) ? null : 'the key before it did not sign it'
}

/** Follows the sealing keys from event to event. */
export const walkKeys = (pinned: string): KeyWalk => {
  let key: string | null = null
  let trusted = false
  return {
    step(event) {
      const isSeal = event.type === 'LogSealed'
      const problem = isSeal ? sealProblem(event.data, key) : rotationProblem(event.data, key)
      if (problem !== null) {
        // An invalid rotation does not change the key, and a seal by a wrong key is not trusted.
        key ??= isSeal ? null : event.data.previousPublicKey
        return problem
      }
      if (!isSeal && event.data.previousPublicKey === pinned) trusted = true
      key = event.data.publicKey
      if (key === pinned) trusted = true
      return null
    },
    trusted: () => trusted,
    get publicKey() {
      return key
    },
  }
}

/**
 * The seals of a file that the pinned key, or a key that it handed over to, signed.
 * @throws SealsFileRefused when a signature is wrong, or when none is by one of these keys
 */
export const trustedSeals = (
  file: Pick<SealsFile, 'seals'>,
  pinned: string,
): readonly LogSealed['data'][] => {
  const keys = walkKeys(pinned)
  const trusted: LogSealed['data'][] = []
  for (const [index, event] of file.seals.entries()) {
    const problem = keys.step(event)
    if (problem !== null)
      throw new SealsFileRefused(`seal ${index + 1} of the file is not genuine: ${problem}`)
    if (event.type === 'LogSealed' && keys.trusted()) trusted.push(event.data)
  }
  if (trusted.length === 0)
    throw new SealsFileRefused(
      `none of its seals is by the key ${pinned}, or by one that it handed over to: it is of another service, or the key is`,
    )
  return trusted
}

/** Larger than any file of keys or seals. */
const maxBytes = 256 * 1024 * 1024

const readText = async (path: string): Promise<string> => {
  try {
    const bytes = await readFile(path)
    if (bytes.length > maxBytes) throw new Error('it is too large')
    return bytes.toString('utf8')
  } catch (error) {
    throw new CliMisuse(`${path} cannot be read: ${(error as Error).message}`)
  }
}

/** @throws CliMisuse */
export const readPublicKey = async (path: string): Promise<string> => {
  const key = parsePublicKey(await readText(path))
  if (key === null)
    throw new CliMisuse(
      `${path} holds no Ed25519 public key; PEM ("-----BEGIN PUBLIC KEY-----") or 64 hex digits are taken, as "ledger seals public-key" prints`,
    )
  return key
}

/** A key of 32 bytes, from base64. @throws CliMisuse */
export const readSealKey = async (path: string): Promise<Buffer> => {
  const text = (await readText(path)).trim()
  if (!/^[A-Za-z0-9+/]{43}=$/.test(text))
    throw new CliMisuse(
      `${path} does not hold 32 bytes in base64; "openssl rand -base64 32" prints such a key`,
    )
  return Buffer.from(text, 'base64')
}

/** The seals of a file that the pinned key trusts. @throws CliMisuse */
export const readSeals = async (
  path: string,
  publicKey: string,
): Promise<{ readonly file: SealsFile; readonly seals: readonly LogSealed['data'][] }> => {
  const text = await readText(path)
  try {
    const file = parseSealsFile(text)
    return { file, seals: trustedSeals(file, publicKey) }
  } catch (error) {
    if (error instanceof SealsFileRefused) throw new CliMisuse(`${path}: ${error.message}`)
    throw error
  }
}

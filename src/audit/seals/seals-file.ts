import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import type { LogSealed, SealEvent, SealKeyRotated } from '../../domain/seals/events.ts'
import { CliMisuse } from '../../platform/cli/output.ts'

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

/** A stored event of the `seal` stream; null if it has another form: not every writer is trusted. */
export const parseSealEvent = (type: string, data: string): SealEvent | null => {
  try {
    return sealEventForm.parse({ type, data: JSON.parse(data) })
  } catch {
    return null
  }
}

const File = z.strictObject({
  format: z.literal('farebox-seals'),
  version: z.literal(1),
  logId: z.string(),
  /** The id of the first event of the log. It distinguishes a file of another log from a changed log. */
  firstEventId: z.uuid(),
  exportedAt: z.string(),
  seals: z.array(sealEventForm).min(1),
})

/** An export of seals, in order, with every key rotation (docs/finance/seals.md). */
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
const parseSealsFile = (text: string): SealsFile => {
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

type KeyWalk = {
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

/** The fixed bytes before the key itself in PKCS #8 and SPKI for Ed25519 (RFC 8410). */
const privatePrefix = Buffer.from('302e020100300506032b657004220420', 'hex')
const publicPrefix = Buffer.from('302a300506032b6570032100', 'hex')

export type SealKey = {
  /** Ed25519, 32 bytes, lower-case hex. */
  readonly publicKey: string
  /** Signs the UTF-8 bytes of a statement; 64 bytes, lower-case hex. */
  sign(statement: string): string
  /** 64 bytes. */
  signBytes(statement: Uint8Array): Buffer
}

/** The key of a seed of 32 bytes (RFC 8032). */
export const sealKeyOf = (seed: Uint8Array): SealKey => {
  const key = createPrivateKey({
    key: Buffer.concat([privatePrefix, seed]),
    format: 'der',
    type: 'pkcs8',
  })
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' })
  const signBytes = (statement: Uint8Array): Buffer => sign(null, statement, key)
  return {
    publicKey: spki.toString('hex', publicPrefix.length),
    sign: (statement) => signBytes(Buffer.from(statement)).toString('hex'),
    signBytes,
  }
}

/** An Ed25519 public key of 32 bytes in hex, as a key object of node:crypto. */
export const publicKeyObject = (publicKey: string): KeyObject =>
  createPublicKey({
    key: Buffer.concat([publicPrefix, Buffer.from(publicKey, 'hex')]),
    format: 'der',
    type: 'spki',
  })

/** PEM in the format of `openssl pkey -pubin`. */
export const publicKeyPem = (publicKey: string): string =>
  publicKeyObject(publicKey).export({ format: 'pem', type: 'spki' }).toString()

/** An Ed25519 public key in hex, from PEM or from its 32 bytes in hex; null when the text is not such a key. */
export const parsePublicKey = (text: string): string | null => {
  const trimmed = text.trim()
  if (/^[0-9a-f]{64}$/i.test(trimmed)) return trimmed.toLowerCase()
  if (!trimmed.startsWith('-----BEGIN PUBLIC KEY-----')) return null
  try {
    const key = createPublicKey(trimmed)
    if (key.asymmetricKeyType !== 'ed25519') return null
    return key.export({ format: 'der', type: 'spki' }).toString('hex', publicPrefix.length)
  } catch {
    return null
  }
}

/**
 * The text that a seal signs. It has version 2 when the seal has the number of checked events. Every line ends with a
 * line feed.
 */
export const sealStatement = (seal: Omit<LogSealed['data'], 'signature'>): string => {
  const { throughOrdinal, throughEventId, digest, sealedAt, publicKey, checkedEvents } = seal
  const covered = `${throughOrdinal}\n${throughEventId}\n${digest}\n${sealedAt}\n${publicKey}\n`
  return checkedEvents === undefined
    ? `farebox log seal v1\n${covered}`
    : `farebox log seal v2\n${covered}${checkedEvents}\n`
}

/** The text that a key rotation signs. */
export const rotationStatement = (rotation: Omit<SealKeyRotated['data'], 'signature'>): string =>
  `farebox seal key rotation v1\n${rotation.sealedOrdinal}\n${rotation.sealedDigest}\n${rotation.previousPublicKey}\n${rotation.publicKey}\n${rotation.rotatedAt}\n`

const hexOf = (bytes: number) => new RegExp(`^[0-9a-f]{${2 * bytes}}$`)
const keyForm = hexOf(32)
const signatureForm = hexOf(64)

/** Also false for a malformed key or signature. */
export const isSigned = (publicKey: string, statement: string, signature: string): boolean =>
  keyForm.test(publicKey) &&
  signatureForm.test(signature) &&
  verify(null, Buffer.from(statement), publicKeyObject(publicKey), Buffer.from(signature, 'hex'))

export const sealIsSigned = (seal: LogSealed['data']): boolean =>
  isSigned(seal.publicKey, sealStatement(seal), seal.signature)

export const rotationIsSigned = (rotation: SealKeyRotated['data']): boolean =>
  isSigned(rotation.previousPublicKey, rotationStatement(rotation), rotation.signature)

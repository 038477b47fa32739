import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import type { LogSealed, SealKeyRotated } from '../../domain/seals/events.ts'

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

import { createHmac, createPrivateKey, createPublicKey, type KeyObject } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import { deriveKey, type MasterKey } from '../../platform/vault/master-key.ts'

/** What the judge and whoever asks it share. All of it comes from the master key: nothing is kept, nothing expires. */
export type JudgeKeys = {
  /** Signs nonces: the judge answers nobody else's. */
  readonly nonces: KeyObject
  /** Signs answers: no proxy can make one up, or change one. */
  readonly answers: KeyObject
  /** Of the judge's TLS; whoever shows another public key is not the judge. */
  readonly tls: { readonly privateKey: KeyObject; readonly publicKey: KeyObject }
  /** Of whoever asks over TLS: one for all, since to make one takes as long as a handshake. */
  readonly client: SecureContext
}

/** An Ed25519 private key in PKCS #8 is these bytes and its seed (RFC 8410). */
const pkcs8Head = Buffer.from('302e020100300506032b657004220420', 'hex')

export const judgeKeys = (master: MasterKey): JudgeKeys => {
  const seed = deriveKey(master, 'free proxy judge tls v1').export()
  const privateKey = createPrivateKey({
    key: Buffer.concat([pkcs8Head, seed]),
    format: 'der',
    type: 'pkcs8',
  })
  return {
    nonces: deriveKey(master, 'free proxy judge nonces v1'),
    answers: deriveKey(master, 'free proxy judge answers v1'),
    tls: { privateKey, publicKey: createPublicKey(privateKey) },
    client: createSecureContext(),
  }
}

/** HMAC-SHA256 in base64url. */
export const signed = (key: KeyObject, text: string): string =>
  createHmac('sha256', key).update(text).digest('base64url')

import { generateKeyPairSync } from 'node:crypto'
import { selfSignedCertificate } from '../../../src/platform/outgoing/self-signed-certificate.ts'

/** A self-signed certificate for `localhost` and the loopback addresses, valid for two days. */
export const selfSigned = (): { readonly key: string; readonly cert: string } => {
  const keys = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return {
    key: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: selfSignedCertificate(keys, ['localhost', '127.0.0.1', '::1'], { nowMs: Date.now(), days: 1 }),
  }
}

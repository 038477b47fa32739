import { generateKeyPairSync, sign } from 'node:crypto'

/** DER: a tag, the length, the content (X.690). */
const der = (tag: number, ...parts: readonly Buffer[]): Buffer => {
  const content = Buffer.concat(parts)
  const { length } = content
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.of(tag, ...size), content])
}
const sequence = (...parts: Buffer[]): Buffer => der(0x30, ...parts)
const set = (...parts: Buffer[]): Buffer => der(0x31, ...parts)
const hex = (digits: string): Buffer => Buffer.from(digits, 'hex')

const ecdsaWithSha256 = sequence(der(0x06, hex('2a8648ce3d040302')))
const commonName = hex('550403')
const subjectAltName = hex('551d11')

const utcTime = (ms: number): Buffer =>
  der(
    0x17,
    Buffer.from(
      new Date(ms).toISOString().replace(/\d\d(\d\d)-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d).*/, '$1$2$3$4$5$6Z'),
    ),
  )

const dayMs = 86_400_000

/** A certificate of its own for `localhost` and the loopback addresses, two days long. Node itself cannot make one. */
export const selfSigned = (): { readonly key: string; readonly cert: string } => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const name = sequence(set(sequence(der(0x06, commonName), der(0x0c, Buffer.from('localhost')))))
  const names = sequence(
    der(0x82, Buffer.from('localhost')),
    der(0x87, Buffer.of(127, 0, 0, 1)),
    der(0x87, Buffer.concat([Buffer.alloc(15), Buffer.of(1)])),
  )
  const now = Date.now()
  const body = sequence(
    der(0xa0, der(0x02, Buffer.of(2))), // version 3
    der(0x02, Buffer.of(1)),
    ecdsaWithSha256,
    name,
    sequence(utcTime(now - dayMs), utcTime(now + dayMs)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(sequence(der(0x06, subjectAltName), der(0x04, names)))),
  )
  const signature = sign('sha256', body, privateKey)
  const certificate = sequence(body, ecdsaWithSha256, der(0x03, Buffer.of(0), signature))
  const lines = certificate.toString('base64').replace(/.{64}/g, '$&\n')
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
  }
}

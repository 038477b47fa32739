import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'

type Options = { readonly challenge: string }

/** A passkey in software (WebAuthn level 3): it signs as a device does, without a browser. */
export type Authenticator = {
  readonly credentialId: string
  /** As a server keeps it (COSE, RFC 9053: ES256). */
  readonly publicKey: Buffer
  /** A browser's answer to `creationOptions`. */
  create(options: Options): string
  /** A browser's answer to `requestOptions`; `credentialId`: under another id. */
  get(options: Options, credentialId?: string): string
}

const sha256 = (bytes: Buffer | string): Buffer => createHash('sha256').update(bytes).digest()

/** @param origin the console's, e.g. `http://localhost:3000` */
export const createAuthenticator = (origin: string): Authenticator => {
  const { publicKey: key, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { x, y } = key.export({ format: 'jwk' })
  const id = randomBytes(16)
  const credentialId = id.toString('base64url')
  const publicKey = Buffer.concat([
    Buffer.from('a5010203262001215820', 'hex'),
    Buffer.from(x!, 'base64url'),
    Buffer.from('225820', 'hex'),
    Buffer.from(y!, 'base64url'),
  ])
  let count = 0
  const head = (flags: number): Buffer => {
    const counter = Buffer.alloc(4)
    count += 1
    counter.writeUInt32BE(count)
    return Buffer.concat([sha256(new URL(origin).hostname), Buffer.of(flags), counter])
  }
  const clientData = (type: string, { challenge }: Options): Buffer =>
    Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }))
  const answer = (usedId: string, response: object): string =>
    JSON.stringify({ id: usedId, rawId: usedId, type: 'public-key', response, clientExtensionResults: {} })
  return {
    credentialId,
    publicKey,
    create: (options) => {
      const data = Buffer.concat([head(0x45), Buffer.alloc(16), Buffer.of(0, id.length), id, publicKey])
      const attestation = Buffer.concat([
        Buffer.from('a363666d74646e6f6e656761747453746d74a0686175746844617461', 'hex'),
        Buffer.of(0x58, data.length),
        data,
      ])
      return answer(credentialId, {
        clientDataJSON: clientData('webauthn.create', options).toString('base64url'),
        attestationObject: attestation.toString('base64url'),
        transports: ['internal'],
      })
    },
    get: (options, usedId = credentialId) => {
      const client = clientData('webauthn.get', options)
      const data = head(0x05)
      return answer(usedId, {
        clientDataJSON: client.toString('base64url'),
        authenticatorData: data.toString('base64url'),
        signature: sign('sha256', Buffer.concat([data, sha256(client)]), privateKey).toString('base64url'),
      })
    },
  }
}

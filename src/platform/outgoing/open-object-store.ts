import type { Clock } from '../../kernel/clock.ts'
import { trimEnd } from '../../kernel/formats.ts'
import { folderStore } from './folder-store.ts'
import { httpStore, signedHeaders } from './http-store.ts'
import { maxFileBytes, type Store, type StoreLocation } from './object-store.ts'
import type { Outgoing, SendLimits } from './send.ts'

/** Credentials and permissions for stores. */
export type StoreAccess = {
  /** The bearer token for an HTTP address; null: no token is sent. */
  readonly token: string | null
  /** For buckets; null: not set. */
  readonly s3: {
    /** Null: the endpoint of AWS for the region. */
    readonly endpoint: string | null
    readonly region: string
    readonly accessKey: string
    readonly secretKey: string
  } | null
  /** Whether stores in private networks and over plain http are also allowed. */
  readonly allowPrivate: boolean
}

/** A location, and the access to it and to similar ones. */
export type StoreSettings = {
  /** Null: not set. */
  readonly location: StoreLocation | null
  readonly access: StoreAccess
}

const limits: SendLimits = { connectMs: 5_000, requestMs: 15_000, responseBytes: maxFileBytes }

/** @throws Error if it is a bucket and no access to buckets is set */
export const openStore = async (
  storeLocation: StoreLocation,
  access: StoreAccess,
  clock: Clock,
): Promise<Store> => {
  const outgoingTo = async (url: string): Promise<Outgoing> => {
    const { originOutgoing, publicOutgoing } = await import('./send.ts') // loading undici takes longer than most commands
    return access.allowPrivate ? originOutgoing(url, { limits }) : publicOutgoing({ limits })
  }
  switch (storeLocation.kind) {
    case 'folder':
      return folderStore(storeLocation.path)
    case 'http': {
      const { token } = access
      const credentials = token === null ? {} : { authorization: `Bearer ${token}` }
      return httpStore({
        outgoing: await outgoingTo(storeLocation.url),
        urlOf: (name) => `${storeLocation.url}${name}`,
        headersOf: ({ headers }) => ({ ...headers, ...credentials }),
      })
    }
    case 's3': {
      const { s3 } = access
      if (s3 === null) throw new Error('a bucket needs an access key and a secret key')
      const endpoint = trimEnd(s3.endpoint ?? `https://s3.${s3.region}.amazonaws.com`, '/')
      return httpStore({
        outgoing: await outgoingTo(endpoint),
        urlOf: (name) => `${endpoint}/${storeLocation.bucket}/${storeLocation.prefix}${name}`,
        headersOf: (request) => signedHeaders(s3, request, clock()),
      })
    }
    default:
      return storeLocation satisfies never
  }
}

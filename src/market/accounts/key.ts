import { tokenForm } from '../../platform/vault/token-form.ts'

declare const brand: unique symbol

/** A whole API key, a secret: `fbx_`, 34 random base62 characters, 6 of checksum (docs/http-api.md, "Names"). */
export type ApiKey = string & { readonly [brand]: 'ApiKey' }

const form = tokenForm<ApiKey>('fbx_')

/** A fresh key of 202 random bits. */
export const generateKey = form.generate

/** The text as a key, or null when its form or checksum is wrong: a typo costs no look-up. */
export const parseKey = form.parse

/** SHA-256, all that is kept of a key. */
export const hashKey = form.hash

/** The first 8 characters, for display. */
export const displayPrefixOf = form.displayPrefixOf

import { hash } from 'node:crypto'

/**
 * SHA-256, 32 bytes. By way of a text: asked for bytes, Node 24 makes a buffer outside its pool, and 60 bytes took
 * 0.8 µs in place of 0.4, 900 bytes 2.4 in place of 1.1.
 */
export const sha256 = (input: string | Uint8Array): Buffer =>
  Buffer.from(hash('sha256', input, 'binary'), 'latin1')

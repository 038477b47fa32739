import { setFlagsFromString } from 'node:v8'

/**
 * Bounds the garbage of a command. V8 lets the young generation grow to 48 MB and the old one to several times its live
 * objects before it collects, so the memory of `ledger verify` rose with the length of the log. A collection of the
 * small heap of a command costs little.
 */
export const limitMemory = (): void => {
  setFlagsFromString('--semi-space-growth-factor=1')
  setFlagsFromString('--heap-growing-percent=50')
}

/** Idle tunnels are many, so they hold little; a fat flow asks for more with its first reads. */
const firstBytes = 4_096
const growth = 4
const maxBytes = 262_144
/** A read of less than this share of the buffer is a small one, */
const smallShare = 1 / 16
/** and so many of them one after another give memory back. */
const smallReads = 8

/**
 * The memory that one socket reads into: its own, since memory that several sockets read into is overwritten while the
 * write of another is still queued. It is used again as soon as what was read last has gone out, which saves an
 * allocation for each chunk, and grows from 4 KiB to 256 KiB with the flow.
 */
export type ReadBuffer = {
  /** So many bytes came. */
  filled(bytes: number): void
  /** Where the next bytes go. */
  next(): Buffer
}

/** @param reader says whether a chunk of the buffer is still in use */
export const createReadBuffer = (reader: { holds(): boolean }): ReadBuffer => {
  let size = firstBytes
  let buffer = Buffer.allocUnsafeSlow(size)
  let small = 0
  return {
    filled: (bytes) => {
      if (bytes === buffer.length) size = Math.min(size * growth, maxBytes)
      small = bytes < size * smallShare ? small + 1 : 0
      if (small < smallReads || size === firstBytes) return
      size /= growth
      small = 0
    },
    next: () => {
      if (size !== buffer.length || reader.holds()) buffer = Buffer.allocUnsafeSlow(size)
      return buffer
    },
  }
}

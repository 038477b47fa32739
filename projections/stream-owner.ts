import type { StreamName } from '../src/terms/streams.ts'

/** Whose stream it is: `acc_…` of `ledger-acc_…`. Kinds of streams have no dash, so the first one ends the kind. */
export const ownerOf = (stream: StreamName): string => stream.slice(stream.indexOf('-') + 1)

import { streamPrefixes } from '../../../terms/streams.ts'
import type { AppendItem } from '../port.ts'

/** Whether readers of the log see this stream: the server holds its own streams too, and perhaps other programs'. */
export const isOurs = (stream: string): boolean => streamPrefixes.some((prefix) => stream.startsWith(prefix))

/** @throws Error for a stream that no reader of the log would ever see: a bug */
export const assertOurs = (items: readonly AppendItem[]): void => {
  for (const { appends } of items)
    for (const { stream } of appends)
      if (!isOurs(stream))
        throw new Error(`stream ${stream} has none of the prefixes of src/terms/streams.ts`)
}

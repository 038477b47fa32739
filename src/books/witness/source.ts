import type { Store } from '../../platform/outgoing/store/store.ts'
import { SealsFileRefused } from '../audit/seals-file.ts'
import { parseRecord, recordName, type SealRecord } from './record.ts'

const named = (name: string, text: string): SealRecord => {
  try {
    return parseRecord(text)
  } catch (error) {
    if (error instanceof SealsFileRefused) throw new SealsFileRefused(`${name}: ${error.message}`)
    throw error
  }
}

/**
 * The records of a place from a revision on, up to the first name that it does not have.
 * @throws StoreFailed, SealsFileRefused where a file is no record or not the one of its name
 */
export async function* recordsAt(store: Pick<Store, 'get'>, from: number): AsyncIterable<SealRecord> {
  for (let revision = from; ; revision += 1) {
    const name = recordName(revision)
    const text = await store.get(name)
    if (text === null) return
    const record = named(name, text)
    if (record.revision !== revision)
      throw new SealsFileRefused(`${name}: it is the seal of revision ${record.revision}`)
    yield record
  }
}

/**
 * The records of a text, one a line: the files of a place one after another.
 * @throws SealsFileRefused
 */
export const recordsIn = (text: string): readonly SealRecord[] => {
  if (text !== '' && !text.endsWith('\n'))
    throw new SealsFileRefused('its last line has no end: it was cut off')
  return text
    .split('\n')
    .slice(0, -1)
    .map((line, at) => named(`line ${at + 1}`, `${line}\n`))
}

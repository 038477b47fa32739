import { FileProblem } from './problem.ts'

/** One record of a CSV file, and the line of the file on which it begins, from 1. */
export type CsvRecord = { readonly line: number; readonly cells: readonly string[] }

/** What separates cells. */
export const separators = { comma: ',', semicolon: ';', tab: '\t' } as const
export type Separator = keyof typeof separators

/** A statement's record has some hundred columns at most, a few kilobytes: anything larger is another file. */
const maxCells = 2_000
const maxRecordLength = 1_000_000

/** How many lines of a chunk end before its first byte that is no UTF-8. Its first bytes may end a character before it. */
const linesBefore = (chunk: Uint8Array): number => {
  const begins = chunk.findIndex((byte) => (byte & 0xc0) !== 0x80)
  const text = new TextDecoder().decode(chunk.subarray(Math.max(0, begins)))
  return text.slice(0, text.indexOf('\ufffd')).split('\n').length - 1
}

/** Bytes as text, UTF-8 with or without a byte order mark. */
async function* textOf(chunks: AsyncIterable<Uint8Array>, line: () => number): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const decode = (chunk?: Uint8Array): string => {
    try {
      return chunk ? decoder.decode(chunk, { stream: true }) : decoder.decode()
    } catch {
      const at = line() + (chunk ? linesBefore(chunk) : 0)
      throw new FileProblem(at, 'this is no UTF-8 text; a statement is a CSV file in UTF-8')
    }
  }
  for await (const chunk of chunks) yield decode(chunk)
  yield decode()
}

/**
 * Reads comma-separated values (RFC 4180) as they come: no more than a record is held. Lines end with LF or CRLF; empty
 * ones are passed over.
 * @throws FileProblem for a quote out of place, a record or a number of cells past every statement's, and no UTF-8
 */
export async function* csvRecords(
  chunks: AsyncIterable<Uint8Array>,
  separator: string,
): AsyncGenerator<CsvRecord> {
  let line = 1
  let begun = 1
  let cells: string[] = []
  let cell = ''
  let length = 0
  /** `start` of a cell, `bare` in one, `quoted` in quotes, `closed` after a quote that may have ended them, `cr` after CR. */
  let state: 'start' | 'bare' | 'quoted' | 'closed' | 'cr' = 'start'

  const endCell = (): void => {
    cells.push(cell)
    cell = ''
    state = 'start'
    if (cells.length > maxCells) throw new FileProblem(begun, `more than ${maxCells} cells`)
  }
  const endRecord = (): CsvRecord | null => {
    const isEmpty = cells.length === 0 && cell === '' && state !== 'closed'
    endCell()
    const record = { line: begun, cells }
    cells = []
    length = 0
    return isEmpty ? null : record
  }
  const refuseQuote = (): never => {
    throw new FileProblem(
      line,
      'a quote out of place: a cell with quotes in it stands in quotes, each doubled',
    )
  }

  for await (const text of textOf(chunks, () => line)) {
    for (const character of text) {
      length += character.length
      if (length > maxRecordLength)
        throw new FileProblem(begun, `more than ${maxRecordLength} characters in one record`)
      if (character === '\0') throw new FileProblem(line, 'a NUL character; a statement is a CSV file')
      if (state === 'quoted') {
        if (character === '"') state = 'closed'
        else cell += character
        if (character === '\n') line += 1
      } else if (character === '\n') {
        line += 1
        const record = endRecord()
        begun = line
        if (record) yield record
      } else if (state === 'cr') {
        throw new FileProblem(line, 'a carriage return inside a line; lines end with LF or CRLF')
      } else if (character === '"') {
        if (state === 'bare') refuseQuote()
        if (state === 'closed') cell += '"'
        state = 'quoted'
      } else if (character === separator) endCell()
      else if (character === '\r') state = 'cr'
      else if (state === 'closed') refuseQuote()
      else {
        cell += character
        state = 'bare'
      }
    }
  }
  if (state === 'quoted') throw new FileProblem(begun, 'a quote that nothing ends: the file is cut off')
  const last = cells.length > 0 || cell !== '' || state === 'closed' ? endRecord() : null
  if (last) yield last
}

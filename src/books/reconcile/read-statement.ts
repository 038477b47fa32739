import { cellsOf, headingKey } from './cells.ts'
import { csvRecords } from './csv-records.ts'
import type { Layout, StatementFormat } from './layout.ts'
import { FileProblem } from './problem.ts'
import type { StatementLine } from './statement-line.ts'

const namesOf = (column: string | readonly string[]): readonly string[] =>
  typeof column === 'string' ? [column] : column

const missingIn = (has: (name: string) => boolean, { columns }: Layout): readonly string[] =>
  columns.filter((column) => !namesOf(column).some(has)).map((column) => namesOf(column).join(' or '))

/** Why no report of the provider has this heading: what each of them would need, and lacks. */
const noLayout = (
  line: number,
  { provider, layouts }: StatementFormat,
  has: (name: string) => boolean,
): FileProblem => {
  const wanted = layouts.map((layout) => `"${layout.name}" lacks ${missingIn(has, layout).join(', ')}`)
  return new FileProblem(
    line,
    `this is the heading of no report of ${provider} that is read: ${wanted.join('; ')}`,
  )
}

/** A file of a provider, told by its heading: which report it is, and its lines as they come. */
export type OpenedStatement = { readonly layout: Layout; readonly lines: AsyncGenerator<StatementLine> }

/**
 * Opens a statement; nothing but its heading is read yet.
 * @throws FileProblem here and while the lines are read
 */
export const openStatement = async (
  chunks: AsyncIterable<Uint8Array>,
  format: StatementFormat,
  separator: string,
): Promise<OpenedStatement> => {
  const records = csvRecords(chunks, separator)
  const first = await records.next()
  if (first.done) throw new FileProblem(1, 'the file is empty; its first line names the columns')
  const columns = new Map<string, number>()
  const twice = new Set<string>()
  for (const [at, heading] of first.value.cells.entries()) {
    const key = headingKey(heading)
    if (key !== '' && columns.has(key)) twice.add(key)
    if (key !== '') columns.set(key, at)
  }
  const has = (name: string): boolean => columns.has(headingKey(name))
  const layout = format.layouts.find((each) => missingIn(has, each).length === 0)
  if (!layout) throw noLayout(first.value.line, format, has)
  const doubled = layout.columns.flatMap(namesOf).find((name) => twice.has(headingKey(name)))
  if (doubled !== undefined) throw new FileProblem(first.value.line, 'the heading has it twice', doubled)
  const width = first.value.cells.length
  const lines = async function* (): AsyncGenerator<StatementLine> {
    const read = layout.start()
    for await (const record of records) {
      if (record.cells.length !== width)
        throw new FileProblem(record.line, `${record.cells.length} cells, where the heading has ${width}`)
      const line = read(cellsOf(columns, record))
      if (line) yield line
    }
  }
  return { layout, lines: lines() }
}

/** A statement's file cannot be read as one. The message says where and what is accepted; the file's name is not in it. */
export class FileProblem extends Error {
  override readonly name = 'FileProblem'
  /** @param line of the file, from 1 */
  constructor(line: number, what: string, column?: string) {
    const where = column === undefined ? `line ${line}` : `line ${line}, column "${column}"`
    super(`${where}: ${what}`)
  }
}

const shownLength = 40

/** What stands in a file, for a message: short, and without anything that a terminal would act on. */
export const shown = (text: string): string =>
  JSON.stringify(text.length > shownLength ? `${text.slice(0, shownLength)}…` : text)

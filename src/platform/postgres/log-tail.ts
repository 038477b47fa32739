import { readFile } from 'node:fs/promises'

/** The last lines of a program's log, for a message. */
export const tailOf = async (logFile: string): Promise<string> =>
  (await readFile(logFile, 'utf8')).trim().split('\n').slice(-8).join('\n')

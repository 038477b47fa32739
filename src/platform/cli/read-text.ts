import { readFile } from 'node:fs/promises'
import { CliMisuse } from './output.ts'

/**
 * The text of a file that was named on the command line, UTF-8.
 * @param code of the refusal; left out: `invalid_parameter`
 * @throws CliMisuse when it cannot be read
 */
export const readText = async (file: string, code?: string): Promise<string> => {
  try {
    return await readFile(file, 'utf8')
  } catch (error) {
    throw new CliMisuse(`${file} cannot be read: ${(error as Error).message}`, {}, code)
  }
}

import { type ParseArgsOptionsConfig, parseArgs } from 'node:util'

/** Prints a message, and ends the process with the exit code of wrong use. */
export const refuse = (message: string): never => {
  process.stderr.write(`error: ${message.trimEnd()}\n`)
  process.exit(2)
}

/** The options of a command for developers. `--help` prints the usage and ends the process; so does a wrong option. */
export const readOptions = <const Options extends ParseArgsOptionsConfig>(
  usage: string,
  options: Options,
  allowPositionals = false,
) => {
  const read = () =>
    parseArgs({ options: { ...options, help: { type: 'boolean', short: 'h' } }, allowPositionals })
  let parsed: ReturnType<typeof read>
  try {
    parsed = read()
  } catch (error) {
    return refuse(`${(error as Error).message}\n\n${usage}`)
  }
  if (!process.argv.includes('--help') && !process.argv.includes('-h')) return parsed
  process.stdout.write(`${usage.trimEnd()}\n`)
  return process.exit()
}

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import { promisify } from 'node:util'
import { surroundings } from './farebox.ts'
import { operate } from './operator.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')

export const pageOf = (file: string): string => readFileSync(join(root, file), 'utf8')

/** The blocks of a page that a reader copies into a shell. */
export const blocksOf = (page: string): readonly string[] =>
  [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)

const quoted = (value: string): string => `'${value.replaceAll("'", `'\\''`)}'`

/**
 * `bin/farebox …` sends its folder, arguments and settings to the listener and runs the answer, which is shell. A request
 * that is refused ends the script.
 */
const functionsFor = (port: number): string => `
farebox() {
  eval "$({ printf '%s\\0' "$PWD" $# "$@"; env -0; } |
    command curl -sS --fail --data-binary @- http://127.0.0.1:${port}/ || echo 'return 70')"
}
curl() { command curl -S --fail-with-body "$@"; }
`

/** Runs a command line in the folder of the shell. The listener runs one at a time. */
const inFolder = async <Value>(cwd: string, work: () => Promise<Value>): Promise<Value> => {
  const before = process.cwd()
  process.chdir(cwd)
  try {
    return await work()
  } finally {
    process.chdir(before)
  }
}

const listen = async (t: TestContext): Promise<number> => {
  let last: Promise<unknown> = Promise.resolve()
  const server = createServer(async (request, response) => {
    const [cwd = '', count = '', ...rest] = (await text(request)).split('\0')
    const settings = rest.slice(Number(count), -1).map((line) => {
      const at = line.indexOf('=')
      return [line.slice(0, at), line.slice(at + 1)]
    })
    const ran = last.then(() =>
      inFolder(cwd, () => operate(rest.slice(0, Number(count)), Object.fromEntries(settings))),
    )
    last = ran.catch(() => undefined)
    const { code, out, err } = await ran
    response.end(`printf %s ${quoted(out)}; printf %s ${quoted(err)} >&2; return ${code}`)
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** A command name with a slash never is a function of the shell. */
const withFunction = (block: string): string => block.replaceAll(/(?<![\w/.-])bin\/farebox/g, 'farebox')

/** A block of a page, for a server that has an address and a folder of its own. */
export const blockFor = (
  block: string,
  { baseUrl, env }: { readonly baseUrl?: string; readonly env: NodeJS.ProcessEnv },
): string =>
  block.replaceAll('http://127.0.0.1:3000', baseUrl ?? '$&').replaceAll('.farebox/', `${env.FAREBOX_DATA}/`)

/**
 * A shell that runs blocks of a page as printed. `bin/farebox …` runs in this process, with the folder and the settings
 * of the shell. A shell that fails rejects with `code`, `stdout` and `stderr`.
 */
export const pageShell = async (
  t: TestContext,
  reader: { readonly env: NodeJS.ProcessEnv; readonly baseUrl?: string; readonly cwd?: string | undefined },
) => {
  const { env, baseUrl, cwd = root } = reader
  const functions = functionsFor(await listen(t))
  // The reader's server has the usual port, this one has its own.
  const port = baseUrl === undefined ? {} : { PORT: new URL(baseUrl).port }
  return (block: string) =>
    run(
      'bash',
      ['--norc', '-euo', 'pipefail', '-c', `${functions}\n${withFunction(blockFor(block, reader))}`],
      {
        cwd,
        env: { ...surroundings(), ...env, ...port },
        maxBuffer: 16 * 1024 * 1024,
      },
    )
}
